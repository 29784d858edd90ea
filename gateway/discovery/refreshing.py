"""Refresh views: ask the backend, build the catalog of what it lists, and record how that ended."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from gateway.concurrency.background import EARLIEST, Problem, retry_delay, time_after
from gateway.concurrency.collector import COLLECTOR, LARGE
from gateway.concurrency.turns import Turns
from gateway.discovery.views import Catalogs, Listings, ViewState, listing_refusal_error, listing_token
from gateway.errors import GatewayError
from gateway.listing.dialect import NoListing
from gateway.model import Caller, Catalog, Listing, View
from gateway.settings import CatalogSettings

CONFIRMED_AFTER: Final = 60.0
"""Seconds for which a listing that shrank has to stay so."""
RETRY_AFTER: Final = CONFIRMED_AFTER / 4
_MANY: Final = 10
_REST_AFTER: Final = 5.0
"""Seconds after which the rest of a partial listing is asked for, where the service names no time."""
_AWAY: Final = 1.0
"""Seconds from one attempt to the next while nobody answers for the backend, so that it is found soon after its
return."""
_LOGGED_AGAIN: Final = 60
"""Failures in a row, of which one is logged after the first few."""
_STATUS: Final = re.compile(r"HTTP \d+")
EMPTY_TTL: Final = 5.0
"""Seconds for which a first listing without tools is fresh: an administrator may be about to grant permissions."""
MOST_NAMES: Final = 20
"""Names in one list of a log line."""
MOST_LINES: Final = 100
"""Log lines about the quarantined methods of one catalog."""

log = structlog.get_logger()


@dataclass(eq=False)
class Refresher:
    """Refresh the views of one service, each at most once at a time, for a
    :class:`~gateway.discovery.discovery.Discovery`. ``publish`` gives a view another catalog, and returns whether its
    tools changed. ``listings`` are those of callers, to build catalogs of after a reload. ``problem`` is why the last
    refresh of any view brought nothing; ``ended`` counts those that brought a listing (``ok``), and the others
    (``failed``). ``explain`` returns ``cause`` and ``next`` of a failure as far as they are known; ``tells_callers``
    shows them to callers, who are the operator then."""

    _fetch: Callable[[Caller], Awaitable[Listing]]
    _catalogs: Catalogs
    _settings: CatalogSettings
    _clock: Callable[[], float]
    _publish: Callable[[ViewState, Catalog], bool]
    _after_change: Callable[[View, str], None]
    _uses_callers_token: bool
    first_attempt_over: asyncio.Event = field(default_factory=asyncio.Event)
    listings: Listings = field(default_factory=Listings)
    problem: Problem = field(default_factory=lambda: Problem("the first listing has not come yet", time_after()))
    ended: Counter[str] = field(default_factory=Counter)
    explain: Callable[[Exception], tuple[Mapping[str, str], str]] = lambda _: ({}, "")
    tells_callers: bool = False

    def start(self, entry: ViewState, caller: Caller) -> asyncio.Task[None]:
        """Return the refresh under way, or start one."""
        if entry.refresh_task is None:
            entry.refresh_task = asyncio.create_task(self._run(entry, caller))
        return entry.refresh_task

    async def wait(self, entry: ViewState, caller: Caller, patience: float) -> None:
        """Wait for a refresh, and for one more where the backend refused another token of this caller. The refresh
        continues after the wait, and after its caller has disconnected."""
        deadline = time.monotonic() + patience
        while True:
            refresh = self.start(entry, caller)
            await asyncio.wait([refresh], timeout=max(0.0, deadline - time.monotonic()))
            if not refresh.done() or entry.refusal is None or entry.refusal.token == listing_token(caller):
                return

    def may_rebuild(self, entry: ViewState) -> bool:
        """Return whether the view's catalog can be built from a listing that an earlier configuration fetched."""
        recent = self._clock() - entry.refreshed_at <= self._settings.max_stale
        return recent and entry.catalog is None and entry.listing_digest in self.listings

    async def _run(self, entry: ViewState, caller: Caller) -> None:
        started, began = time.perf_counter(), self._clock()
        entry.came_in_part = False
        rebuilds = self.may_rebuild(entry)
        try:
            await Turns.begin()  # many services may begin at once
            with COLLECTOR.gc_paused():
                if rebuilds:
                    return await self._rebuild(entry)
                # All callers see the shared listing, so no caller's token may fetch it.
                anonymous = Caller(caller.address)
                listing = await self._fetch(anonymous if entry.view.is_shared else caller)
                catalog = await self._catalogs.build_catalog(listing)
                is_new = entry.catalog is None or entry.catalog.digest != catalog.digest
                COLLECTOR.grow(len(catalog.tools) if is_new or len(catalog.tools) >= LARGE else 0)
        except NoListing as error:
            self._record_failure(entry, error, [str(step) for step in error.steps], began)
            if error.denied and (self._uses_callers_token or not entry.view.is_shared):
                refusal = listing_refusal_error(entry.view, error, uses_callers_token=self._uses_callers_token)
                entry.record_refusal(caller, refusal, self._clock())
        except GatewayError as error:
            self._record_failure(entry, error, [error.message], began)
            if error.refuses and error.status < 500:
                entry.record_refusal(caller, error, self._clock())
        except Exception as error:
            log.exception("listing failed unexpectedly")
            self._record_failure(entry, error, ["an unexpected failure, which the log has"], began)
        else:
            entry.came_in_part = bool(listing.partial)
            if self._replaces(entry, listing) and self._accepts(entry, catalog):
                self._record(entry, listing, catalog, (time.perf_counter() - started) * 1000)
        finally:
            entry.refresh_task = None
            self._note(entry, rebuilds)
            self.first_attempt_over.set()

    def _record_failure(self, entry: ViewState, error: Exception, steps: list[str], began: float) -> None:
        """Record a refresh that failed, and when the next may start. The catalog stays. The same failure is logged
        once, and then rarely."""
        (known, rules), now = self.explain(error), self._clock()
        if self.tells_callers:
            entry.unavailable = f"{known.get('cause', steps[0])} {known.get('next', 'Run `check`.')}"
        entry.failure = error.with_traceback(None)  # its frames hold the credential
        entry.failure_reason = "; ".join(steps)
        # Of one failure the steps may differ each time, and what the cause quotes.
        kind = " ".join((rules, known.get("next", entry.failure_reason), *_STATUS.findall(known.get("cause", ""))))
        is_news = _count_failure(entry, kind)
        entry.refusal = None
        away = isinstance(error, NoListing) and error.away
        entry.retry_at = max(now, began + _AWAY) if away else now + retry_delay(entry.failures)
        if isinstance(error, NoListing) and error.retry_after:
            entry.retry_at = now + self._allowed_after(error.retry_after)
        if is_news:
            serves_last = entry.catalog is not None and now - entry.refreshed_at <= self._settings.max_stale
            served = "the last good listing" if serves_last else "nothing, or the fallback"
            if not serves_last and entry.serves_fallback:
                served = "the fallback, or what was listed before a reload"
            said = {"steps": steps, "next": "run check", **known}
            log.warning("listing failed", serving=served, attempts=entry.failures, **said)

    def _note(self, entry: ViewState, rebuilds: bool) -> None:
        """Say how a refresh ended, and count it if it asked the backend. What the backend denies to one caller is no
        trouble of the operator's."""
        denied = entry.refusal is not None and entry.refusal.error.status < 500 and not entry.view.is_shared
        reason = "" if denied else entry.failure_reason
        if not (denied or rebuilds):
            self.ended["failed" if reason else "ok"] += 1
        error = entry.failure if reason else None
        what = "is partial" if entry.came_in_part else "failed"
        self.problem.set(reason and f"the listing {what}: {reason}", entry.retry_at - self._clock(), error)

    async def _rebuild(self, entry: ViewState) -> None:
        """Build a caller's catalog of its kept listing, by the current settings. The listing's age stays."""
        listing, entry.listing_digest = self.listings[entry.listing_digest], ""
        self._publish(entry, await self._catalogs.build_catalog(listing))
        entry.listing_digest = self.listings.add(listing)

    def _replaces(self, entry: ViewState, listing: Listing) -> bool:
        """Return whether a listing may replace the present one: a partial one not, while the last whole one serves."""
        now = self._clock()
        is_old = now - entry.refreshed_at > self._settings.max_stale
        if not listing.partial or entry.catalog is None or entry.is_partial or is_old:
            return True
        is_news = _count_failure(entry, "partial")
        entry.retry_at, entry.failure = now + self._rest_after(listing), None
        entry.fresh_until = min(entry.fresh_until, entry.retry_at)
        entry.failure_reason = f"{listing.partial}; until then the last whole list is served"
        if is_news:
            log_partial(listing, "the last good listing", entry.failures)
        return False

    def _rest_after(self, listing: Listing) -> float:
        """Return the seconds after which the rest of a partial listing is asked for."""
        return self._allowed_after(listing.retry_after) if listing.retry_after else min(_REST_AFTER, self._settings.ttl)

    def _allowed_after(self, retry_after: int) -> float:
        """Return the seconds for which the service is not asked. A background job comes earlier than it is told."""
        return min(retry_after / EARLIEST, self._settings.ttl)

    def _accepts(self, entry: ViewState, catalog: Catalog) -> bool:
        """Return whether a catalog may replace the present one. One that is empty, or lost ten tools and more than
        half, is more often a fault of the backend than a decision of its operator: it is accepted once the backend has
        listed it for :data:`CONFIRMED_AFTER`."""
        held = any(method.held_by_pin for method in catalog.quarantined)  # pins may remove tools: not a backend's fault
        before, after = len(entry.catalog.tools) if entry.catalog is not None else 0, len(catalog.tools)
        shrinks = after == 0 < before or (2 * after < before and before - after >= _MANY)
        now = self._clock()
        since = now if entry.shrunk_since is None else entry.shrunk_since
        if held or not shrinks or now - since >= CONFIRMED_AFTER:
            entry.shrunk_since = None
            return True
        entry.shrunk_since, entry.retry_at, entry.failure = since, now + RETRY_AFTER, None
        entry.failure_reason = f"a listing that shrinks from {before} tools to {after} is not accepted yet"
        log.warning("a listing that shrinks is not accepted yet", tools=before, listed=after)
        return False

    def _record(self, entry: ViewState, listing: Listing, catalog: Catalog, ms: float) -> None:
        now = self._clock()
        if listing.partial and not entry.is_partial:
            log_partial(listing, "the methods that were described", 1)
        entry.is_partial, entry.failure_reason = bool(listing.partial), listing.partial
        entry.failures, entry.retry_at, entry.refreshed_at, entry.refusal = 0, 0.0, now, None
        fresh = self._settings.ttl if catalog.tools else min(EMPTY_TTL, self._settings.ttl)
        entry.fresh_until = now + (self._rest_after(listing) if listing.partial else fresh)
        before = entry.catalog
        changed = self._publish(entry, catalog)
        if entry.view.is_shared:
            entry.listing = listing
        else:
            entry.listing_digest = self.listings.add(listing)
        if changed:
            entry.previous, entry.previous_until = before, now + self._settings.ttl
            self._after_change(entry.view, catalog.digest)
        fields = {"dialect": catalog.dialect, "tools": len(catalog.tools), "changed": changed, "ms": round(ms, 1)}
        log.info("listing refreshed", quarantined=len(catalog.quarantined), **fields)
        log_catalog_change(before, catalog)


def _count_failure(entry: ViewState, kind: str) -> bool:
    """Count one more failure in a row, and return whether to log it: the first of its kind, and then a few."""
    is_new, entry.last_kind = kind != entry.last_kind or not entry.failures, kind
    entry.failures += 1
    return is_new or entry.failures % _LOGGED_AGAIN == 0


def log_partial(listing: Listing, serving: str, attempts: int) -> None:
    """Log that a listing came in part, and what is served meanwhile."""
    log.warning(
        "only a part of the methods was described; the rest is asked for again",
        reason=listing.partial,
        serving=serving,
        attempts=attempts,
    )


def log_catalog_change(before: Catalog | None, after: Catalog) -> None:
    """Log tools that are new or gone, and methods that are newly quarantined. In a first catalog no tool is new."""
    if before is None:
        log.debug("first tools", **_name_fields("tools", set(after.names)))
    elif before.digest != after.digest:
        old, new = set(before.names), set(after.names)
        if old != new:
            log.info("tools changed", **_name_fields("new", new - old), **_name_fields("gone", old - new))
    logged_before = set(before.quarantined) if before is not None else set()
    new_methods = [
        method for method in after.quarantined if not (method in logged_before or method.held_until_described)
    ]
    for method in new_methods[:MOST_LINES]:
        log.warning("method quarantined", method=method.name, reason=method.reason, remedy=method.remedy)
    if len(new_methods) > MOST_LINES:  # a listing may have a million broken entries
        remedy = "the command `check` names all of them"
        log.warning("method quarantined", more=len(new_methods) - MOST_LINES, remedy=remedy)


def _name_fields(what: str, names: set[str]) -> dict[str, object]:
    fields: dict[str, object] = {what: sorted(names)[:MOST_NAMES]}
    if len(names) > MOST_NAMES:
        fields[f"more_{what}"] = len(names) - MOST_NAMES
    return fields
