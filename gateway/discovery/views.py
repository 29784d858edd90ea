"""What discovery knows of each view, and whom the backend refuses its listing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Final

import structlog
from cachetools import LRUCache

from gateway.background import retry_delay
from gateway.discovery.shrink_guard import ShrinkGuard
from gateway.errors import CatalogUnavailable, Forbidden, GatewayError, Unauthorized
from gateway.listing.dialect import NoListing
from gateway.model import AccessToken, Caller, Catalog, Listing, View

MAX_VIEWS: Final = 10_000
MAX_LISTED: Final = 16 * 1024**2
"""Bytes that the backend sent for the listings of callers that are kept. In memory they take some times as much."""
DENIED_TTL: Final = 5.0
"""Seconds for which a caller who was refused the listing is not asked for again."""
_RETRY_AFTER: Final = 5
_UNAVAILABLE: Final = "The backend's methods cannot be listed at the moment"

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ListingRefusal:
    """The backend's refusal to list for one token; a caller who comes with another one is asked for anew."""

    error: GatewayError
    token: AccessToken | None
    until: float


@dataclass(slots=True)
class ViewState:
    """What is known for one view; times are those of discovery's clock.

    ``shown_digest`` is of what was last shown, ``previous`` the catalog before the last change, ``serves_fallback``
    whether the fallback is shown in its place, ``failure_reason`` why the last attempt at a listing brought no new one.
    Of callers' own listings, which may be many and large, an entry has only the digest, ``listing_digest``, see
    :class:`Listings`.
    """

    view: View
    listing: Listing | None = None
    listing_digest: str = ""
    catalog: Catalog | None = None
    shown_digest: str = ""
    fresh_until: float = 0.0
    refreshed_at: float = 0.0
    retry_at: float = 0.0
    failures: int = 0
    shrink_guard: ShrinkGuard = field(default_factory=ShrinkGuard)
    previous: Catalog | None = None
    previous_until: float = 0.0
    serves_fallback: bool = False
    failure: Exception | None = None
    failure_reason: str = ""
    refusal: ListingRefusal | None = None
    refresh_task: asyncio.Task[None] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        tools = "no catalog" if self.catalog is None else f"{len(self.catalog.tools)} tools"
        return f"<Entry {self.view.subject or 'shared'}: {tools}, failures={self.failures} {self.failure_reason}>"

    def forget_catalog(self) -> None:
        """Nothing of what was shown may be shown again; it is asked for anew."""
        self.catalog = self.listing = self.previous = None
        self.listing_digest = ""
        self.expire()

    def expire(self) -> None:
        """Ask anew when the caller next comes; what was shown serves until then."""
        self.fresh_until = self.retry_at = 0.0

    def successor(self, *, listing: bool, catalog: bool) -> ViewState:
        """Return the entry that a reload goes on with: what was shown last, with ``listing`` what was listed, and with
        ``catalog`` what was built of it. Where the last attempt failed, the next one need not wait: what the reload
        brought may be the remedy."""
        if not listing:
            return ViewState(self.view, shown_digest=self.shown_digest)
        entry = replace(self, retry_at=0.0, refresh_task=None)
        if not catalog:
            entry.catalog = entry.previous = None
        return entry

    def record_failure(self, failure: Exception, steps: list[str], now: float) -> None:
        """Keep what there is after an attempt that brought nothing."""
        self.failure = failure.with_traceback(None)  # its frames hold what was asked with
        self.failure_reason = "; ".join(steps)
        self.refusal = None
        self.failures += 1
        self.retry_at = now + retry_delay(self.failures)
        served = "nothing" if self.catalog is None else "the last good listing"
        log.warning("listing failed", steps=steps, serving=served, attempts=self.failures)

    def record_refusal(self, caller: Caller, error: GatewayError, now: float) -> None:
        """What a caller may not see any more is gone at once, however fresh."""
        retry_at = self.retry_at
        self.forget_catalog()
        until = now + DENIED_TTL
        if self.view.is_shared:
            until = self.retry_at = max(until, retry_at)
        else:
            self.failures = 0  # another token is asked with at once
        self.refusal = ListingRefusal(error, listing_token(caller), until)

    def refuses(self, caller: Caller, now: float) -> bool:
        refusal = self.refusal
        return refusal is not None and now < refusal.until and refusal.token == listing_token(caller)

    def unavailable_error(self, now: float) -> CatalogUnavailable:
        """The answer while there is nothing to show."""
        return CatalogUnavailable(_UNAVAILABLE, retry_after=max(1, round(self.retry_at - now + 0.5)))

    def check_refusal(self, caller: Caller, now: float) -> None:
        """Raises the refusal that holds for this caller, if there is one."""
        if self.refusal is not None and self.refuses(caller, now):
            raise self.refusal.error.with_traceback(None) from self.failure


class Views(LRUCache[View, ViewState]):
    """The entries of the most recent :data:`MAX_VIEWS` views; a view that is asked for gets one."""

    def __init__(self) -> None:
        super().__init__(MAX_VIEWS)

    def __missing__(self, view: View) -> ViewState:
        entry = self[view] = ViewState(view)
        return entry


class Listings:
    """Hold callers' own listings by digest, the most recent of them, so that a reload can build their catalogs anew
    without asking. Callers with equal listings share one."""

    def __init__(self, most: int = MAX_LISTED) -> None:
        self._by_digest: LRUCache[str, Listing] = LRUCache(most, getsizeof=lambda listing: listing.size)

    def __contains__(self, digest: str) -> bool:
        return digest in self._by_digest

    def __getitem__(self, digest: str) -> Listing:
        return self._by_digest[digest]

    def add(self, listing: Listing) -> str:
        """Return the digest under which the listing is found, empty where it is too large to be kept."""
        if not listing.digest or listing.size > self._by_digest.maxsize:
            return ""
        self._by_digest[listing.digest] = listing
        return listing.digest


def listing_token(caller: Caller) -> AccessToken | None:
    """The token that a listing is asked for with, or in exchange for."""
    return None if caller.view.is_shared or caller.principal is None else caller.principal.token


def listing_refusal_error(view: View, error: NoListing, *, uses_callers_token: bool) -> GatewayError:
    """What a backend's refusal to list means to whoever asked."""
    if view.is_shared:
        return Unauthorized("The backend lists nothing to callers without a token")
    if error.unauthorized and not uses_callers_token:
        log.error("the backend does not accept the gateway's credential")
        return CatalogUnavailable(_UNAVAILABLE, retry_after=_RETRY_AFTER)
    if error.unauthorized:
        log.error(
            "the conditions of same_resource do not hold: the backend refuses a token that was accepted here",
            issuer=view.issuer,
        )
        return Unauthorized("The backend does not accept this token", error="invalid_token")
    return Forbidden("The backend lists no methods for this caller")
