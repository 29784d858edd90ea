"""One fronted JSON-RPC service, which is one protected resource: build all its parts from its settings.

A service never changes: for other settings, a reload builds another one, which takes over from its predecessor the
parts whose settings are equal. Building sends no request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any, Final, Self
from urllib.parse import urlsplit

from gateway import __version__
from gateway.auth.access import Access
from gateway.auth.compact import InvalidToken
from gateway.auth.metadata import build_resource_metadata
from gateway.backend.admission import BackendGate, CallAdmission, ListingAdmission
from gateway.backend.client import HEADERS, BackendClient
from gateway.backend.params import ParamStructures
from gateway.backend.redaction import ErrorRedactor
from gateway.catalog.build import Builder
from gateway.catalog.pages import PageCache
from gateway.concurrency.background import Background, UseCounter, describe_problems
from gateway.config import source as config
from gateway.config.service_files import ServiceFiles, backend_tls
from gateway.credentials import Credential, build_credentials, credential_faults, credential_modes
from gateway.credentials.grants import BackendEndpoint, TokenClient
from gateway.diagnosis.no_listing import known_diagnosis
from gateway.diagnosis.trouble import Trouble
from gateway.discovery.discovery import Discovery
from gateway.discovery.shared_listing import SharedListing, backend_digest
from gateway.discovery.subscriptions import MAX_INTERVAL, DiscoveryNotices
from gateway.discovery.tool_search import SEARCH_CATALOG, builtin_tools
from gateway.http_client.transport import open_transport
from gateway.invocation.forwarding import Forwarder
from gateway.invocation.input_requests import InputRequests
from gateway.invocation.invocation import Invocation
from gateway.limits import Budget, CallBudget
from gateway.listing.dialect import NoListing
from gateway.listing.reader import ListingReader, form_of
from gateway.mcp import legacy, modern
from gateway.mcp.endpoint import Endpoint
from gateway.mcp.operations import Cursors, Introduction, Operations
from gateway.mcp.running import CallNotices
from gateway.mcp.sessions import Sessions
from gateway.model import SHARED, Caller, Catalog, NameStyle, View
from gateway.service.mount import Learned, Mount
from gateway.service.service_auth import ServiceAuth
from gateway.settings import Credentials, ServiceSettings
from gateway.signing import SigningKeys
from gateway.store import ResourceStore, Store
from gateway.text import masked_url, secrets_in
from gateway.web.rest import RestProjector
from gateway.web.site import Site

SERVER_NAME: Final = "jsonrpc-mcp-gateway"
READY_AFTER: Final = 10.0
"""Seconds after which a service is ready although its first listing has not come yet."""
_MAX_REST_PAGE: Final = 50
"""Tools on one page of REST. Its readers are often models, which read the whole answer but ask for no second page."""
_PAGES_PER_LISTING: Final = 10
"""Further pages that a caller may ask for, for each listing that its budget allows."""


class Service:
    """Hold the parts of one service. Made by :meth:`build`; :meth:`start` begins its background work."""

    def __init__(
        self,
        settings: ServiceSettings,
        files: ServiceFiles,
        store: Store,
        secrets: tuple[bytes, ...],
        mount: Mount,
        before: Service | None,
        progress: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self.files = files
        self.uses = UseCounter()
        self.background = Background()
        self._mount = mount
        self._started = time.monotonic()
        self._modes = credential_modes(settings)
        self._keys = SigningKeys(secrets, settings.mount_id)
        self._store = ResourceStore(store, self._keys)
        self._before = before
        self.same_backend = before is not None and _same_backend(before, settings)
        per_caller, own_languages = self._modes.lists_per_caller, settings.backend.listing.language is None
        self.access = Access(settings.auth, settings.resource, per_caller=per_caller, own_languages=own_languages)
        self.auth: ServiceAuth = ServiceAuth(settings, files, self._store, before.auth if before else None)
        backend = settings.backend
        tls, reserve = backend_tls(settings), mount.held.reserve
        self.outbound = open_transport(settings, tls, HEADERS, reserve, digest=self._modes.calls.answers_challenges)
        self._endpoint = BackendEndpoint(self.outbound, backend.url, form_of(backend))
        self.learned = self._learned()
        dialect: str = before.reader.dialect if before is not None and self.same_backend else "auto"
        credential, listing_credential = build_credentials(settings, self._tokens)
        sent = (*credential.secrets(), *listing_credential.secrets())
        self.secrets = (*sent, *settings.catalog.secrets())
        way = ListingAdmission(self.outbound, self.learned.gate)
        room = mount.held.reserve_listing
        self.reader: ListingReader = ListingReader(way.of, backend, listing_credential, progress, sent, dialect, room)
        self.shared_listing = SharedListing(self.reader.fetch_listing, self._store, settings)
        self.call_notices = CallNotices(mount.calls, mount.elicitations, self._store)
        found = self.learned.param_structures, self.learned.broken_output_schemas
        self.discovery_notices = DiscoveryNotices(self._store, backend_digest(settings), *found)
        self.discovery = self._discovery(listing_credential.uses_callers_token)
        self.access.tool_scopes = self._tool_scopes
        self.invocation = self._invocation(credential)
        self._pages = PageCache()
        self.site = self._site()

    def __repr__(self) -> str:
        mount, url = self.settings.mount or "/", masked_url(self.settings.backend.url)
        return f"<Service {mount} of {url}: {self.unready() or 'ready'}, {self.uses!r}, {self.discovery!r}>"

    @classmethod
    async def build(
        cls,
        settings: ServiceSettings,
        files: ServiceFiles,
        store: Store,
        secrets: tuple[bytes, ...],
        mount: Mount | None = None,
        before: Service | None = None,
        progress: Callable[[str], None] = lambda _: None,
    ) -> Self:
        """Return a service, which can answer at once if ``before``, which it replaces, has a listing that it can use.

        Raises :class:`config.ConfigError` where a file or the listing of ``before`` cannot be used, or callers' tokens
        would be sent to a backend that they are not for.
        """
        if faults := credential_faults(settings):  # loading checks this, but settings may be made without a file
            raise config.ConfigError(faults)
        service = cls(settings, files, store, secrets, mount or Mount(), before, progress)
        async with AsyncExitStack() as undo:
            undo.push_async_callback(service.close)
            if service.same_backend:
                await service._reuse_listing()
            undo.pop_all()
        return service

    @property
    def name(self) -> str:
        return self.settings.name

    def is_made_of(self, settings: ServiceSettings, files: ServiceFiles) -> bool:
        """Tell whether a service built of these would be equal to this one."""
        return self.settings == settings and self.files == files

    def start(self) -> None:
        """Start the background work, and tell open streams what changed. The mount is this service's from now on."""
        self._take_over_mount()
        self.shared_listing.follow(self.discovery)
        self.call_notices.follow()
        self.discovery_notices.follow(self.discovery, self._mount.subscriptions)
        self.auth.issuers.start()
        if self._modes.lists_per_caller and self.settings.auth.anonymous == "none":
            self.discovery.first_attempt_over.set()  # each caller has its own view: there is no shared one to wait for
            self.discovery.problems[0].set("")
        else:
            self.background.start("listing", self.discovery.refresh_forever)

    def unready(self) -> str | None:
        """Return why the service cannot answer yet, None if it can."""
        if not self.discovery.first_attempt_over.is_set() and time.monotonic() - self._started < READY_AFTER:
            return "the first listing has not come yet"
        return self.auth.issuers.unready()

    def status(self) -> dict[str, Any]:
        """Return what ``/status`` says of the service. The numbers are null without a listing for all callers."""
        catalog, issuers = self.discovery.current(), self.auth.issuers
        of_issuers, breaker = (keys.problem for keys in issuers.keys.values()), self.learned.gate.breaker
        listing, lack = self.discovery.problems
        has_token = self.settings.auth.anonymous == "none"  # where callers' own tokens fetch listings
        known = known_diagnosis(Trouble.of(self.settings, listing.error, self.secrets, has_token=has_token))
        failed = [one | known for one in describe_problems([listing])]
        others = describe_problems([lack, breaker.problem, breaker.problem_of_tool, *of_issuers])
        return {
            "name": self.name,
            "path": f"{self.settings.mount}/mcp",
            "tools": None if catalog is None else len(catalog.tools),
            "quarantined": None if catalog is None else len(catalog.quarantined),
            "listing_age": None if catalog is None else self.discovery.age(),
            "problems": [*failed, *others],
            "jobs": [*self.background.describe(), *issuers.background.describe()],
        }

    async def caller(self, token: str) -> Caller:
        """Return the bearer of a token. Raises ``InvalidToken`` or ``Undecidable`` of :mod:`gateway.auth.compact`."""
        verified = await self.auth.issuers.verifier(self.auth.policies).verify_token(token)
        if verified.bound_key is not None and self.settings.auth.dpop == "off":
            raise InvalidToken("it is bound to a key, and auth.dpop is off")
        principal = verified.principal
        return Caller(view=self.access.view_of(principal), principal=principal)

    async def close(self, successor: Service | None = None) -> None:
        """Close everything that the successor did not take over."""
        self.shared_listing.close()
        self.call_notices.close()
        self.discovery_notices.close()
        await self.background.stop()
        await self.discovery.close()
        await self.outbound.close()
        if self._before is not None and self._before.auth.issuers is self.auth.issuers:
            return  # it was built and never started: the issuers are its predecessor's
        if successor is None or successor.auth.issuers is not self.auth.issuers:
            await self.auth.issuers.close()

    def _client_visible_state(self, view: View) -> tuple[object, ...]:
        """Return what clients see of a view, to be compared: streams are notified where it differs."""
        knobs = self.settings.catalog
        return self.discovery.shown_digest(view), knobs.search, knobs.names

    def _take_over_mount(self) -> None:
        """Connect the streams at the mount to this service, and notify them of what differs from its predecessor."""
        before, self._before = self._before, None
        subscriptions, settings = self._mount.subscriptions, self.settings
        if before is not None:
            self.discovery.take_over(before.discovery, listings=self.same_backend, catalogs=self._same_catalogs(before))
        heartbeat = settings.mcp.heartbeat
        subscriptions.follow(self.discovery, min(MAX_INTERVAL, heartbeat), heartbeat, self._store)
        self._mount.streams.most = settings.limits.streams
        self._mount.concurrency.most = settings.limits.concurrent
        if before is None:
            return
        if before.settings.auth != settings.auth or before._modes.lists_per_caller != self._modes.lists_per_caller:
            subscriptions.end_all()  # their clients may not be allowed in now, or see other views
        self.site.operations.epoch = subscriptions.epoch
        for view in subscriptions.views:
            if before._client_visible_state(view) != self._client_visible_state(view):
                subscriptions.notify(view)

    async def _reuse_listing(self) -> None:
        try:
            if self._before is not None and not self._same_catalogs(self._before):
                await self.discovery.prepare(self._before.discovery)
        except NoListing as error:
            steps = "; ".join(str(step) for step in error.steps)
            raise config.ConfigError([f"{self.settings.knob('catalog')}: {steps}"]) from None

    def _same_catalogs(self, before: Service) -> bool:
        same = self.same_backend and before.settings.catalog == self.settings.catalog
        return same and before.files.of("catalog") == self.files.of("catalog")

    def _learned(self) -> Learned:
        """Return what the predecessor found out about the same backend, or nothing yet."""
        if self._before is not None and self.same_backend:
            return self._before.learned
        return Learned(ParamStructures(), BackendGate(self.settings.connections))

    def _tokens(self, section: Credentials) -> TokenClient:
        return TokenClient(
            self.auth.issuers.outbound(), section, self.auth.issuers.token_endpoint(section), self._endpoint
        )

    def _discovery(self, callers_own: bool) -> Discovery:
        backend = self.settings.backend
        leading = backend.credentials.send is not None and bool(backend.credentials.send.params)
        discovery = Discovery(
            self.shared_listing.fetch_listing,
            Builder(backend.params, self.learned.validators, pins=self.files.pins, leading_params=leading),
            self.settings.catalog,
            fallback=self.files.fallback,
            patience=2 * backend.listing.timeout,  # for one under way, and then for its own
            uses_callers_token=callers_own,
            broken_output_schemas=self.learned.broken_output_schemas,
        )
        discovery.before_publish = self._prepare_pages
        discovery.languages = self.access.languages
        return discovery

    def _invocation(self, credential: Credential) -> Invocation:
        backend = self.settings.backend
        url = urlsplit(backend.url)
        old = self._before.secrets if self._before else ()  # a late answer may still quote one
        redactor = ErrorRedactor((*self.secrets, *secrets_in(backend.url), *old, url.hostname or "", url.netloc))
        learned, limits = self.learned, self.settings.limits
        admission = CallAdmission(self.outbound, learned.gate, backend.queue_timeout)
        most, passes = backend.max_response, backend.errors == "passed"
        client = BackendClient(admission, backend.url, most, redactor, self.secrets, passes_errors=passes)
        knobs, name_style = self.settings.catalog, NameStyle(self.settings.catalog.names)
        return Invocation(
            self.discovery,
            Forwarder(client, credential, learned.param_structures, learned.gate.resends, backend.timeout),
            learned.validators,
            InputRequests(self._keys, self._store),
            self.access,
            CallBudget(self._store, limits.invocation),
            Budget(self._store, "discovery", limits.discovery),
            self._mount.concurrency,
            builtin_tools(learned.search, self._visible, name_style) if knobs.search else {},
            name_style,
        )

    async def _visible(self, caller: Caller) -> Catalog:
        """Return the tools that a caller may call."""
        return self.access.visible_catalog(caller, await self.discovery.catalog(caller))

    def _tool_scopes(self) -> Iterator[str]:
        """Yield the scopes of tools, the configured ones first. Those of a caller's own listing are not for others."""
        configured = {scope for tool in self.settings.catalog.tools.values() for scope in tool.scopes or ()}
        yield from sorted(configured)
        if shared := self.discovery.current():
            yield from (scope for scope in shared.scopes if scope not in configured)

    def _site(self) -> Site:
        settings, mount = self.settings, self._mount
        listings = Budget(self._store, "discovery", settings.limits.discovery)
        next_pages = Budget(self._store, "next page", settings.limits.discovery, _PAGES_PER_LISTING)
        operations = Operations(
            self.discovery, self._pages, listings, Cursors(self._keys, next_pages),
            settings.catalog, Introduction(settings.mcp.server, SERVER_NAME, __version__),
            mount.subscriptions, mount.streams, settings.mcp.heartbeat, self.access, settings.backend.max_response,
        )  # fmt: skip
        issuers, scopes = self.auth.issuers.published, lambda: self.access.supported_scopes
        metadata = build_resource_metadata(settings, scopes, SERVER_NAME, issuers) if self.auth.authenticator else None
        ends = Budget(self._store, "session end", settings.limits.discovery)
        sessions = Sessions(self._keys, self._store, ends)
        old_eras = legacy.Legacy(operations, self.invocation, sessions, self.call_notices, self.uses)
        return Site(
            settings.mount, endpoint=Endpoint(modern.Modern(operations, self.invocation), old_eras),
            operations=operations, invocation=self.invocation, discovery=self.discovery, access=self.access,
            authenticator=self.auth.authenticator, metadata=metadata, rest_page_size=_rest_page_size(settings),
            max_body=settings.server.max_body, uses=self.uses,
        )  # fmt: skip

    def _prepare_pages(self, catalog: Catalog) -> None:
        """Render the first pages of a catalog before a client asks for them."""
        knobs = self.settings.catalog
        shared = self.discovery.current(SHARED) if self._modes.lists_per_caller else catalog
        catalog = SEARCH_CATALOG if knobs.search else catalog
        projectors = [one.with_name_style(NameStyle(knobs.names)) for one in (modern.PROJECTOR, *legacy.PROJECTORS)]
        self._pages.prepare_first_pages(catalog, projectors, knobs.page_size)
        rest = RestProjector(self.access, shared, mount=self.settings.mount)
        self._pages.prepare_first_pages(catalog, (rest,), _rest_page_size(self.settings))


def _same_backend(before: Service, settings: ServiceSettings) -> bool:
    """Tell whether both have the same backend, and send it the same kinds of credential."""
    old = before.settings
    return old.backend == settings.backend and credential_modes(old) == credential_modes(settings)


def _rest_page_size(settings: ServiceSettings) -> int:
    return min(settings.catalog.page_size, _MAX_REST_PAGE)
