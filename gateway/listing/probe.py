"""Finding which dialect a backend speaks: cheapest and safest questions first, one at a time, first hit wins.

Nothing is asked that could change state, no ``params`` are sent, and no batch: some services crash on either. An
unknown method may cost two seconds (aria2 punishes guessing), so each question has a short patience, and what belongs
to one product only comes after what many speak. A form without a specification comes after those with one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gateway.listing.custom import Custom
from gateway.listing.describe import Describe
from gateway.listing.dialect import Dialect, NoListing, Source, Step
from gateway.listing.drupal import Drupal
from gateway.listing.help import Help
from gateway.listing.introspection import Introspection
from gateway.listing.jsonrpc_mcp import JsonrpcMcp
from gateway.listing.kodi import Kodi
from gateway.listing.mopidy import Mopidy
from gateway.listing.openrpc import OpenRpc
from gateway.listing.plain import Plain
from gateway.listing.smd import Smd
from gateway.listing.static import Static
from gateway.listing.truenas import TrueNas
from gateway.listing.ubus import Ubus
from gateway.model import Listing, Seen

PATIENCE: Final = 3.0
"""Seconds for one question while probing."""

_KNOWN: Final[tuple[Dialect, ...]] = (
    JsonrpcMcp(),
    Drupal(),
    OpenRpc(),
    Smd(),
    Describe(),
    Introspection(),
    Kodi(),
    Mopidy(),
    Help(),
    Plain(),
    TrueNas(),
    Ubus(),
    Static(),
    Custom(),
)

DIALECTS: Final[dict[str, Dialect]] = {dialect.name: dialect for dialect in _KNOWN}
"""Every dialect by its name, in the order of probing."""


async def probe(source: Source, progress: Callable[[str], None] = lambda _: None) -> Listing:
    """The listing in the first dialect that the backend speaks.

    Raises :class:`NoListing` with every step where it speaks none, where it cannot be reached, and where it has
    jsonrpc_mcp but shows it to others only: the wider list of the jsonrpc module would then publish methods that the
    site's owner held back.
    """
    source = _Remembering(source)
    steps: list[Step] = []
    for dialect in DIALECTS.values():
        if not dialect.about.probed:
            continue
        progress(dialect.name)
        try:
            listing = await dialect.fetch(source)
        except NoListing as error:
            steps += [step for step in error.steps if step not in steps]
            if error.unreachable:
                break
            continue
        if listing.dialect == Drupal.name and any(step.saw.denied for step in steps):
            raise NoListing([*steps, Step("GET " + "/jsonrpc/methods", _HELD_BACK)])
        return listing
    raise NoListing(steps)


class _Remembering:
    """A source that is asked a question once, however many dialects look for their listing in the same place."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._seen: dict[str, Seen] = {}
        self.url, self.base, self.origin = source.url, source.base, source.origin
        self.place, self.file, self.custom = source.place, source.file, source.custom
        self.documents = source.documents

    async def call(self, method: str, params: Any = None) -> Seen:
        if params is not None:
            return await self._source.call(method, params)
        if method not in self._seen:
            self._seen[method] = await self._source.call(method)
        return self._seen[method]

    async def get(self, url: str) -> Seen:
        if url not in self._seen:
            self._seen[url] = await self._source.get(url)
        return self._seen[url]

    async def read(self, file: str) -> bytes:
        return await self._source.read(file)


_HELD_BACK: Final = Seen(
    "a listing, not used since the narrower one was denied; "
    "set backend.listing.dialect: drupal to offer all of its methods",
    denied=True,
)
