"""One fronted service: everything that is made from its settings. It is one protected resource.

A service does not change with its settings: a reload builds another one, which takes from its predecessor what derives
from equal settings, and puts it in its place. Building asks nobody anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final, Self
from urllib.parse import urlsplit

from gateway import __version__, config
from gateway.auth.access import Access
from gateway.auth.authenticator import Authenticator
from gateway.auth.claims import IssuerPolicy, issuer_policy
from gateway.auth.dpop import ProofChecker
from gateway.auth.issuers import Issuers
from gateway.auth.metadata import build_resource_metadata
from gateway.backend.client import HEADERS, BackendClient, ExchangeLimits
from gateway.backend.error_redaction import ErrorRedactor
from gateway.backend.params import ParamConventions, ParamStructures
from gateway.background import Background
from gateway.catalog.build import Builder
from gateway.catalog.pages import PageCache
from gateway.credentials import Credential, build_credentials, credential_faults, credential_modes
from gateway.credentials.grants import TokenClient
from gateway.discovery.broken_output_schemas import BrokenOutputSchemas
from gateway.discovery.discovery import Discovery
from gateway.invocation.input_requests import InputRequests
from gateway.invocation.invocation import Invocation
from gateway.limits import Budget
from gateway.listing.dialect import NoListing
from gateway.listing.reader import ListingReader
from gateway.mcp import legacy, modern
from gateway.mcp.cursors import Cursors
from gateway.mcp.endpoint import Endpoint
from gateway.mcp.operations import Operations
from gateway.mcp.server_info import Introduction
from gateway.mcp.sessions import Sessions
from gateway.model import ANONYMOUS, SHARED, Caller, Catalog, NameStyle, View
from gateway.mount import Mount
from gateway.outbound import Outbound
from gateway.schema.validation import ValidatorCache
from gateway.search.tools import SEARCH_CATALOG, ToolSearch, builtin_tools
from gateway.service_files import ServiceFiles, backend_tls
from gateway.settings import Credentials, ServiceSettings
from gateway.signing import SigningKeys
from gateway.store import ResourceStore, Store
from gateway.text import secrets_in
from gateway.uses import UseCounter
from gateway.web.rest import RestProjector
from gateway.web.site import Site

SERVER_NAME: Final = "jsonrpc-mcp-gateway"
READY_AFTER: Final = 10.0
"""Seconds after which a service is ready although its first listing is still awaited."""
_MAX_REST_PAGE: Final = 50
"""Tools on one page of REST, which has fewer clients that read on than models that read all."""
_PAGES_PER_LISTING: Final = 10
"""For each listing that a caller may begin, the cursors that it may follow."""


class Service:
    """Made by :meth:`build`; begins its background work with :meth:`start`."""

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
        self._store = ResourceStore(store, settings.mount_id)
        self._keys = SigningKeys(secrets, settings.mount_id)
        self._before = before
        self.same_backend = before is not None and _same_backend(before, settings)
        self.access = Access(settings.auth, settings.resource, per_caller=self._modes.lists_per_caller)
        self.issuers = self._issuers()
        self.policies = self._policies()
        self.authenticator = self._authenticator()
        backend = settings.backend
        self.outbound = Outbound(
            connections=backend.connections, tls=backend_tls(settings), proxy=backend.proxy, headers=HEADERS
        )
        self._learn()
        credential, listing_credential = build_credentials(settings, self._tokens)
        shown = (*credential.secrets(), *listing_credential.secrets())
        self.secrets = (*shown, *_secrets(settings))
        self.reader = ListingReader(self.outbound, settings.backend, listing_credential, progress, shown, self._dialect)
        self.discovery = self._discovery(listing_credential.uses_callers_token)
        self.invocation = self._invocation(credential)
        self._pages = PageCache()
        self.site = self._site()

    def __repr__(self) -> str:
        return f"<Service {self.settings.mount or '/'} before {self.settings.backend.url}: {self.unready() or 'ready'}>"

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
        """Make a service that can answer at once where ``before``, which it is to replace, has what it takes.

        Raises :class:`config.ConfigError` where a file cannot be used, callers' tokens would go astray, or the listing
        at hand cannot be offered by these settings.
        """
        if faults := credential_faults(settings):  # also where they were not loaded
            raise config.ConfigError(faults)
        service = cls(settings, files, store, secrets, mount or Mount(), before, progress)
        async with AsyncExitStack() as undo:
            undo.push_async_callback(service.close)
            if service.same_backend:
                await service._prepare()
            undo.pop_all()
        return service

    @property
    def name(self) -> str:
        return self.settings.name

    def is_made_of(self, settings: ServiceSettings, files: ServiceFiles) -> bool:
        """Tell whether another one of these would be the same."""
        return self.settings == settings and self.files == files

    def start(self) -> None:
        """Begin what goes on in the background. The service stands at its mount from now on."""
        self._follow()
        self.issuers.start()
        if self._modes.lists_per_caller and self.settings.auth.anonymous == "none":
            self.discovery.first_attempt_over.set()  # there is no shared view to wait for
        else:
            self.background.start("listing", self.discovery.refresh_forever)

    def unready(self) -> str | None:
        """Why the service cannot answer yet, None where it can."""
        if not self.discovery.first_attempt_over.is_set() and time.monotonic() - self._started < READY_AFTER:
            return "the first listing is still awaited"
        return self.issuers.unready()

    async def caller(self, token: str | None) -> Caller:
        """Who the bearer of a token is. Raises :class:`~gateway.auth.refusals.InvalidToken`,
        :class:`~gateway.auth.refusals.Undecidable`."""
        if token is None:
            return ANONYMOUS
        principal = (await self.issuers.verifier(self.policies).verify_token(token)).principal
        return Caller(view=self.access.view_of(principal), principal=principal)

    async def close(self, successor: Service | None = None) -> None:
        """Let go of everything that the successor did not take."""
        await self.background.stop()
        await self.discovery.close()
        await self.outbound.close()
        if self._before is not None and self._before.issuers is self.issuers:
            return  # it was never put in place
        if successor is None or successor.issuers is not self.issuers:
            await self.issuers.close()

    def _shown_to_clients(self, view: View) -> tuple[object, ...]:
        """What a client sees of a view."""
        knobs = self.settings.catalog
        return self.discovery.shown_digest(view), knobs.search, knobs.names

    def _follow(self) -> None:
        """Have the streams at the mount hear of this service's changes, and of what differs from before."""
        before, self._before = self._before, None
        subscriptions, settings = self._mount.subscriptions, self.settings
        if before is not None:
            self.discovery.take_over(before.discovery, listings=self.same_backend, catalogs=self._same_catalogs(before))
        subscriptions.follow(self.discovery, settings.catalog.notify_interval, settings.mcp.heartbeat)
        self._mount.streams.most = settings.limits.streams
        if before is None:
            return
        if before.settings.auth != settings.auth or before._modes.lists_per_caller != self._modes.lists_per_caller:
            subscriptions.end_all()  # their clients may be others, or see other views
        self.site.operations.epoch = subscriptions.epoch
        for view in subscriptions.views:
            if before._shown_to_clients(view) != self._shown_to_clients(view):
                subscriptions.notify(view)

    async def _prepare(self) -> None:
        try:
            if self._before is not None and not self._same_catalogs(self._before):
                await self.discovery.prepare(self._before.discovery)
        except NoListing as error:
            steps = "; ".join(str(step) for step in error.steps)
            raise config.ConfigError([f"{self.settings.knob('catalog')}: {steps}"]) from None

    def _same_catalogs(self, before: Service) -> bool:
        same = self.same_backend and before.settings.catalog == self.settings.catalog
        return same and before.files.of("catalog") == self.files.of("catalog")

    def _learn(self) -> None:
        """Take what was learned of the backend, or begin anew."""
        before = self._before if self.same_backend else None
        params = self.settings.backend.params
        prefix = tuple(secret.get_secret_value() for secret in params.prefix)
        conventions = ParamConventions(prefix, params.always)
        self.param_structures: ParamStructures = before.param_structures if before else ParamStructures(conventions)
        self.broken_output_schemas: BrokenOutputSchemas = (
            before.broken_output_schemas if before else BrokenOutputSchemas()
        )
        self.validators: ValidatorCache = before.validators if before else ValidatorCache()
        self.search: ToolSearch = before.search if before else ToolSearch()
        self._dialect: str = before.reader.dialect if before else "auto"

    def _issuers(self) -> Issuers:
        before, settings = self._before, self.settings
        endpoint = settings.backend.credentials.token_endpoint
        if (
            before is not None
            and before.settings.auth == settings.auth
            and before.files.of("auth") == self.files.of("auth")
            and before.settings.backend.credentials.token_endpoint == endpoint
        ):
            return before.issuers
        return Issuers(settings.auth.issuers if settings.auth.mode != "off" else (), endpoint)

    def _policies(self) -> tuple[IssuerPolicy, ...]:
        settings, modes = self.settings, self._modes
        shown = modes.calls.uses_callers_token or modes.listing.uses_callers_token
        extra = not (shown and settings.backend.credentials.reject_extra_audiences)
        implies = settings.auth.scopes.implies
        return tuple(
            issuer_policy(keys.issuer, settings.resource, extra_audiences=extra, implies=implies)
            for keys in self.issuers.keys.values()
        )

    def _authenticator(self) -> Authenticator | None:
        """None with ``auth.mode: off``. What was found out about tokens counts on where it was by equal rules."""
        before, auth = self._before, self.settings.auth
        if auth.mode == "off":
            return None
        if before is not None and before.issuers is self.issuers and before.policies == self.policies:
            return before.authenticator
        proofs = None if auth.dpop == "off" else ProofChecker(self.settings.origin, self._store)
        verifier = self.issuers.verifier(self.policies)
        return Authenticator(verifier, scopes=self.access.baseline_scopes, dpop=auth.dpop, proofs=proofs)

    def _tokens(self, section: Credentials) -> TokenClient:
        return TokenClient(self.issuers.outbound(), section, self.issuers.token_endpoint(section))

    def _discovery(self, callers_own: bool) -> Discovery:
        backend = self.settings.backend
        discovery = Discovery(
            self.reader.fetch_listing,
            Builder(backend.params, self.validators, pins=self.files.pins),
            self.settings.catalog,
            fallback=self.files.fallback,
            patience=2 * backend.listing.timeout,  # its own, and another that it may have to wait for
            uses_callers_token=callers_own,
            broken_output_schemas=self.broken_output_schemas,
        )
        discovery.before_publish = self._prepare_pages
        return discovery

    def _invocation(self, credential: Credential) -> Invocation:
        backend = self.settings.backend
        url = urlsplit(backend.url)
        earlier = self._before.secrets if self._before else ()  # of them, answers may still be under way
        redactor = ErrorRedactor((*self.secrets, *secrets_in(backend.url), *earlier, url.hostname or "", url.netloc))
        limits = ExchangeLimits(backend.timeout, backend.max_response)
        client = BackendClient(self.outbound, backend.url, limits, redactor, passes_errors=backend.errors == "passed")
        knobs, name_style = self.settings.catalog, NameStyle(self.settings.catalog.names)
        return Invocation(
            self.discovery,
            client,
            credential,
            self.validators,
            self.param_structures,
            InputRequests(self._keys, self._store),
            self.access,
            builtin_tools(self.search, self._visible, name_style) if knobs.search else {},
            name_style,
            backend.timeout,
        )

    async def _visible(self, caller: Caller) -> Catalog:
        """Return the tools that a caller may call."""
        return self.access.visible_catalog(caller, await self.discovery.catalog(caller))

    def _site(self) -> Site:
        settings, mount = self.settings, self._mount
        listings = Budget(self._store, "discovery", settings.limits.discovery)
        next_pages = Budget(self._store, "next page", settings.limits.discovery, _PAGES_PER_LISTING)
        operations = Operations(
            self.discovery, self._pages, listings, Cursors(self._keys, next_pages),
            settings.catalog, Introduction(settings.mcp.server, SERVER_NAME, __version__),
            mount.subscriptions, mount.streams, settings.mcp.heartbeat, self.access, settings.backend.max_response,
        )  # fmt: skip
        sessions = Sessions(self._keys, self._store)
        metadata = (
            None
            if self.authenticator is None
            else build_resource_metadata(settings, self.access.baseline_scopes, SERVER_NAME)
        )
        return Site(
            settings.mount,
            endpoint=Endpoint(operations, self.invocation, sessions, mount.calls, self.uses),
            operations=operations,
            invocation=self.invocation,
            discovery=self.discovery,
            access=self.access,
            authenticator=self.authenticator,
            metadata=metadata,
            rest_page_size=_rest_page_size(settings),
            max_body=settings.server.max_body,
            uses=self.uses,
        )

    def _prepare_pages(self, catalog: Catalog) -> None:
        """Make the first pages of a catalog before anybody asks for them."""
        knobs = self.settings.catalog
        shared = self.discovery.current(SHARED) if self._modes.lists_per_caller else catalog
        catalog = SEARCH_CATALOG if knobs.search else catalog
        projectors = (
            projector.with_name_style(NameStyle(knobs.names)) for projector in (modern.PROJECTOR, *legacy.PROJECTORS)
        )
        self._pages.prepare_first_pages(catalog, projectors, knobs.page_size)
        self._pages.prepare_first_pages(
            catalog, (RestProjector(self.access, shared, mount=self.settings.mount),), _rest_page_size(self.settings)
        )


def _same_backend(before: Service, settings: ServiceSettings) -> bool:
    """Tell whether both are before one backend, and ask it for listings with the same kind of credential."""
    return before.settings.backend == settings.backend and credential_modes(before.settings) == credential_modes(
        settings
    )


def _rest_page_size(settings: ServiceSettings) -> int:
    return min(settings.catalog.page_size, _MAX_REST_PAGE)


def _secrets(settings: ServiceSettings) -> tuple[str, ...]:
    """Texts beside credentials that no answer may show."""
    prefix = (secret.get_secret_value() for secret in settings.backend.params.prefix)
    return (*(part for part in prefix if isinstance(part, str)), *settings.catalog.secrets())
