"""The current catalog of each view.

Fresh → it. Stale → it, and one refresh in the background. Absent → one refresh that everyone awaits, for a bounded
time. Refresh failed → the last good catalog until ``max_stale``, then the operator's fallback, else 503 with
Retry-After: never an empty list that a client would believe. A listing that shrinks is doubted for a while, one beyond
``max_tools`` is refused, tools that vanish can be called for another ``ttl``, a broken output schema is left out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from typing import Final

import structlog

from gateway.background import keep_fresh
from gateway.catalog.build import Builder
from gateway.discovery.broken_output_schemas import BrokenOutputSchemas
from gateway.discovery.catalogs import Catalogs
from gateway.discovery.change_log import log_catalog_change
from gateway.discovery.fallback import FallbackCatalog
from gateway.discovery.garbage_collection import COLLECTOR, LARGE
from gateway.discovery.shrink_guard import RETRY_AFTER
from gateway.discovery.views import Listings, Views, ViewState, listing_refusal_error, listing_token
from gateway.errors import CatalogUnavailable, GatewayError
from gateway.listing.dialect import NoListing
from gateway.model import SHARED, Caller, Catalog, Listing, Tool, View
from gateway.settings import CatalogSettings

EMPTY_TTL: Final = 5.0
"""Seconds for which a first listing without tools is kept: permissions may be on their way."""
PATIENCE: Final = 20.0
"""Seconds that somebody waits for a listing where there is nothing else to show."""

log = structlog.get_logger()


class Discovery:
    """Fetch, build and keep catalogs. ``fetch_listing`` asks the backend on a caller's behalf and raises
    :class:`NoListing`; ``clock`` is monotonic seconds; ``fallback`` stands in for a listing that cannot be had;
    ``patience`` is the longest wait of a caller, in seconds; ``uses_callers_token`` says that it asks with the caller's
    own token. ``before_publish`` is called with each new catalog before anybody sees it, ``after_publish`` with each
    view that shows other tools than before. Neither may raise."""

    def __init__(
        self,
        fetch_listing: Callable[[Caller], Awaitable[Listing]],
        builder: Builder,
        settings: CatalogSettings,
        clock: Callable[[], float] = time.monotonic,
        fallback: Listing | None = None,
        patience: float = PATIENCE,
        *,
        uses_callers_token: bool = False,
        broken_output_schemas: BrokenOutputSchemas | None = None,
    ) -> None:
        self.first_attempt_over = asyncio.Event()
        """Set after the first attempt at a listing."""
        self.before_publish: Callable[[Catalog], None] = lambda _: None
        self.after_publish: Callable[[View], None] = lambda _: None
        self._fetch_from_backend = fetch_listing
        self._settings = settings
        self._clock = clock
        self._patience = patience
        self._uses_callers_token = uses_callers_token
        self._broken_output_schemas = broken_output_schemas or BrokenOutputSchemas()
        self._kept = self._broken_output_schemas.version
        self._catalogs = Catalogs(builder, settings, self._broken_output_schemas)
        self._fallback = FallbackCatalog(fallback, self._catalogs.build_catalog)
        self._fetch_slots = asyncio.Semaphore(8)  # listings of callers' own views; further callers wait their turn
        self._views = Views()
        self._listings = Listings()
        self._prepared: tuple[Listing | None, Catalog | None] = (None, None)

    def __repr__(self) -> str:
        shared = self._views.get(SHARED)
        return f"<Discovery views={len(self._views)} shared={shared!r}>"

    async def prepare(self, before: Discovery) -> None:
        """Build the shared catalog for :meth:`take_over`. Raises :class:`NoListing` where these settings refuse it."""
        shared = before._views.get(SHARED)
        while shared is not None and shared.listing is not None and shared.listing is not self._prepared[0]:
            self._prepared = shared.listing, await self._catalogs.build_catalog(shared.listing)
            shared = before._views.get(SHARED)

    def take_over(self, before: Discovery, *, listings: bool, catalogs: bool) -> None:
        """Begin with what each view showed last at ``before``, so that a change is told; with ``listings`` also with
        its listings, each caller's to be built before its next answer, and with ``catalogs`` with what was built."""
        for view, entry in before._views.items():
            self._views[view] = entry.successor(listing=listings, catalog=catalogs)
        if not listings:
            return
        self._listings = before._listings
        if before.first_attempt_over.is_set():
            self.first_attempt_over.set()
        if (shared := self._views.get(SHARED)) is not None and shared.listing is not None:
            listing, prepared = self._prepared
            if shared.catalog is None and listing is not shared.listing:  # a newer one came meanwhile
                shared.expire()
            if catalog := shared.catalog or prepared:
                self._publish(shared, catalog)
                self.before_publish(catalog)

    def shown_digest(self, view: View) -> str:
        """The digest of what the view showed last, empty where it showed nothing yet."""
        entry = self._views.get(view)
        return "" if entry is None else entry.shown_digest

    async def close(self) -> None:
        """End the refreshes under way."""
        under_way = [entry.refresh_task for entry in self._views.values() if entry.refresh_task is not None]
        for refresh in under_way:
            refresh.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    def current(self, view: View = SHARED) -> Catalog | None:
        """The catalog at hand, however old."""
        entry = self._views.get(view)
        return None if entry is None else entry.catalog

    def seconds_fresh(self, view: View) -> float:
        """Seconds for which the view's catalog is still fresh."""
        return max(0.0, self._views[view].fresh_until - self._clock())

    async def catalog(self, caller: Caller, patience: float | None = None) -> Catalog:
        """The caller's tools; ``patience`` is the longest wait in seconds where none are at hand.

        Raises :class:`~gateway.errors.CatalogUnavailable`, whose cause is what the last attempt failed with;
        :class:`~gateway.errors.Unauthorized` or :class:`~gateway.errors.Forbidden` where the backend refuses this
        caller the listing."""
        entry = self._views[caller.view]
        now = self._clock()
        if entry.refusal is not None:
            entry.check_refusal(caller, now)
        if entry.catalog is not None and now < entry.fresh_until:
            return entry.catalog
        if entry.catalog is not None and now - entry.refreshed_at <= self._settings.max_stale:
            if now >= entry.retry_at:
                self._start_refresh(entry, caller)
            return entry.catalog
        rebuilds = self._may_rebuild(entry)
        if rebuilds or now >= entry.retry_at or entry.refresh_task is not None:
            if entry.serves_fallback and not rebuilds:
                self._start_refresh(entry, caller)
            else:
                await self._await_refresh(entry, caller, self._patience if patience is None else patience)
            entry.check_refusal(caller, self._clock())
        if entry.catalog is None or self._clock() - entry.refreshed_at > self._settings.max_stale:
            return await self._fallback_catalog(entry)
        return entry.catalog

    def refresh_if_stale(self, caller: Caller) -> None:
        """Refresh a caller's own view in the background if it is stale: its open streams ask for this."""
        if caller.view.is_shared:
            return
        entry = self._views[caller.view]
        now = self._clock()
        asks = now >= entry.fresh_until and now >= entry.retry_at
        if self._may_rebuild(entry) or (asks and not entry.refuses(caller, now)):
            self._start_refresh(entry, caller)

    async def find_tool(self, caller: Caller, name: str, patience: float | None = None) -> Tool | None:
        """The tool of this name in the caller's view, also one that was there until a moment ago: a listing may flap.

        Raises :class:`~gateway.errors.CatalogUnavailable`.
        """
        catalog = await self.catalog(caller, patience)
        if tool := catalog.by_name.get(name):
            return tool
        entry = self._views.get(caller.view)
        if entry is None or entry.previous is None or self._clock() >= entry.previous_until:
            return None
        tool = entry.previous.by_name.get(name)
        withheld = tool is not None and any(tool.method == method.name for method in catalog.quarantined)
        return None if withheld else tool

    async def drop_output_schema(self, tool: Tool) -> None:
        """List the tool without its output schema from now on, in every view, because a result broke it; until its
        listing has another schema."""
        if self._broken_output_schemas.record(tool):
            log.warning("a result broke the output schema, which is listed no more", tool=tool.name, method=tool.method)
        kept, self._kept = self._kept, self._broken_output_schemas.version
        if kept != self._kept:
            self._fallback.invalidate()
            await asyncio.shield(asyncio.create_task(self._drop_broken_schemas()))

    async def refresh(self, caller: Caller = Caller()) -> None:  # noqa: B008, immutable
        """Ask the backend now; failures are logged and kept, not raised."""
        await asyncio.shield(self._start_refresh(self._views[caller.view], caller))

    async def refresh_now(self) -> str:
        """List anew at once, callers' own listings when they next come. Return why there is no new one, or ""."""
        for entry in self._views.values():
            if not entry.view.is_shared:
                entry.expire()
        shared = self._views.get(SHARED)
        if shared is None:
            return ""
        if shared.refresh_task is not None:  # it may have asked before that changed for which it is asked anew
            await asyncio.wait([shared.refresh_task])
        await self.refresh()
        return shared.failure_reason

    async def refresh_forever(self) -> None:
        """Refresh the shared view shortly before it gets stale, for ever."""

        def remaining() -> float:
            entry = self._views[SHARED]
            return max(entry.fresh_until, entry.retry_at) - self._clock()

        await keep_fresh(self.refresh, remaining)

    def _start_refresh(self, entry: ViewState, caller: Caller) -> asyncio.Task[None]:
        """The refresh under way, or a new one."""
        if entry.refresh_task is None:
            entry.refresh_task = asyncio.create_task(self._run_refresh(entry, caller))
        return entry.refresh_task

    async def _await_refresh(self, entry: ViewState, caller: Caller, patience: float) -> None:
        """Wait for a refresh, and for one more where it was another token of this caller's that was refused. It goes on
        where the wait is over, or its caller hangs up."""
        deadline = time.monotonic() + patience
        while True:
            refresh = self._start_refresh(entry, caller)
            await asyncio.wait([refresh], timeout=max(0.0, deadline - time.monotonic()))
            if not refresh.done() or entry.refusal is None or entry.refusal.token == listing_token(caller):
                return

    def _may_rebuild(self, entry: ViewState) -> bool:
        """Tell whether the view's catalog can be built of the listing that was built by other settings before."""
        recent = self._clock() - entry.refreshed_at <= self._settings.max_stale
        return recent and entry.catalog is None and entry.listing_digest in self._listings

    async def _rebuild(self, entry: ViewState) -> None:
        """Build a caller's catalog by these settings. Its listing is as fresh as it was."""
        listing, entry.listing_digest = self._listings[entry.listing_digest], ""
        self._publish(entry, await self._catalogs.build_catalog(listing))
        entry.listing_digest = self._listings.add(listing)

    async def _fetch_listing(self, caller: Caller) -> Listing:
        """The listing; of callers' views only so many at a time, so that a rush of callers is none on the backend."""
        async with nullcontext() if caller.view.is_shared else self._fetch_slots:
            return await self._fetch_from_backend(caller)

    async def _run_refresh(self, entry: ViewState, caller: Caller) -> None:
        started = time.perf_counter()
        rebuilds = self._may_rebuild(entry)
        try:
            with COLLECTOR.gc_paused():
                if rebuilds:
                    return await self._rebuild(entry)
                # What everybody sees is not asked for in anybody's name.
                nobody = Caller(caller.address, caller.language)
                listing = await self._fetch_listing(nobody if entry.view.is_shared else caller)
                catalog = await self._catalogs.build_catalog(listing)
                if len(catalog.tools) >= LARGE:
                    COLLECTOR.freeze()
        except NoListing as error:
            entry.record_failure(error, [str(step) for step in error.steps], self._clock())
            if error.denied and (self._uses_callers_token or not entry.view.is_shared):
                refusal = listing_refusal_error(entry.view, error, uses_callers_token=self._uses_callers_token)
                entry.record_refusal(caller, refusal, self._clock())
        except GatewayError as error:
            entry.record_failure(error, [error.message], self._clock())
            if error.refuses and error.status < 500:
                entry.record_refusal(caller, error, self._clock())
        except Exception as error:
            log.exception("listing failed unexpectedly")
            entry.record_failure(error, [type(error).__name__], self._clock())
        else:
            if self._accepts(entry, catalog):
                self._record_refresh(entry, listing, catalog, (time.perf_counter() - started) * 1000)
        finally:
            entry.refresh_task = None
            self.first_attempt_over.set()

    def _accepts(self, entry: ViewState, catalog: Catalog) -> bool:
        held = any(method.held_by_pin for method in catalog.quarantined)  # pins decide, whatever is left
        before, now = len(entry.catalog.tools) if entry.catalog is not None else 0, self._clock()
        if held or entry.shrink_guard.accepts(before, len(catalog.tools), now):
            return True
        entry.retry_at = now + RETRY_AFTER
        entry.failure_reason = f"a listing that shrinks from {before} tools to {len(catalog.tools)} is not believed yet"
        log.warning("a listing that shrinks is not believed yet", tools=before, listed=len(catalog.tools))
        return False

    def _record_refresh(self, entry: ViewState, listing: Listing, catalog: Catalog, ms: float) -> None:
        now = self._clock()
        entry.failures, entry.retry_at, entry.refreshed_at, entry.refusal, entry.failure_reason = 0, 0.0, now, None, ""
        entry.fresh_until = now + (self._settings.ttl if catalog.tools else min(EMPTY_TTL, self._settings.ttl))
        before = entry.catalog
        changed = self._publish(entry, catalog)
        if entry.view.is_shared:
            entry.listing = listing
        else:
            entry.listing_digest = self._listings.add(listing)
        if changed:
            entry.previous, entry.previous_until = before, now + self._settings.ttl
        fields = {"dialect": catalog.dialect, "tools": len(catalog.tools), "changed": changed, "ms": round(ms, 1)}
        log.info("listing refreshed", quarantined=len(catalog.quarantined), **fields)
        log_catalog_change(before, catalog)

    async def _fallback_catalog(self, entry: ViewState) -> Catalog:
        """The fallback, built by the knobs of the moment. Raises :class:`~gateway.errors.CatalogUnavailable` where
        there is none, and for a caller to whom the backend denies its listing."""
        denied = isinstance(entry.failure, NoListing) and entry.failure.denied and not entry.view.is_shared
        try:
            catalog = None if denied else await self._fallback.catalog()
        except NoListing as error:
            raise entry.unavailable_error(self._clock()) from error
        if catalog is None:
            raise entry.unavailable_error(self._clock()) from entry.failure
        if not entry.serves_fallback:
            entry.serves_fallback = True
            log.warning("the fallback listing is served", tools=len(catalog.tools))
        if entry.shown_digest != catalog.digest:
            self.before_publish(catalog)
            before, entry.shown_digest = entry.shown_digest, catalog.digest
            if before:
                self.after_publish(entry.view)
        return catalog

    async def _drop_broken_schemas(self) -> None:
        """Take what is not believed any more out of all catalogs; a turn of the loop for each."""
        for entry in list(self._views.values()):
            if entry.serves_fallback:
                with suppress(CatalogUnavailable):
                    await self._fallback_catalog(entry)
            elif entry.catalog is not None:
                stripped = self._broken_output_schemas.strip(entry.catalog)
                if stripped is not entry.catalog:
                    self._publish(entry, stripped)
            if entry.previous is not None:
                entry.previous = self._broken_output_schemas.strip(entry.previous)
            await asyncio.sleep(0)

    def _publish(self, entry: ViewState, catalog: Catalog) -> bool:
        """Show a view another catalog. Tell whether that changes what is shown."""
        catalog = self._catalogs.intern(catalog)
        entry.serves_fallback = False
        changed = entry.shown_digest != catalog.digest
        if changed:
            self.before_publish(catalog)
        before, entry.catalog, entry.shown_digest = entry.shown_digest, catalog, catalog.digest
        if changed and before:
            self.after_publish(entry.view)
        return changed
