"""Keep the current catalog of each view.

A stale catalog is returned, and one refresh runs in the background. Where there is none, all callers wait for one
refresh, for a bounded time. Where it fails, the last good catalog serves until ``max_stale``, then the operator's
fallback, else 503 with Retry-After: never an empty list, which clients would accept.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from typing import Final

import structlog

from gateway.catalog.build import Builder
from gateway.concurrency.background import Problem, keep_fresh
from gateway.discovery.refreshing import Refresher
from gateway.discovery.views import BrokenOutputSchemas, Catalogs, Views, ViewState
from gateway.errors import CatalogUnavailable
from gateway.listing.dialect import NoListing
from gateway.model import ANONYMOUS, SHARED, Caller, Catalog, Listing, Tool, View
from gateway.settings import CatalogSettings

PATIENCE: Final = 20.0
"""Seconds for which a caller waits for a listing where nothing else can be served."""

log = structlog.get_logger()


class Discovery:
    """Fetch, build and keep catalogs.

    ``fetch_listing`` asks the backend on a caller's behalf and raises :class:`NoListing`; with ``uses_callers_token``
    it sends the caller's own token. ``clock`` is monotonic seconds. ``fallback`` serves where no listing can be
    obtained. ``patience`` is the longest wait of a caller, in seconds. ``before_publish`` is called with each new
    catalog before a caller sees it, ``after_publish`` with each view whose tools changed, ``after_change`` with a
    view and the digest of its catalog where a refresh brought another one. None may raise."""

    def __init__(
        self,
        fetch_listing: Callable[[Caller], Awaitable[Listing]],
        builder: Builder,
        settings: CatalogSettings,
        clock: Callable[[], float] = time.monotonic,
        *,
        fallback: Listing | None = None,
        patience: float = PATIENCE,
        uses_callers_token: bool = False,
        broken_output_schemas: BrokenOutputSchemas | None = None,
    ) -> None:
        self.before_publish: Callable[[Catalog], None] = lambda _: None
        self.after_publish: Callable[[View], None] = lambda _: None
        self.after_change: Callable[[View, str], None] = lambda *_: None
        self.followers: set[Callable[[View], None]] = set()
        """Called with a view that may show other tools than before: groups follow their services."""
        self.languages: Collection[str] = ()
        self._settings = settings
        self._clock = clock
        self._patience = patience
        self._broken_output_schemas = broken_output_schemas or BrokenOutputSchemas()
        self._stripped_version = self._broken_output_schemas.version
        self._catalogs = Catalogs(builder, settings, self._broken_output_schemas)
        self._fallback = fallback
        self._built_fallback: Catalog | None = None
        self._building_fallback = asyncio.Lock()
        self._views = Views()
        self._refresher = Refresher(
            fetch_listing,
            self._catalogs,
            settings,
            clock,
            self._publish,
            lambda view, digest: self.after_change(view, digest),
            uses_callers_token,
        )
        self.first_attempt_over = self._refresher.first_attempt_over
        self.refreshes: Mapping[str, int] = self._refresher.ended
        self.problem, self.lack, self.astray = self._refresher.problem, Problem(), Problem()
        """Why there is no new listing, which tools an operator would miss in the last one, and where calls go wrong."""
        self.former: Discovery | None = None
        """Hold what a predecessor listed, in place of listings that have not come yet. It asks no backend."""
        self._prepared: tuple[Listing | None, Catalog | None] = (None, None)

    def explain_with(
        self, explain: Callable[[Exception], tuple[Mapping[str, str], str]], *, tell_callers: bool = False
    ) -> None:
        """Let ``explain`` say why a listing failed, in the log, and with ``tell_callers`` in their errors, too."""
        self._refresher.explain, self._refresher.tells_callers = explain, tell_callers

    def __repr__(self) -> str:
        return f"<Discovery {len(self._views)} views, shared: {self._views.get(SHARED)!r}>"

    async def prepare(self, before: Discovery) -> None:
        """Build the shared catalog for :meth:`take_over`. Raises :class:`NoListing` where these settings refuse it."""
        shared = before._views.get(SHARED)
        if shared is not None and shared.listing is not None:
            self._prepared = shared.listing, await self._catalogs.build_catalog(shared.listing)

    def take_over(self, before: Discovery, *, listings: bool, catalogs: bool) -> None:
        """Take each view's last digest from ``before``, so that clients learn of a change; with ``listings`` also the
        listings, of which a caller's catalog is built on its next request, and with ``catalogs`` the catalogs."""
        self.refreshes = self._refresher.ended = before._refresher.ended
        for view, entry in before._views.items():
            self._views[view] = entry.successor(listing=listings, catalog=catalogs)
        if not listings:
            return
        self._refresher.listings = before._refresher.listings
        self.problem = self._refresher.problem = before.problem
        if before.first_attempt_over.is_set():
            self.first_attempt_over.set()
        if (shared := self._views.get(SHARED)) is not None and shared.listing is not None:
            listing, prepared = self._prepared
            if shared.catalog is None and listing is not shared.listing:  # a newer one came meanwhile
                shared.expire()
            if catalog := shared.catalog or prepared:
                self._publish(shared, catalog)
                self.before_publish(catalog)

    def serve_former(self, former: Discovery) -> None:
        """Serve what a predecessor listed, for views without a listing of their own."""
        self.former = former
        if (catalog := former.current()) is not None:
            self._show(self._views[SHARED], catalog, is_fallback=True)

    def end_former(self) -> None:
        """Serve that no longer: where no listing has come, callers wait for it as after a start."""
        self.former = None
        for entry in self._views.values():
            entry.serves_fallback = entry.serves_fallback and entry.catalog is not None

    def shown_digest(self, view: View) -> str:
        """Return the digest of the catalog that the view showed last, "" where it showed none yet."""
        entry = self._views.get(view)
        return "" if entry is None else entry.shown_digest

    async def close(self) -> None:
        under_way = [entry.refresh_task for entry in self._views.values() if entry.refresh_task is not None]
        for refresh in under_way:
            refresh.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    def current(self, view: View = SHARED) -> Catalog | None:
        """Return the cached catalog, however old."""
        if (former := self._former_of(view)) is not None:
            return former.current(view)
        entry = self._views.get(view)
        return None if entry is None else entry.catalog

    def has_listing(self, view: View) -> bool:
        """Return whether a listing of the view has come, or was taken over."""
        return (entry := self._views.get(view)) is not None and entry.catalog is not None

    def can_serve(self, view: View) -> bool:
        """Return whether a catalog is cached that is not too old, so that nobody has to wait for one."""
        if (former := self._former_of(view)) is not None:
            return former.can_serve(view)
        entry = self._views.get(view)
        since = self._clock() - self._settings.max_stale
        return entry is not None and entry.catalog is not None and entry.refreshed_at >= since

    def age(self) -> float:
        """Return the seconds since the shared listing was fetched."""
        if (former := self._former_of(SHARED)) is not None:
            return former.age()
        return self._clock() - self._views[SHARED].refreshed_at

    def seconds_fresh(self, view: View) -> float:
        return max(0.0, self._views[view].fresh_until - self._clock())

    def find_fresh_tool(self, caller: Caller, name: str) -> Tool | None:
        """Like :meth:`find_tool`, but never waits, as nearly no call has to: returns None where it would."""
        entry = self._views[caller.view]
        catalog = entry.catalog if entry.refusal is None and self._clock() < entry.fresh_until else None
        return None if catalog is None else catalog.by_name.get(name)

    async def catalog(self, caller: Caller, patience: float | None = None) -> Catalog:
        """Return the caller's catalog. ``patience`` is the longest wait in seconds where none is cached.

        Raises :class:`~gateway.errors.CatalogUnavailable`, whose cause is what the last attempt failed with;
        :class:`~gateway.errors.Unauthorized` or :class:`~gateway.errors.Forbidden` where the backend refuses this
        caller the listing."""
        entry = self._views[caller.view]
        now = self._clock()
        if entry.refusal is not None:
            entry.check_refusal(caller, now)
        catalog = entry.catalog
        if catalog is not None and now < entry.fresh_until:
            return catalog
        if catalog is not None and now - entry.refreshed_at <= self._settings.max_stale:
            if now >= entry.retry_at:
                self._refresher.start(entry, caller)
            return catalog
        rebuilds = self._refresher.may_rebuild(entry)
        if not rebuilds and (former := await self._former_catalog(entry, caller)) is not None:
            if now >= entry.retry_at:
                self._refresher.start(entry, caller)
            return former
        if rebuilds or now >= entry.retry_at or entry.refresh_task is not None:
            if entry.serves_fallback and not rebuilds:
                self._refresher.start(entry, caller)
            else:
                await self._refresher.wait(entry, caller, self._patience if patience is None else patience)
            entry.check_refusal(caller, self._clock())
        if entry.catalog is None or self._clock() - entry.refreshed_at > self._settings.max_stale:
            return await self._fallback_catalog(entry)
        return entry.catalog

    def would_list(self, caller: Caller) -> bool:
        """Return whether a request of this caller would begin a listing of their own view."""
        if caller.view.is_shared:
            return False
        entry, now = self._views[caller.view], self._clock()
        due = entry.refresh_task is None and now >= max(entry.fresh_until, entry.retry_at)
        return due and not entry.refuses(caller, now) and not self._refresher.may_rebuild(entry)

    def refresh_if_stale(self, caller: Caller) -> None:
        """Refresh a caller's own view in the background if it is stale: its open streams ask for this."""
        if self.would_list(caller) or self._refresher.may_rebuild(self._views[caller.view]):
            self._refresher.start(self._views[caller.view], caller)

    def doubt(self, view: View, digest: str, after: float) -> bool:
        """Mark a view stale that shows something else than this digest, at the soonest ``after`` seconds from its last
        refresh. Return whether it is."""
        entry = self._views.get(view)
        if entry is None or entry.shown_digest in ("", digest):
            return False
        entry.fresh_until = min(entry.fresh_until, entry.refreshed_at + after)
        return True

    async def find_tool(self, caller: Caller, name: str, patience: float | None = None) -> Tool | None:
        """Return the tool of this name in the caller's view, also one that vanished less than ``ttl`` ago: a listing
        may lose it by a fault. Raises :class:`~gateway.errors.CatalogUnavailable`."""
        catalog = await self.catalog(caller, patience)
        if tool := catalog.by_name.get(name):
            return tool
        entry = self._views.get(caller.view)
        return None if entry is None else entry.find_vanished(name, catalog, self._clock())

    async def drop_output_schema(self, tool: Tool) -> None:
        """List the tool in every view without its output schema, which a result violated, until it has another."""
        if self._broken_output_schemas.record(tool):
            log.warning("a result broke the output schema, which is listed no more", tool=tool.name, method=tool.method)
        await self.drop_broken_schemas()

    async def drop_broken_schemas(self) -> None:
        """List all tools without the output schemas that were recorded as broken since the last time."""
        before, self._stripped_version = self._stripped_version, self._broken_output_schemas.version
        if before != self._stripped_version:
            self._built_fallback = None
            await asyncio.shield(asyncio.create_task(self._strip_all()))

    async def refresh(self, caller: Caller = ANONYMOUS) -> None:
        """Ask the backend now; failures are logged and kept, not raised."""
        await asyncio.shield(self._refresher.start(self._views[caller.view], caller))

    async def refresh_now(self) -> str:
        """Refresh the shared view now, callers' views when they next come. Return why the shared one failed, or ""."""
        for entry in self._views.values():
            if not entry.view.is_shared:
                entry.expire()
        shared = self._views.get(SHARED)
        if shared is None:
            return ""
        await self.refresh_again()
        return shared.failure_reason

    async def refresh_again(self) -> None:
        """Refresh the shared view after the refresh under way, which may have asked before a change."""
        if (under_way := self._views[SHARED].refresh_task) is not None:
            await asyncio.wait([under_way])
        await self.refresh()

    async def refresh_forever(self) -> None:
        """Refresh the shared view shortly before it gets stale, until cancelled."""

        def remaining() -> float:
            entry = self._views[SHARED]
            return max(entry.fresh_until, entry.retry_at) - self._clock()

        await keep_fresh(self.refresh, remaining)

    def _former_of(self, view: View) -> Discovery | None:
        """Return what serves a view in place of its own listing, None where it needs nothing else."""
        if self.former is None or (entry := self._views.get(view)) is None:
            return self.former
        return self.former if entry.catalog is None and entry.refusal is None else None

    async def _former_catalog(self, entry: ViewState, caller: Caller) -> Catalog | None:
        """Return the catalog of a predecessor's listing, None where that may not serve."""
        former = self._former_of(entry.view)
        kept = None if former is None else former._views.get(entry.view)
        if former is None or kept is None:
            return None
        if former._refresher.may_rebuild(kept):
            await former._refresher.wait(kept, caller, self._patience)
        if self._former_of(entry.view) is not former:  # the new listing has come meanwhile, or the time is over
            return entry.catalog
        if kept.catalog is None or kept.refuses(caller, self._clock()) or not former.can_serve(kept.view):
            return None
        self._show(entry, kept.catalog, is_fallback=True)
        return kept.catalog

    async def _fallback_catalog(self, entry: ViewState) -> Catalog:
        """Return the fallback. Raises :class:`~gateway.errors.CatalogUnavailable` where there is none, and for a caller
        whom the backend refuses the listing."""
        denied = isinstance(entry.failure, NoListing) and entry.failure.denied and not entry.view.is_shared
        try:
            catalog = None if denied else await self._build_fallback()
        except NoListing as error:
            raise entry.unavailable_error(self._clock()) from error
        if catalog is None:
            raise entry.unavailable_error(self._clock()) from entry.failure
        if not entry.serves_fallback:
            log.warning("the fallback listing is served", tools=len(catalog.tools))
        self._show(entry, catalog, is_fallback=True)
        return catalog

    async def _build_fallback(self) -> Catalog | None:
        async with self._building_fallback:  # callers that come meanwhile wait, and get the same catalog
            if self._built_fallback is None and self._fallback is not None:
                self._built_fallback = await self._catalogs.build_catalog(self._fallback)
            return self._built_fallback

    async def _strip_all(self) -> None:
        """Remove the broken output schemas from all catalogs. Other tasks get a turn after each catalog."""
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

    def _show(self, entry: ViewState, catalog: Catalog, *, is_fallback: bool = False) -> bool:
        """Show the callers of a view another catalog. Return whether its tools changed."""
        before, changed = entry.shown_digest, entry.shown_digest != catalog.digest
        if changed:
            self.before_publish(catalog)
        entry.shown_digest, entry.serves_fallback = catalog.digest, is_fallback
        if not is_fallback:
            entry.catalog = catalog
        if changed and before:
            self.after_publish(entry.view)
        for follow in self.followers if changed or (entry.view.is_shared and not is_fallback) else ():
            follow(entry.view)
        return changed

    def _note_endpoints(self, catalog: Catalog) -> None:
        """Say where calls cannot work, once: the listing is right, and no address is changed."""
        causes = "; ".join(str(fault) for fault in catalog.endpoints if fault.kind != "odd")
        if causes and causes != self.astray.cause:
            log.warning("calls cannot reach the service", cause=causes, next="Run `check`, which finds out more.")
        self.astray.set(causes)

    def _publish(self, entry: ViewState, catalog: Catalog) -> bool:
        """Give a view another catalog. Return whether its tools changed."""
        catalog = self._catalogs.intern(catalog)
        self.lack.set(lack_of(catalog) if catalog.tools or catalog.quarantined or entry.view.is_shared else "")
        self._note_endpoints(catalog)
        changed = self._show(entry, catalog)
        for language in () if changed else ("", *self.languages):
            # Most services do not translate: the caller's equal lists in other languages stay fresh with this one.
            other = self._views.get(entry.view._replace(language=language))
            if other is not None and other.catalog is catalog and self._clock() < other.fresh_until:
                oldest = other.refreshed_at + self._settings.max_stale
                other.fresh_until = max(other.fresh_until, min(entry.fresh_until, oldest))
        return changed


def lack_of(catalog: Catalog) -> str:
    """Return which tools an operator would miss, "" where none."""
    missed = [method for method in catalog.quarantined if method.held_by_pin or not catalog.tools]
    if missed:
        return f"{len(missed)} methods are quarantined: {missed[0].name}: {missed[0].reason}; {missed[0].remedy}"
    return "" if catalog.tools else "no method is listed, or catalog.include and exclude hide all"
