"""Finding which dialect a backend speaks: cheapest and safest questions first, one at a time, first hit wins.

Nothing is asked that could change state, no ``params`` are sent, and no batch: some services crash on either. An
unknown method may cost two seconds (aria2 punishes guessing), so each question has a short patience.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.listing.dialect import Dialect, NoListing, Source, Step
from gateway.listing.drupal import Drupal
from gateway.listing.introspection import Introspection
from gateway.listing.jsonrpc_mcp import JsonrpcMcp
from gateway.listing.openrpc import OpenRpc
from gateway.listing.static import Static
from gateway.model import Listing, Seen

PATIENCE: Final = 3.0
"""Seconds for one question while probing."""


class Described:
    """Service descriptions that are recognized but cannot be read yet, so that the operator learns what to do."""

    name = "describe"

    async def fetch(self, source: Source) -> Listing:
        steps = []
        for question in ("rpc.describe", "system.describe"):
            seen = await source.call(question)
            if seen.found and isinstance(seen.value, dict) and ("methods" in seen.value or "procs" in seen.value):
                count = len(seen.value.get("methods") or seen.value.get("procs") or ())
                seen = Seen(
                    f"a service description with {count} methods, a form that is not read yet; "
                    "list the methods in a file (backend.listing.dialect: static)"
                )
            elif seen.found:
                seen = Seen("JSON, but no service description")
            steps.append(Step(question, seen))
            if seen.unreachable:
                break
        raise NoListing(steps)


DIALECTS: Final[dict[str, Dialect]] = {
    dialect.name: dialect for dialect in (JsonrpcMcp(), Drupal(), OpenRpc(), Introspection(), Static())
}

_ORDER: Final[tuple[Dialect, ...]] = (JsonrpcMcp(), Drupal(), OpenRpc(), Described(), Introspection())


async def probe(source: Source, progress: Callable[[str], None] = lambda _: None) -> Listing:
    """The listing in the first dialect that the backend speaks.

    Raises :class:`NoListing` with every step where it speaks none, where it cannot be reached, and where it has
    jsonrpc_mcp but shows it to others only: the wider list of the jsonrpc module would then publish methods that the
    site's owner held back.
    """
    steps: list[Step] = []
    for dialect in _ORDER:
        progress(dialect.name)
        try:
            listing = await dialect.fetch(source)
        except NoListing as error:
            steps += error.steps
            if error.unreachable:
                break
            continue
        if listing.dialect == Drupal.name and any(step.saw.denied for step in steps):
            raise NoListing([*steps, Step("GET " + "/jsonrpc/methods", _HELD_BACK)])
        return listing
    raise NoListing(steps)


_HELD_BACK: Final = Seen(
    "a listing, not used since the narrower one was denied; "
    "set backend.listing.dialect: drupal to offer all of its methods",
    denied=True,
)
