"""Find which dialect a backend speaks: ask for one after the other, and take the first that answers.

No question changes state. None is a batch or has ``params``, because some services crash on either. An unknown method
may cost two seconds (aria2 slows down guessing), so each question has a short timeout, and dialects of one product come
after those of many. Dialects without a specification come after those with one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from gateway.listing.custom import Custom
from gateway.listing.describe import Describe
from gateway.listing.dialect import Dialect, ListingSource, NoListing, Step
from gateway.listing.drupal import PATH, Drupal
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
    """Return the listing in the first dialect that the backend speaks. Call ``progress`` with each name that is tried.

    Raise :class:`NoListing` with every step where it speaks none, where it cannot be reached, and where it has
    jsonrpc_mcp but denies it to this caller: Drupal's wider listing would then publish methods that the site's owner
    held back.
    """
    source = _CachingSource(source)
    steps: list[Step] = []
    for dialect in DIALECTS.values():
        if not dialect.info.probed:
            continue
        progress(dialect.name)
        try:
            listing = await dialect.fetch_listing(source)
        except NoListing as error:
            steps += [step for step in error.steps if step not in steps]
            if error.unreachable or error.is_partial:
                break
            continue
        # The denied question may be that of jsonrpc_mcp, whose list has fewer methods than Drupal's own.
        if listing.dialect == Drupal.name and any(step.answer.denied for step in steps):
            raise NoListing([*steps, Step(f"GET {PATH}", HELD_BACK)])
        return listing
    raise NoListing(steps)


class _CachingSource:
    """Ask a source each question once, because several dialects look for their listing in the same place."""

    def __init__(self, source: ListingSource) -> None:
        self._source = source
        self._answers: dict[str, SourceAnswer] = {}
        self._text_for_any: str | None = None
        self.url, self.base, self.origin = source.url, source.base, source.origin
        self.listing_url, self.file, self.custom = source.listing_url, source.file, source.custom
        self.documents = source.documents

    async def call_method(self, method: str, params: Any = None) -> SourceAnswer:
        if params is not None:
            return await self._source.call_method(method, params)
        if method not in self._answers:
            self._answers[method] = self._unless_repeated(method, await self._source.call_method(method))
        return self._answers[method]

    def _unless_repeated(self, method: str, answer: SourceAnswer) -> SourceAnswer:
        """Return the answer, unless it is the text that the first method got: some services answer so to any method, in
        words that could pass for names."""
        text = answer.value.replace(method, "") if isinstance(answer.value, str) else ""
        if self._text_for_any is None:
            self._text_for_any = text
        elif text and text == self._text_for_any:
            return replace(answer, summary="JSON, but the text with which it answers any method", has_value=False)
        return answer

    async def get_document(self, url: str) -> SourceAnswer:
        if url not in self._answers:
            self._answers[url] = await self._source.get_document(url)
        return self._answers[url]

    async def read_file(self, file: str) -> bytes:
        return await self._source.read_file(file)


HELD_BACK: Final = SourceAnswer(
    "a listing, not used because the narrower one of jsonrpc_mcp was denied; "
    "set backend.listing.dialect: drupal to offer all of its methods",
    denied=True,
)
