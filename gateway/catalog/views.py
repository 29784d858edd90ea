"""What discovery knows of each view, and whom the backend refuses its listing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakValueDictionary

import structlog
from cachetools import LRUCache

from gateway.catalog.doubt import Doubt
from gateway.catalog.hiding import Change
from gateway.errors import CatalogUnavailable, Forbidden, GatewayError, Unauthorized
from gateway.listing.dialect import NoListing
from gateway.model import AccessToken, Caller, Catalog, Listing, View
from gateway.settings import CatalogSettings

MAX_VIEWS: Final = 10_000
DENIED_TTL: Final = 5.0
"""Seconds for which a caller who was refused the listing is not asked for again."""
_RETRY_AFTER: Final = 5
_BACKOFF: Final = (1.0, 2.0, 5.0, 15.0, 30.0)
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

    ``built_by`` are the knobs that the catalog was built by, ``digest`` is of what was last shown, ``departed`` the
    catalog before the last change, ``stands_in`` whether the fallback is shown in its place, ``trouble`` why the last
    attempt at a listing brought no new one. Only the shared view's ``listing`` is kept: ten thousand callers' would
    weigh too much, and equal catalogs may come of listings that differ in what curation hides.
    """

    view: View
    listing: Listing | None = None
    catalog: Catalog | None = None
    built_by: CatalogSettings | None = None
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

    def forget(self) -> None:
        """Nothing of what was shown may be shown again; it is asked for anew."""
        self.catalog = self.listing = self.departed = None
        self.expire()

    def expire(self) -> None:
        """Ask anew when the caller next comes; what was shown serves until then."""
        self.fresh_until = self.retry_at = 0.0

    def follow(self, change: Change) -> None:
        """Go on under other knobs: what was shown is stale, and gone where the change hides something of it."""
        if self.catalog is not None and change.hides(self.catalog):
            self.forget()
        self.built_by = change.after
        self.expire()

    def fail(self, failure: Exception, steps: list[str], now: float) -> None:
        """Keep what there is after an attempt that brought nothing."""
        self.failure = failure.with_traceback(None)  # its frames hold what was asked with
        self.trouble = "; ".join(steps)
        self.denial = None
        self.retry_at = now + _BACKOFF[min(self.failures, len(_BACKOFF) - 1)]
        self.failures += 1
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
        """Raises the refusal that holds for this caller."""
        if self.denial is not None and self.denies(caller, now):
            raise self.denial.error.with_traceback(None) from self.failure


class Views:
    """What is known of each view, of the most recent :data:`MAX_VIEWS`. ``settings`` gives the current knobs."""

    def __init__(self, settings: Callable[[], CatalogSettings]) -> None:
        self._settings = settings
        self._entries: LRUCache[View, Entry] = LRUCache(MAX_VIEWS)
        self._change: Change | None = None

    def __iter__(self) -> Iterator[Entry]:
        for view in list(self._entries):
            entry = self.get(view)
            if entry is not None:  # others may take its place while this goes on
                yield entry

    def get(self, view: View) -> Entry | None:
        """The entry of a view that was asked for before."""
        return self[view] if view in self._entries else None

    def __getitem__(self, view: View) -> Entry:
        """The entry of a view, a new one where there is none. A caller's listing is not kept, so its catalog cannot be
        built again when the knobs change: it goes on as :meth:`Entry.follow` says."""
        entry = self._entries.get(view)
        if entry is None:
            entry = self._entries[view] = Entry(view)
        knobs = self._settings()
        if entry.built_by is not None and entry.built_by is not knobs and not view.shared:
            change = self._change
            if change is None or change.before is not entry.built_by or change.after is not knobs:
                change = self._change = Change(entry.built_by, knobs)
            entry.follow(change)
        return entry


class Equals:
    """Equal catalogs of different callers are one in memory."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[str, Catalog] = WeakValueDictionary()

    def one_of(self, catalog: Catalog) -> Catalog:
        known = self._known.setdefault(catalog.digest, catalog)
        return known if _remarks(known) == _remarks(catalog) else catalog


def _remarks(catalog: Catalog) -> tuple[object, ...]:
    return catalog.dialect, catalog.quarantined, catalog.drifted, catalog.notes, catalog.service


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
