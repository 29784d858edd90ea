"""One fronted JSON-RPC service, which is one protected resource: build all its parts from its settings.

A service never changes: for other settings, a reload builds another one. Building sends no request.
"""

import time
from collections.abc import Callable, Iterator
from typing import Final, Self
from urllib.parse import urlsplit

from gateway import __version__
from gateway.auth.access import Access
from gateway.auth.api_keys import KeyRing
from gateway.auth.compact import InvalidToken
from gateway.auth.metadata import build_resource_metadata
from gateway.backend.admission import BackendGate, CallAdmission, ListingAdmission
from gateway.backend.choice import open_transport
from gateway.backend.client import BackendClient
from gateway.backend.redaction import ErrorRedactor
from gateway.catalog import build, pages
from gateway.concurrency.background import Background, UseCounter
from gateway.config import source as config
from gateway.config.service_files import ServiceFiles, backend_tls
from gateway.credentials import build_credentials, credential_faults, credential_modes, header_secrets
from gateway.credentials.contract import Credential
from gateway.credentials.grants import BackendEndpoint, TokenClient
from gateway.diagnosis.access import TokenReport
from gateway.diagnosis.no_listing import known_diagnosis
from gateway.diagnosis.trouble import Trouble
from gateway.discovery import shared_listing, subscriptions
from gateway.discovery.discovery import Discovery
from gateway.discovery.tool_search import SEARCH_CATALOG, builtin_tools
from gateway.invocation.forwarding import Forwarder
from gateway.invocation.input_requests import InputRequests
from gateway.invocation.invocation import Invocation
from gateway.limits import Budget, CallBudget
from gateway.listing.dialect import NoListing
from gateway.listing.reader import ListingReader, form_of
from gateway.mcp import endpoint, legacy, modern, operations, running, sessions
from gateway.model import SHARED, Caller, Catalog, NameStyle
from gateway.service.mount import NOTHING, Inherited, Learned, Mount, ServiceAuth
from gateway.settings import Credentials, ServiceSettings
from gateway.signing import SigningKeys
from gateway.store import ResourceStore, Store
from gateway.telemetry.cells import name_tools
from gateway.text import masked_url, secrets_in
from gateway.web.card import ServerCard
from gateway.web.pages import ServicePage
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
        *,
        mount: Mount,
        inherited: Inherited,
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
        self._inherited = inherited
        per_caller, own_languages = self._modes.lists_per_caller, settings.backend.listing.language is None
        self.access = Access(settings.auth, settings.resource, per_caller=per_caller, own_languages=own_languages)
        api_keys = KeyRing(files.keys, settings.auth.scopes.implies, inherited.api_keys)
        self.auth = ServiceAuth(settings, api_keys, self._store, inherited.auth)
        self.learned = inherited.learned or Learned(BackendGate(settings.connections))
        backend = settings.backend
        tls, reserve = backend_tls(settings), mount.held.reserve
        self.certificate_end = tls.certificate_end()
        self.transport = open_transport(settings, tls, reserve, digest=self._modes.calls.answers_challenges)
        self._endpoint = BackendEndpoint(self.transport, backend.target, form_of(backend))
        credential, listing_credential = build_credentials(settings, self._tokens)
        sent = (*credential.secrets(), *listing_credential.secrets(), *header_secrets(settings))
        self.secrets = (*sent, *settings.catalog.secrets())
        self.reader = ListingReader(
            ListingAdmission(self.transport, self.learned.gate).of,
            backend,
            listing_credential,
            progress=progress,
            secrets=sent,
            dialect=inherited.dialect,
            reserve=mount.held.reserve_listing,
        )
        self.shared_listing = shared_listing.SharedListing(self.reader.fetch_listing, self._store, settings)
        self.call_notices = running.CallNotices(mount.calls, mount.elicitations, self._store)
        found = self.learned.param_structures, self.learned.broken_output_schemas
        backend_digest = shared_listing.backend_digest(settings)
        self.discovery_notices = subscriptions.DiscoveryNotices(self._store, backend_digest, *found)
        self.discovery = self._discovery(listing_credential.uses_callers_token)
        self.access.tool_scopes = self._tool_scopes
        self._listings = Budget(self._store, "discovery", settings.limits.discovery)
        self.invocation = self._invocation(credential)
        self._pages = pages.PageCache()
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
        *,
        mount: Mount | None = None,
        inherited: Inherited = NOTHING,
        progress: Callable[[str], None] = lambda _: None,
    ) -> Self:
        """Return a service, which can answer at once if it inherits a listing that it can use. Raises
        :class:`config.ConfigError` where a file or that listing cannot be used, or callers' tokens would be sent to a
        backend that they are not for."""
        if faults := credential_faults(settings):  # loading checks this, but settings may be made without a file
            raise config.ConfigError(faults)
        mount = mount or Mount()
        service = cls(settings, files, store, secrets, mount=mount, inherited=inherited, progress=progress)
        try:
            if inherited.learned and inherited.discovery and not inherited.same_catalogs:
                await service.discovery.prepare(inherited.discovery)
        except BaseException as error:
            await service.close()
            if isinstance(error, NoListing):
                raise config.ConfigError([f"{settings.knob('catalog')}: {error}"]) from None
            raise
        return service

    def leave(self, settings: ServiceSettings, files: ServiceFiles) -> Inherited:
        """Return what a successor of these settings and files takes over."""
        old, modes = self.settings, credential_modes(settings)
        same_auth, same_backend = old.auth == settings.auth, (old.backend, self._modes) == (settings.backend, modes)
        endpoints = old.backend.credentials.token_endpoint, settings.backend.credentials.token_endpoint
        same_issuers = (
            same_auth and endpoints[0] == endpoints[1] and self.files.of("auth.issuers") == files.of("auth.issuers")
        )
        same_catalog = old.catalog == settings.catalog and self.files.of("catalog") == files.of("catalog")
        return Inherited(
            auth=self.auth if same_issuers else None,
            api_keys=self.auth.api_keys,
            learned=self.learned if same_backend else None,
            gate=None if same_backend else self.learned.gate,
            dialect=self.reader.dialect if same_backend else "auto",
            secrets=self.secrets,
            discovery=self.discovery,
            same_catalogs=same_backend and same_catalog,
            same_names=(old.catalog.search, old.catalog.names) == (settings.catalog.search, settings.catalog.names),
            same_callers=same_auth and self._modes.lists_per_caller == modes.lists_per_caller,
        )

    @property
    def name(self) -> str:
        return self.settings.name

    def is_made_of(self, settings: ServiceSettings, files: ServiceFiles) -> bool:
        """Return whether a service built of these would be equal to this one."""
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

    async def caller(self, token: str) -> Caller:
        """Return the bearer of a token. Raises ``InvalidToken`` or ``Undecidable`` of :mod:`gateway.auth.compact`."""
        verified = await self.auth.verifier.verify_token(token)
        if verified.bound_key is not None and self.settings.auth.dpop == "off":
            raise InvalidToken("it is bound to a key, and auth.dpop is off")
        principal = verified.principal
        return Caller(view=self.access.view_of(principal), principal=principal)

    async def close(self) -> None:
        """Close everything that no other service shares."""
        self.shared_listing.close()
        self.call_notices.close()
        self.discovery_notices.close()
        await self.background.stop()
        await self.discovery.close()
        await self.transport.close()
        await self.auth.issuers.close()

    def _take_over_mount(self) -> None:
        """Connect the streams at the mount to this service, and notify them of what differs from its predecessor."""
        inherited, self._inherited = self._inherited, NOTHING  # or each service would keep all that were before it
        streams, settings = self._mount.subscriptions, self.settings
        if inherited.discovery is not None:
            listings = inherited.learned is not None
            self.discovery.take_over(inherited.discovery, listings=listings, catalogs=inherited.same_catalogs)
            if inherited.gate is not None:
                self.learned.gate.breaker.openings += inherited.gate.breaker.openings
        heartbeat = settings.mcp.heartbeat
        interval = min(subscriptions.MAX_INTERVAL, heartbeat)
        streams.follow(self.discovery, interval, heartbeat, self._store)
        self._mount.streams.most = settings.limits.streams
        self._mount.concurrency.most = settings.limits.concurrent
        if inherited.api_keys.end_all_but(self.auth.api_keys):
            streams.check_callers()
        if inherited.discovery is None:
            return
        if not inherited.same_callers:
            streams.end_all()
        self.site.operations.epoch = streams.epoch
        for view in streams.views:
            digests = inherited.discovery.shown_digest(view), self.discovery.shown_digest(view)
            if not inherited.same_names or digests[0] != digests[1]:
                streams.notify(view)

    def _tokens(self, section: Credentials) -> TokenClient:
        issuers = self.auth.issuers
        return TokenClient(issuers.outbound(), section, issuers.token_endpoint(section), self._endpoint)

    def _discovery(self, callers_own: bool) -> Discovery:
        backend = self.settings.backend
        leading = backend.credentials.send is not None and bool(backend.credentials.send.params)
        discovery = Discovery(
            self.shared_listing.fetch_listing,
            build.Builder(backend.params, self.learned.validators, pins=self.files.pins, leading_params=leading),
            self.settings.catalog,
            fallback=self.files.fallback,
            patience=2 * backend.listing.timeout,  # for one under way, and then for its own
            uses_callers_token=callers_own,
            broken_output_schemas=self.learned.broken_output_schemas,
        )
        discovery.before_publish = self._prepare_pages
        discovery.languages = self.access.languages
        discovery.explain_with(self.explain)
        return discovery

    def explain(self, failure: Exception | None) -> dict[str, str]:
        """Return ``cause`` and ``next`` of a failed listing, as far as they are known without a further request."""
        has_token = self.settings.auth.anonymous == "none"  # where callers' own tokens fetch listings
        return known_diagnosis(Trouble.of(self.settings, failure, self.secrets, has_token=has_token))

    def _invocation(self, credential: Credential) -> Invocation:
        backend = self.settings.backend
        url = urlsplit(backend.url)
        hidden = (*self.secrets, *secrets_in(backend.url), *self._inherited.secrets, url.hostname or "", url.netloc)
        redactor = ErrorRedactor(hidden)
        learned = self.learned
        admission = CallAdmission(self.transport, learned.gate, backend.queue_timeout)
        most, passes = backend.max_response, backend.errors == "passed"
        client = BackendClient(admission, backend.target, most, redactor, self.secrets, passes_errors=passes)
        knobs, name_style = self.settings.catalog, NameStyle(self.settings.catalog.names)
        return Invocation(
            discovery=self.discovery,
            forwarder=Forwarder(client, credential, learned.param_structures, learned.gate.resends, backend.timeout),
            validators=learned.validators,
            input_requests=InputRequests(self._keys, self._store),
            access=self.access,
            budget=CallBudget(self._store, self.settings.limits.invocation),
            listings=self._listings,
            concurrency=self._mount.concurrency,
            builtin=builtin_tools(learned.search, self._visible, name_style) if knobs.search else {},
            name_style=name_style,
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
        next_pages = Budget(self._store, "next page", settings.limits.discovery, _PAGES_PER_LISTING)
        shared = operations.Operations(
            discovery=self.discovery, pages=self._pages, budget=self._listings,
            cursors=operations.Cursors(self._keys, next_pages), settings=settings.catalog,
            introduction=operations.Introduction(settings.mcp.server, SERVER_NAME, __version__),
            subscriptions=mount.subscriptions, streams=mount.streams, heartbeat=settings.mcp.heartbeat,
            access=self.access, max_response=settings.backend.max_response,
        )  # fmt: skip
        issuers, scopes = self.auth.issuers.published, lambda: self.access.supported_scopes
        metadata = (
            build_resource_metadata(settings, scopes, SERVER_NAME, issuers)
            if settings.auth.traits.needs_metadata
            else None
        )
        card = ServerCard(settings.resource, settings.mount, shared) if settings.mcp.server.card else None
        page = None if settings.server.shown_page == "off" else ServicePage(
            settings=settings, operations=shared, invocation=self.invocation, access=self.access,
            search=self.learned.search, unready=self.unready,
            report=lambda raw, refusal: TokenReport.of(settings, self.auth.policies, raw, refusal),
        )  # fmt: skip
        ends = Budget(self._store, "session end", settings.limits.discovery)
        of_clients = sessions.Sessions(self._keys, self._store, ends)
        old_eras = legacy.Legacy(shared, self.invocation, of_clients, self.call_notices, self.uses)
        return Site(
            settings.mount, endpoint=endpoint.Endpoint(modern.Modern(shared, self.invocation), old_eras),
            operations=shared, invocation=self.invocation, discovery=self.discovery, access=self.access,
            authenticator=self.auth.authenticator, metadata=metadata, card=card, page=page,
            rest_page_size=_rest_page_size(settings), max_body=settings.server.max_body, uses=self.uses,
        )  # fmt: skip

    def _prepare_pages(self, catalog: Catalog) -> None:
        """Render the first pages of a catalog before a client asks for them, and name its tools in the metrics."""
        knobs = self.settings.catalog
        name_tools(self.name, (*SEARCH_CATALOG.names, *catalog.names) if knobs.search else catalog.names)
        shared = self.discovery.current(SHARED) if self._modes.lists_per_caller else catalog
        catalog = SEARCH_CATALOG if knobs.search else catalog
        projectors = [one.with_name_style(NameStyle(knobs.names)) for one in (modern.PROJECTOR, *legacy.PROJECTORS)]
        self._pages.prepare_first_pages(catalog, projectors, knobs.page_size)
        rest = RestProjector(self.access, shared, mount=self.settings.mount)
        self._pages.prepare_first_pages(catalog, (rest,), _rest_page_size(self.settings))


def _rest_page_size(settings: ServiceSettings) -> int:
    return min(settings.catalog.page_size, _MAX_REST_PAGE)
