"""Refuse listings that suddenly shrink or grow.

A sudden change is more often a fault of the backend than a decision of its operator. A listing that is empty, or lost
more than half of its tools and ten at least, is accepted once the backend has repeated it for :data:`CONFIRMED_AFTER`;
until then the last good one serves. A listing beyond :data:`MAX_TOOLS` is never used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.catalog.curation import Curation
from gateway.listing.dialect import NoListing, Step
from gateway.model import Listing, SourceAnswer
from gateway.settings import CatalogSettings

CONFIRMED_AFTER: Final = 60.0
"""Seconds for which a listing that shrank has to stay so."""
RETRY_AFTER: Final = CONFIRMED_AFTER / 4
MAX_TOOLS: Final = 5000
"""Methods that one service may offer."""
_MANY: Final = 10


@dataclass(slots=True)
class ShrinkGuard:
    """Hold since when the listings of one view have been too small: ``shrunk_since``, by the clock of discovery."""

    shrunk_since: float | None = None

    def accepts(self, before: int, after: int, now: float) -> bool:
        """Tell whether a listing with ``after`` tools may replace one with ``before``."""
        shrinks = after == 0 < before or (2 * after < before and before - after >= _MANY)
        if not shrinks:
            self.shrunk_since = None
            return True
        if self.shrunk_since is None:
            self.shrunk_since = now
        if now - self.shrunk_since < CONFIRMED_AFTER:
            return False
        self.shrunk_since = None
        return True


def check_listing_size(listing: Listing, settings: CatalogSettings) -> None:
    """Raise :class:`NoListing` for more methods than :data:`MAX_TOOLS`, before any tool is built of them."""
    if len(listing.methods) <= MAX_TOOLS:
        return
    offers = Curation(settings).offers
    offered = sum(offers(method.name) for method in listing.methods)
    if offered > MAX_TOOLS:
        what = f"{offered} methods to offer, more than {MAX_TOOLS}; narrow catalog.include"
        raise NoListing([Step("the listing", SourceAnswer(what))])
