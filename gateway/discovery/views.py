"""What discovery knows of each view, and whom the backend refuses its listing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Final

import structlog
from cachetools import LRUCache

from gateway.background import retry_delay
from gateway.discovery.shrink_guard import Doubt
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
class Denial:
    """The backend's refusal to list for one token; a caller who comes with another one is asked for anew."""

    error: GatewayError
    token: AccessToken | None
    until: float


@dataclass(slots=True)
class Entry:
    """What is known for one view; times are those of discovery's clock.

    ``digest`` is of what was last shown, ``departed`` the catalog before the last change, ``stands_in`` whether the
    fallback is shown in its place, ``trouble`` why the last attempt at a listing brought no new one. Of callers' own
    listings, which may be many and large, an entry has only the digest, ``listed_as``, see :class:`Listings`.
    """

    view: View
    listing: Listing | None = None
    listed_as: str = ""
    catalog: Catalog | None = None
    digest: str = ""
    fresh_until: float = 0.0
    good_at: float = 0.0
    retry_at: float = 0.0
    failures: int = 0
    doubt: Doubt = field(default_factory=Doubt)
    departed: Catalog | None = None
    departed_until: float = 0.0
    stands_in: bool = False
    failure: Exception | None = None
    trouble: str = ""
    denial: Denial | None = None
    refresh: asyncio.Task[None] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        tools = "no catalog" if self.catalog is None else f"{len(self.catalog.tools)} tools"
        return f"<Entry {self.view.subject or 'shared'}: {tools}, failures={self.failures} {self.trouble}>"

    def forget(self) -> None:
        """Nothing of what was shown may be shown again; it is asked for anew."""
        self.catalog = self.listing = self.departed = None
        self.listed_as = ""
        self.expire()

    def expire(self) -> None:
        """Ask anew when the caller next comes; what was shown serves until then."""
        self.fresh_until = self.retry_at = 0.0

    def succeeded(self, *, listing: bool, catalog: bool) -> Entry:
        """Return the entry that a reload goes on with: what was shown last, with ``listing`` what was listed, and with
        ``catalog`` what was built of it. Where the last attempt failed, the next one need not wait: what the reload
        brought may be the remedy."""
        if not listing:
            return Entry(self.view, digest=self.digest)
        entry = replace(self, retry_at=0.0, refresh=None)
        if not catalog:
            entry.catalog = entry.departed = None
        return entry

    def fail(self, failure: Exception, steps: list[str], now: float) -> None:
        """Keep what there is after an attempt that brought nothing."""
        self.failure = failure.with_traceback(None)  # its frames hold what was asked with
        self.trouble = "; ".join(steps)
        self.denial = None
        self.failures += 1
        self.retry_at = now + retry_delay(self.failures)
        served = "nothing" if self.catalog is None else "the last good listing"
        log.warning("listing failed", steps=steps, serving=served, attempts=self.failures)

    def deny(self, caller: Caller, error: GatewayError, now: float) -> None:
        """What a caller may not see any more is gone at once, however fresh."""
        retry_at = self.retry_at
        self.forget()
        until = now + DENIED_TTL
        if self.view.shared:
            until = self.retry_at = max(until, retry_at)
        else:
            self.failures = 0  # another token is asked with at once
        self.denial = Denial(error, shown_for(caller), until)

    def denies(self, caller: Caller, now: float) -> bool:
        denial = self.denial
        return denial is not None and now < denial.until and denial.token == shown_for(caller)

    def unavailable(self, now: float) -> CatalogUnavailable:
        """The answer while there is nothing to show."""
        return CatalogUnavailable(_UNAVAILABLE, retry_after=max(1, round(self.retry_at - now + 0.5)))

    def check(self, caller: Caller, now: float) -> None:
        """Raises the refusal that holds for this caller, if there is one."""
        if self.denial is not None and self.denies(caller, now):
            raise self.denial.error.with_traceback(None) from self.failure


class Views(LRUCache[View, Entry]):
    """The entries of the most recent :data:`MAX_VIEWS` views; a view that is asked for gets one."""

    def __init__(self) -> None:
        super().__init__(MAX_VIEWS)

    def __missing__(self, view: View) -> Entry:
        entry = self[view] = Entry(view)
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


def shown_for(caller: Caller) -> AccessToken | None:
    """The token that a listing is asked for with, or in exchange for."""
    return None if caller.view.shared or caller.principal is None else caller.principal.token


def refusal_of(view: View, error: NoListing, *, callers_own: bool) -> GatewayError:
    """What a backend's refusal to list means to whoever asked."""
    if view.shared:
        return Unauthorized("The backend lists nothing to callers without a token")
    if error.unauthorized and not callers_own:
        log.error("the backend does not accept the gateway's credential")
        return CatalogUnavailable(_UNAVAILABLE, retry_after=_RETRY_AFTER)
    if error.unauthorized:
        log.error(
            "the conditions of same_resource do not hold: the backend refuses a token that was accepted here",
            issuer=view.issuer,
        )
        return Unauthorized("The backend does not accept this token", error="invalid_token")
    return Forbidden("The backend lists no methods for this caller")
