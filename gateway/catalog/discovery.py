"""The current catalog of each view.

Fresh → it. Stale → it, and one refresh in the background. Absent → one refresh that everyone awaits. Refresh failed →
the last good catalog until ``max_stale``, then 503 with Retry-After: never an empty list that a client would believe.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary

import structlog
from cachetools import LRUCache

from gateway.errors import CatalogUnavailable, Forbidden, GatewayError, Unauthorized
from gateway.listing.dialect import NoListing
from gateway.model import SHARED, AccessToken, Caller, Catalog, Listing, View
from gateway.settings import CatalogSettings

MAX_VIEWS: Final = 10_000
EMPTY_TTL: Final = 5.0
"""Seconds for which a first listing without tools is kept: permissions may be on their way."""
DENIED_TTL: Final = 5.0
"""Seconds for which a caller who was refused the listing is not asked for again."""
EMPTY_CONFIRMED_AFTER: Final = 60.0
"""Seconds for which a listing that had tools has to stay empty before that is believed."""
_LEAST_WAIT: Final = 0.05
_BACKOFF: Final = (1.0, 2.0, 5.0, 15.0, 30.0)

log = structlog.get_logger()


class CatalogBuilder(Protocol):
    async def build(self, listing: Listing, settings: CatalogSettings) -> Catalog: ...


@dataclass(frozen=True, slots=True)
class _Denial:
    """The backend's refusal to list for one token; a caller who comes with another one is asked for anew."""

    error: GatewayError
    token: AccessToken | None
    until: float


@dataclass(slots=True)
class _Entry:
    """What is known for one view; times are those of the injected clock. ``digest`` is of what was last shown."""

    view: View
    listing: Listing | None = None
    catalog: Catalog | None = None
    digest: str = ""
    fresh_until: float = 0.0
    good_at: float = 0.0
    retry_at: float = 0.0
    failures: int = 0
    empty_since: float | None = None
    failure: Exception | None = None
    denial: _Denial | None = None
    refresh: asyncio.Task[None] | None = field(default=None, repr=False)


class Discovery:
    """Fetches, builds and keeps catalogs. ``fetch`` asks the backend on a caller's behalf and raises
    :class:`NoListing`; ``settings`` gives the current knobs; ``clock`` is monotonic seconds; ``callers_own`` says that
    it asks with the caller's own token."""

    def __init__(
        self,
        fetch: Callable[[Caller], Awaitable[Listing]],
        builder: CatalogBuilder,
        settings: Callable[[], CatalogSettings],
        clock: Callable[[], float] = time.monotonic,
        *,
        callers_own: bool = False,
    ) -> None:
        self.attempted = asyncio.Event()
        """Set once the first attempt at a listing is over, well or not."""
        self._fetch = fetch
        self._builder = builder
        self._settings = settings
        self._clock = clock
        self._callers_own = callers_own
        self._equal: WeakValueDictionary[str, Catalog] = WeakValueDictionary()
        self._entries: LRUCache[View, _Entry] = LRUCache(MAX_VIEWS)
        self._listeners: list[Callable[[Catalog], None]] = []
        self._watchers: list[Callable[[View], None]] = []

    def on_change(self, listener: Callable[[Catalog], None]) -> None:
        """Have ``listener`` called with each new catalog, before anybody sees it. It must not raise."""
        self._listeners.append(listener)

    def on_changed(self, watcher: Callable[[View], None]) -> None:
        """Have ``watcher`` called once a view shows other tools than before. It must not raise."""
        self._watchers.append(watcher)

    def current(self, view: View = SHARED) -> Catalog | None:
        """The catalog at hand, however old."""
        entry = self._entries.get(view)
        return entry.catalog if entry else None

    def remaining(self, view: View) -> float:
        """Seconds for which the view's catalog is still fresh."""
        entry = self._entries.get(view)
        return max(0.0, entry.fresh_until - self._clock()) if entry else 0.0

    async def catalog(self, caller: Caller) -> Catalog:
        """Raises :class:`CatalogUnavailable`, whose cause is what the last attempt failed with;
        :class:`~gateway.errors.Unauthorized` or :class:`~gateway.errors.Forbidden` where the backend refuses this
        caller the listing."""
        entry = self._entry(caller.view)
        now = self._clock()
        _check_denial(entry, caller, now)
        if entry.catalog is not None and now < entry.fresh_until:
            return entry.catalog
        if entry.catalog is not None and now - entry.good_at <= self._settings().max_stale:
            if now >= entry.retry_at:
                self._start(entry, caller)
            return entry.catalog
        if now < entry.retry_at and entry.refresh is None:
            raise self._unavailable(entry, now) from entry.failure
        await self._joined(entry, caller)
        _check_denial(entry, caller, self._clock())
        if entry.catalog is None or self._clock() - entry.good_at > self._settings().max_stale:
            raise self._unavailable(entry, self._clock()) from entry.failure
        return entry.catalog

    def keep(self, caller: Caller) -> None:
        """Refresh a caller's own view in the background if it is stale: its open streams ask for this."""
        if caller.view.shared:
            return
        entry = self._entry(caller.view)
        now = self._clock()
        if now >= entry.fresh_until and now >= entry.retry_at and not _is_denied(entry, caller, now):
            self._start(entry, caller)

    async def refresh(self, caller: Caller = Caller()) -> None:  # noqa: B008, immutable
        """Ask the backend now; failures are logged and kept, not raised."""
        await asyncio.shield(self._start(self._entry(caller.view), caller))

    async def rebuild(self) -> None:
        """Build the shared catalog again from the listing at hand, after the operator's knobs changed. Callers' own are
        asked for anew when they next come."""
        for entry in self._entries.values():
            if not entry.view.shared:
                entry.catalog, entry.fresh_until, entry.retry_at = None, 0.0, 0.0
        shared = self._entries.get(SHARED)
        listing = shared.listing if shared is not None else None
        if shared is not None and listing is not None:
            catalog = await self._build(listing)
            if shared.listing is listing:  # a refresh in between brought a newer one, built as it should be
                self._adopt(shared, listing, catalog)

    async def keep_fresh(self) -> None:
        """Refresh the shared view shortly before it gets stale, for ever; jittered, so that replicas spread."""
        caller = Caller()
        while True:
            await self.refresh(caller)
            entry = self._entry(SHARED)
            wait = max(entry.fresh_until, entry.retry_at) - self._clock()
            await asyncio.sleep(max(_LEAST_WAIT, wait * random.uniform(0.85, 0.98)))  # noqa: S311, not a secret

    def _entry(self, view: View) -> _Entry:
        entry = self._entries.get(view)
        if entry is None:
            entry = self._entries[view] = _Entry(view)
        return entry

    def _start(self, entry: _Entry, caller: Caller) -> asyncio.Task[None]:
        """The refresh under way, or a new one."""
        if entry.refresh is None:
            entry.refresh = asyncio.create_task(self._refresh(entry, caller))
        return entry.refresh

    async def _joined(self, entry: _Entry, caller: Caller) -> None:
        """Wait for a refresh, and for one more where it was another token of this caller's that was refused."""
        while True:
            # One caller who hangs up must not end the refresh for the others.
            await asyncio.shield(self._start(entry, caller))
            if entry.denial is None or entry.denial.token == _shown(caller):
                return

    async def _build(self, listing: Listing) -> Catalog:
        """A catalog by the knobs that hold at its end: building takes turns of the loop."""
        while True:
            settings = self._settings()
            catalog = await self._builder.build(listing, settings)
            if settings is self._settings():
                return catalog

    async def _refresh(self, entry: _Entry, caller: Caller) -> None:
        started = time.perf_counter()
        try:
            # What everybody sees is not asked for in anybody's name.
            listing = await self._fetch(Caller(caller.address, caller.language) if entry.view.shared else caller)
            catalog = await self._build(listing)
        except NoListing as error:
            self._failed(entry, error, [str(step) for step in error.steps])
            if error.denied and (self._callers_own or not entry.view.shared):
                self._drop(entry, caller, self._refusal(entry, error))
        except GatewayError as error:
            self._failed(entry, error, [error.message])
            if error.refuses and error.status < 500:
                self._drop(entry, caller, error)
        except Exception as error:
            log.exception("listing failed unexpectedly")
            self._failed(entry, error, [type(error).__name__])
        else:
            if self._believes(entry, catalog):
                self._refreshed(entry, listing, catalog, (time.perf_counter() - started) * 1000)
        finally:
            entry.refresh = None
            self.attempted.set()

    def _drop(self, entry: _Entry, caller: Caller, error: GatewayError) -> None:
        """What a caller may not see any more is gone at once, however fresh."""
        entry.catalog = entry.listing = None
        entry.fresh_until, until = 0.0, self._clock() + DENIED_TTL
        if entry.view.shared:
            until = entry.retry_at = max(until, entry.retry_at)
        else:
            entry.failures, entry.retry_at = 0, 0.0  # another token is asked with at once
        entry.denial = _Denial(error, _shown(caller), until)

    def _refusal(self, entry: _Entry, error: NoListing) -> GatewayError:
        """What a backend's refusal means to whoever asked."""
        if entry.view.shared:
            return Unauthorized("The backend lists nothing to callers without a token")
        if error.unauthorized and not self._callers_own:
            log.error("the backend does not accept the gateway's credential")
            return CatalogUnavailable("The backend's methods cannot be listed at the moment", retry_after=5)
        if error.unauthorized:
            log.error(
                "the conditions of same_resource do not hold: the backend refuses a token that was accepted here",
                issuer=entry.view.issuer,
            )
            return Unauthorized("The backend does not accept this token", error="invalid_token")
        return Forbidden("The backend lists no methods for this caller")

    def _believes(self, entry: _Entry, catalog: Catalog) -> bool:
        """A listing that shrinks to nothing at once is more often a fault than a decision."""
        now = self._clock()
        if catalog.tools or entry.catalog is None or not entry.catalog.tools:
            entry.empty_since = None
            return True
        entry.empty_since = now if entry.empty_since is None else entry.empty_since
        if now - entry.empty_since >= EMPTY_CONFIRMED_AFTER:
            entry.empty_since = None
            return True
        entry.retry_at = now + EMPTY_CONFIRMED_AFTER / 4
        log.warning("empty listing not believed yet", tools=len(entry.catalog.tools))
        return False

    def _refreshed(self, entry: _Entry, listing: Listing, catalog: Catalog, ms: float) -> None:
        now = self._clock()
        entry.failures, entry.retry_at, entry.good_at, entry.denial = 0, 0.0, now, None
        entry.fresh_until = now + (self._settings().ttl if catalog.tools else min(EMPTY_TTL, self._settings().ttl))
        changed = self._adopt(entry, listing, catalog)
        fields: dict[str, Any] = {"dialect": catalog.dialect, "tools": len(catalog.tools), "changed": changed}
        log.info("listing refreshed", **fields, quarantined=len(catalog.quarantined), ms=round(ms, 1))
        if changed:
            for method in catalog.quarantined:
                log.warning("method quarantined", method=method.name, reason=method.reason, remedy=method.remedy)

    def _adopt(self, entry: _Entry, listing: Listing, catalog: Catalog) -> bool:
        catalog = self._one_of_equals(catalog)
        before = entry.digest
        changed = before != catalog.digest
        # A caller's listing is not kept: ten thousand of them would weigh too much, and equal catalogs may come of
        # listings that differ in what curation hides.
        entry.listing = listing if entry.view.shared else None
        if changed:
            for listener in self._listeners:
                listener(catalog)
        entry.catalog, entry.digest = catalog, catalog.digest
        if changed and before:
            for watcher in self._watchers:
                watcher(entry.view)
        return changed

    def _one_of_equals(self, catalog: Catalog) -> Catalog:
        """Equal catalogs of different callers are one in memory."""
        known = self._equal.setdefault(catalog.digest, catalog)
        same = (known.dialect, known.quarantined, known.notes) == (catalog.dialect, catalog.quarantined, catalog.notes)
        return known if same else catalog

    def _failed(self, entry: _Entry, failure: Exception, steps: list[str]) -> None:
        entry.failure = failure.with_traceback(None)  # its frames hold what was asked with
        entry.denial = None
        entry.retry_at = self._clock() + _BACKOFF[min(entry.failures, len(_BACKOFF) - 1)]
        entry.failures += 1
        served = "nothing" if entry.catalog is None else "the last good listing"
        log.warning("listing failed", steps=steps, serving=served, attempts=entry.failures)

    def _unavailable(self, entry: _Entry, now: float) -> CatalogUnavailable:
        wait = max(1, round(entry.retry_at - now + 0.5))
        return CatalogUnavailable("The backend's methods cannot be listed at the moment", retry_after=wait)


def _shown(caller: Caller) -> AccessToken | None:
    """The token that a listing is asked for with, or in exchange for."""
    return None if caller.view.shared or caller.principal is None else caller.principal.token


def _is_denied(entry: _Entry, caller: Caller, now: float) -> bool:
    denial = entry.denial
    return denial is not None and now < denial.until and denial.token == _shown(caller)


def _check_denial(entry: _Entry, caller: Caller, now: float) -> None:
    if entry.denial is not None and _is_denied(entry, caller, now):
        raise entry.denial.error.with_traceback(None) from entry.failure
