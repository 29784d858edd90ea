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
from gateway.listing.dialect import Dialect, ListingSource, NoListing, Step
from gateway.listing.drupal import Drupal
from gateway.listing.help import Help
from gateway.listing.introspection import SystemIntrospection
from gateway.listing.jsonrpc_mcp import JsonrpcMcp
from gateway.listing.kodi import Kodi
from gateway.listing.mopidy import Mopidy
from gateway.listing.openrpc import OpenRpc
from gateway.listing.plain import Plain
from gateway.listing.smd import Smd
from gateway.listing.static import Static
from gateway.listing.truenas import TrueNas
from gateway.listing.ubus import Ubus
from gateway.model import Listing, SourceAnswer

PATIENCE: Final = 3.0
"""Seconds for one question while probing."""

_ALL_DIALECTS: Final[tuple[Dialect, ...]] = (
    JsonrpcMcp(),
    Drupal(),
    OpenRpc(),
    Smd(),
    Describe(),
    SystemIntrospection(),
    Kodi(),
    Mopidy(),
    Help(),
    Plain(),
    TrueNas(),
    Ubus(),
    Static(),
    Custom(),
)

DIALECTS: Final[dict[str, Dialect]] = {dialect.name: dialect for dialect in _ALL_DIALECTS}
"""Every dialect by its name, in the order of probing."""


async def probe_dialects(source: ListingSource, progress: Callable[[str], None] = lambda _: None) -> Listing:
    """The listing in the first dialect that the backend speaks.

    Raises :class:`NoListing` with every step where it speaks none, where it cannot be reached, and where it has
    jsonrpc_mcp but shows it to others only: the wider list of the jsonrpc module would then publish methods that the
    site's owner held back.
    """
    source = _CachingSource(source)
    steps: list[Step] = []
    for dialect in DIALECTS.values():
        if not dialect.about.probed:
            continue
        progress(dialect.name)
        try:
            listing = await dialect.fetch_listing(source)
        except NoListing as error:
            steps += [step for step in error.steps if step not in steps]
            if error.unreachable:
                break
            continue
        if listing.dialect == Drupal.name and any(step.answer.denied for step in steps):
            raise NoListing([*steps, Step("GET " + "/jsonrpc/methods", _HELD_BACK)])
        return listing
    raise NoListing(steps)


class _CachingSource:
    """A source that is asked a question once, however many dialects look for their listing in the same place."""

    def __init__(self, source: ListingSource) -> None:
        self._source = source
        self._answers: dict[str, SourceAnswer] = {}
        self.url, self.base, self.origin = source.url, source.base, source.origin
        self.listing_url, self.file, self.custom = source.listing_url, source.file, source.custom
        self.documents = source.documents

    async def call_method(self, method: str, params: Any = None) -> SourceAnswer:
        if params is not None:
            return await self._source.call_method(method, params)
        if method not in self._answers:
            self._answers[method] = await self._source.call_method(method)
        return self._answers[method]

    async def get_document(self, url: str) -> SourceAnswer:
        if url not in self._answers:
            self._answers[url] = await self._source.get_document(url)
        return self._answers[url]

    async def read_file(self, file: str) -> bytes:
        return await self._source.read_file(file)


_HELD_BACK: Final = SourceAnswer(
    "a listing, not used since the narrower one was denied; "
    "set backend.listing.dialect: drupal to offer all of its methods",
    denied=True,
)
