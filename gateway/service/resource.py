"""Build what services and groups have in common: one protected resource, its callers, sessions, streams and surfaces.

It never changes: for other settings, a reload builds another one. Building sends no request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.auth.access import Access
from gateway.auth.compact import InvalidToken
from gateway.auth.metadata import ResourceMetadata
from gateway.catalog.pages import PageCache
from gateway.concurrency.background import Background, Problem, UseCounter
from gateway.config.service_files import KEYS, ServiceFiles
from gateway.credentials import credential_modes
from gateway.diagnosis.access import TokenReport
from gateway.discovery import subscriptions
from gateway.discovery.catalog_source import CatalogSource
from gateway.discovery.tool_search import ToolSearch, builtin_tools
from gateway.invocation.input_requests import InputRequests
from gateway.invocation.invocation import Invocation
from gateway.limits import Budget, CallBudget
from gateway.mcp import endpoint, legacy, modern, operations, running, sessions
from gateway.model import Caller, Catalog, NameStyle
from gateway.schema.validation import ValidatorCache
from gateway.service.mount import Mount, ServiceAuth
from gateway.settings import ResourceSettings
from gateway.settings.auth import ApiKey
from gateway.signing import SigningKeys
from gateway.store import ResourceStore, Store
from gateway.telemetry.cells import name_tools
from gateway.text import excerpt
from gateway.web.card import ServerCard
from gateway.web.pages import ServicePage
from gateway.web.site import Site

_PAGES_PER_LISTING: Final = 10
"""Further pages that a caller may ask for, for each listing that its budget allows."""


@dataclass(frozen=True)
class BuildContext:
    """Hold what a service or a group is built with, beside its settings. ``secrets`` sign its texts, the first one new
    ones; ``before`` is its predecessor on a reload; ``progress`` is told each dialect that is tried."""

    files: ServiceFiles
    store: Store
    secrets: tuple[bytes, ...] = ()
    mount: Mount = field(default_factory=Mount)
    before: Resource | None = None
    progress: Callable[[str], None] = lambda _: None


class Resource:
    """Hold the parts of one protected resource that do not depend on where its tools come from."""

    settings: ResourceSettings
    discovery: CatalogSource
    invocation: Invocation
    site: Site
    _search: ToolSearch
    _calls: Problem = Problem()
    """The problem with its calls, if there is one."""
    _access_type: type[Access] = Access

    def __init__(self, settings: ResourceSettings, context: BuildContext) -> None:
        self.settings = settings
        self.files = context.files
        self.uses = UseCounter()
        self.background = Background()
        self.mount = context.mount
        self._started = time.monotonic()
        self._keys = SigningKeys(context.secrets, settings.mount_id)
        self._store = ResourceStore(context.store, self._keys)
        self._before = context.before
        languages = any(service.backend.listing.language is None for service in settings.services)
        self.access = self._access_type(
            settings.auth, settings.resource, per_caller=lists_per_caller(settings), own_languages=languages
        )
        self.access.tool_scopes = self._tool_scopes
        before = self._before.auth if isinstance(self._before, type(self)) else None
        self.auth: ServiceAuth = ServiceAuth(settings, self.files, self._store, before)
        self.listings = Budget(self._store, "discovery", settings.limits.discovery)
        self.call_notices = running.CallNotices(self.mount.calls, self.mount.elicitations, self._store)
        self._pages = PageCache()

    @property
    def name(self) -> str:
        return self.settings.name

    async def caller(self, token: str) -> Caller:
        """Return the bearer of a token. Raises ``InvalidToken`` or ``Undecidable`` of :mod:`gateway.auth.compact`."""
        verified = await self.auth.verifier.verify_token(token)
        if verified.bound_key is not None and self.settings.auth.dpop == "off":
            raise InvalidToken("it is bound to a key, and auth.dpop is off")
        principal = verified.principal
        return Caller(view=self.access.view_of(principal), principal=principal)

    def lessen_keys(self, standing: Mapping[str, Iterable[ApiKey]]) -> int:
        """Take away from the API keys what those that stand no longer have, see :meth:`KeyRing.lessen`, and end their
        streams. Return of how many keys something was taken. The next reload builds another resource, with what is in
        the file then."""
        taken = self.auth.api_keys.lessen(standing, self.settings.auth.scopes.implies)
        if taken:
            self.files = self.files.without(KEYS)
            self.mount.subscriptions.check_callers()
        return taken

    def is_made_of(self, settings: ResourceSettings, files: ServiceFiles, known: Mapping[str, Resource]) -> bool:
        """Return whether a resource built of these, and of services in ``known`` by mount, would equal this one."""
        return self.settings == settings and self.files == files

    def is_used_by(self, other: Resource) -> bool:
        """Return whether calls of ``other`` may still need this one."""
        return self.settings.mount in (other.settings.mount, *(one.mount for one in other.settings.services))

    def start(self) -> None:
        """Start the background work, and tell open streams what changed. The mount is this one's from now on."""
        before, self._before = self._before, None  # or each resource would keep all that were before it
        self._take_over_streams(before)
        self.call_notices.follow()
        self.auth.issuers.start()

    async def close(self) -> None:
        """Close everything that no other resource shares."""
        self.call_notices.close()
        await self.background.stop()
        await self.auth.issuers.close()

    def unready(self) -> str | None:
        """Return why the resource cannot answer yet, None if it can."""
        return self.auth.issuers.unready()

    async def _visible(self, caller: Caller) -> Catalog:
        """Return the tools that a caller may call."""
        return self.access.visible_catalog(caller, await self.discovery.catalog(caller))

    def _tool_scopes(self) -> Iterator[str]:
        """Yield the scopes of tools, the configured ones first. Those of a caller's own listing are not for others."""
        configured = {scope for tool in self.settings.catalog.tools.values() for scope in tool.scopes or ()}
        yield from sorted(configured)
        if shared := self.discovery.current():
            yield from (scope for scope in shared.scopes if scope not in configured)

    def _take_over_streams(self, before: Resource | None) -> None:
        """Connect the streams at the mount to this resource, and notify them of what differs from its predecessor. They
        end unless the same callers may have them, with the same views."""
        streams, settings = self.mount.subscriptions, self.settings
        heartbeat = settings.mcp.heartbeat
        interval = min(subscriptions.MAX_INTERVAL, heartbeat)
        streams.follow(self.discovery, interval, heartbeat, self._store)
        self.mount.streams.most = settings.limits.streams
        self.mount.concurrency.most = settings.limits.concurrent
        if before is None:
            return
        old, is_alike = before.settings, isinstance(before, type(self))
        if is_alike and before.auth.api_keys.end_all_but(self.auth.api_keys):
            streams.check_callers()
        if not is_alike or old.auth != settings.auth or lists_per_caller(old) != lists_per_caller(settings):
            streams.end_all()
        self.site.operations.epoch = streams.epoch
        renamed = (old.catalog.search, old.catalog.names) != (settings.catalog.search, settings.catalog.names)
        for view in streams.views:
            if renamed or before.discovery.shown_digest(view) != self.discovery.shown_digest(view):
                streams.notify(view)

    def _make_invocation(self, made: type[Invocation], validators: ValidatorCache) -> Invocation:
        """Return what decides about the calls here, without a way to send them."""
        style = NameStyle(self.settings.catalog.names)
        return made(
            discovery=self.discovery,
            validators=validators,
            input_requests=InputRequests(self._keys, self._store),
            access=self.access,
            budget=CallBudget(self._store, self.settings.limits.invocation),
            listings=self.listings,
            concurrency=self.mount.concurrency,
            builtin=builtin_tools(self._search, self._visible, style, self.settings.catalog.search),
            name_style=style,
        )

    def _in_place(self, catalog: Catalog) -> Catalog | None:
        """Return the two tools of search, if they are listed in place of a catalog."""
        return self._search.in_place(catalog, self.settings.catalog.search, self._contents(catalog))

    def _contents(self, catalog: Catalog) -> str:
        """Return what the tools of a catalog are of."""
        return excerpt(catalog.service.title, 64) or "this service"

    def _name_tools(self, catalog: Catalog) -> Catalog:
        """Name the tools of a catalog in the metrics. Return what is listed of it."""
        listed = self._in_place(catalog)
        name_tools(self.name, catalog.names if listed is None else (*listed.names, *catalog.names))
        return listed or catalog

    def _site(self) -> Site:
        settings, mount = self.settings, self.mount
        next_pages = Budget(self._store, "next page", settings.limits.discovery, _PAGES_PER_LISTING)
        shared = operations.Operations(
            invocation=self.invocation, server=settings.mcp.server, pages=self._pages,
            page_size=settings.catalog.page_size, cursors=operations.cursor_signer(self._keys), next_pages=next_pages,
            searched=self._in_place, subscriptions=mount.subscriptions, streams=mount.streams,
            heartbeat=settings.mcp.heartbeat,
            max_response=max(service.backend.max_response for service in settings.services),
        )  # fmt: skip
        issuers, scopes = self.auth.issuers.published, lambda: self.access.supported_scopes
        has_issuers = settings.auth.traits.has_issuers
        metadata = ResourceMetadata(settings, operations.SERVER_NAME, issuers, scopes) if has_issuers else None
        card = ServerCard(settings.resource, settings.mount, shared) if settings.mcp.server.card else None
        page = None if settings.server.shown_page == "off" else ServicePage(
            settings=settings, operations=shared, search=self._search, unready=self.unready, calls=self._calls,
            report=lambda raw, refusal: TokenReport.of(settings, self.auth.policies, raw, refusal),
        )  # fmt: skip
        ends = Budget(self._store, "session end", settings.limits.discovery)
        of_clients = sessions.Sessions(self._keys, self._store, ends)
        old_eras = legacy.Legacy(shared, of_clients, self.call_notices, self.uses)
        return Site(
            settings.mount, endpoint=endpoint.Endpoint(modern.Modern(shared), old_eras), operations=shared,
            authenticator=self.auth.authenticator, metadata=metadata, card=card, page=page,
            max_body=settings.server.max_body, uses=self.uses,
        )  # fmt: skip


def lists_per_caller(settings: ResourceSettings) -> bool:
    return any(credential_modes(service).lists_per_caller for service in settings.services)
