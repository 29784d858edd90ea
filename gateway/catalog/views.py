"""What discovery knows of each view, and whom the backend refuses its listing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakValueDictionary

import structlog

from gateway.catalog.doubt import Doubt
from gateway.errors import CatalogUnavailable, Forbidden, GatewayError, Unauthorized
from gateway.listing.dialect import NoListing
from gateway.model import AccessToken, Caller, Catalog, Listing, View

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
    fallback is shown in its place. Only the shared view's ``listing`` is kept: ten thousand callers' would weigh too
    much, and equal catalogs may come of listings that differ in what curation hides.
    """

    view: View
    listing: Listing | None = None
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
    denial: Denial | None = None
    refresh: asyncio.Task[None] | None = field(default=None, repr=False)

    def forget(self) -> None:
        """Nothing of what was shown may be shown again; it is asked for anew."""
        self.catalog = self.listing = self.departed = None
        self.fresh_until = self.retry_at = 0.0

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
        """Raises the refusal that holds for this caller."""
        if self.denial is not None and self.denies(caller, now):
            raise self.denial.error.with_traceback(None) from self.failure


class Equals:
    """Equal catalogs of different callers are one in memory."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[str, Catalog] = WeakValueDictionary()

    def one_of(self, catalog: Catalog) -> Catalog:
        known = self._known.setdefault(catalog.digest, catalog)
        return known if _remarks(known) == _remarks(catalog) else catalog


def _remarks(catalog: Catalog) -> tuple[object, ...]:
    return catalog.dialect, catalog.quarantined, catalog.drifted, catalog.notes


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
