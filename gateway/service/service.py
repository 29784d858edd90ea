"""One fronted JSON-RPC service, which is one protected resource: build all its parts from its settings."""

import hmac
import math
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Final, Self
from urllib.parse import urlsplit

from gateway import jsonrpc
from gateway.backend.admission import BackendGate, CallAdmission, ListingAdmission
from gateway.backend.choice import open_transport
from gateway.backend.client import BackendClient
from gateway.backend.redaction import ErrorRedactor
from gateway.backend.refusals import CredentialTries
from gateway.catalog import build
from gateway.config import source as config
from gateway.config.service_files import backend_tls
from gateway.credentials import (
    build_credentials,
    credential_faults,
    credential_modes,
    header_secrets,
    section_secrets,
)
from gateway.credentials.contract import Credential
from gateway.credentials.grants import BackendEndpoint, TokenClient
from gateway.diagnosis.no_listing import known_diagnosis
from gateway.diagnosis.trouble import Trouble
from gateway.discovery import shared_listing, subscriptions
from gateway.discovery.discovery import Discovery
from gateway.invocation.forwarding import Forwarder
from gateway.invocation.invocation import Invocation
from gateway.listing.dialect import NoListing
from gateway.listing.forms import form_of
from gateway.listing.reader import ListingReader
from gateway.mcp import legacy, modern
from gateway.model import SHARED, Catalog, NameStyle
from gateway.service.handover import Handover
from gateway.service.mount import Learned
from gateway.service.resource import BuildContext, Resource
from gateway.settings import Credentials, ServiceSettings
from gateway.settings.changes import Change, change_of
from gateway.text import masked_url, secrets_in
from gateway.web.rest import MAX_PAGE, RestProjector

READY_AFTER: Final = 10.0
"""Seconds after which a service is ready although its first listing has not come yet."""


class Service(Resource):
    """Hold the parts of one service. Made by :meth:`build`; :meth:`start` begins its background work."""

    settings: ServiceSettings
    discovery: Discovery

    def __init__(self, settings: ServiceSettings, context: BuildContext) -> None:
        super().__init__(settings, context)
        self._modes = credential_modes(settings)
        alike = self._alike()
        self.learned: Learned = alike.learned if alike else Learned(BackendGate(settings.connections))
        self._search, self._calls = self.learned.search, self.learned.gate.breaker.problem
        backend = settings.backend
        tls, held = backend_tls(settings), self.mount.held
        answers = self._modes.calls.answers_challenges
        self.certificate_end = tls.certificate_end()
        self.transport = open_transport(settings, tls, held.reserve, self.mount.unfinished, digest=answers)
        self._endpoint = BackendEndpoint(self.transport, backend.target, form_of(backend))
        self._tries: dict[str, CredentialTries] = {}
        credential, listing_credential = build_credentials(settings, self._tokens)
        sent = (*credential.secrets(), *listing_credential.secrets(), *header_secrets(settings))
        self.secrets = (*sent, *settings.catalog.secrets())
        self.reader: ListingReader = ListingReader(
            partial(ListingAdmission, self.transport, self.learned.gate),
            backend,
            listing_credential,
            progress=context.progress,
            secrets=sent,
            dialect=alike.reader.dialect if alike else "auto",
            reserve=held.reserve_listing,
            calls_alike=self._modes.calls.name == self._modes.effective_listing.name
            and backend.listing.credentials.send is None,
        )
        self.shared_listing = shared_listing.SharedListing(self.reader.fetch_listing, self._store, settings)
        found = self.learned.param_structures, self.learned.broken_output_schemas
        backend_digest = shared_listing.backend_digest(settings)
        self.discovery_notices = subscriptions.DiscoveryNotices(self._store, backend_digest, *found)
        self.discovery = self._discovery(self, listing_credential.uses_callers_token)
        self.handover: Handover[Service] | None = None
        self.invocation = self._make_invocation(Invocation, self.learned.validators)
        self.invocation.forwarder = self._forwarder(credential)
        self.invocation.forwarder.after_params_refused = self.reader.ask_all
        self.site = self._site()

    def __repr__(self) -> str:
        mount, url = self.settings.mount or "/", masked_url(self.settings.backend.url)
        return f"<Service {mount} of {url}: {self.unready() or 'ready'}, {self.uses!r}, {self.discovery!r}>"

    @classmethod
    async def build(cls, settings: ServiceSettings, context: BuildContext) -> Self:
        """Return a service, which can answer at once if its predecessor has a listing that it can use. Raises
        :class:`config.ConfigError` where a file or that listing cannot be used, or callers' tokens would be sent to a
        backend that they are not for."""
        if faults := credential_faults(settings):  # loading checks this, but settings may be made without a file
            raise config.ConfigError(faults)
        service = cls(settings, context)
        try:
            alike = service._alike()
            if alike is not None and not service._keeps_catalogs_of(alike):
                await service.discovery.prepare(alike.discovery)
            await service._prepare_handover()
        except BaseException as error:
            await service.close()
            if isinstance(error, NoListing):
                raise config.ConfigError([f"{settings.knob('catalog')}: {error}"]) from None
            raise
        return service

    def _alike(self) -> Self | None:
        """Return the predecessor whose listing this service may go on with, and what it learned."""
        return next((one for one in self._predecessors() if self._change_from(one) is Change.KEEPS), None)

    def _predecessors(self) -> Iterator[Self]:
        """Yield the predecessor, and the one whose listing that serves until its own comes."""
        before = self._before
        if isinstance(before, type(self)):
            yield before
            if before.handover is not None and isinstance(old := before.handover.old, type(self)):
                yield old

    def _change_from(self, before: Self) -> Change:
        """Return what differs in the backend, or in the kinds of credential."""
        is_same = before._modes == self._modes
        return change_of(before.settings.backend, self.settings.backend) if is_same else Change.IDENTITY

    async def _prepare_handover(self) -> None:
        """Take on the listing and the endpoint of the predecessor until the first listing comes, where they may serve
        so long: its own ones, or those that are handed over to it."""
        before = self._before
        if not isinstance(before, type(self)):
            return
        old, until = before, math.inf
        if before.handover is not None and before.discovery.former is not None:
            old, until = before.handover.old, before.handover.until
        if self._change_from(old) is Change.KEEPS:
            return  # its listing is taken over
        if Change.IDENTITY in (self._change_from(before), self._change_from(old)):
            return
        listed = self._discovery(old, callers_own=False)
        with suppress(NoListing):  # these settings refuse the old listing: callers wait for the new one
            if not self._keeps_catalogs_of(old):
                await listed.prepare(old.discovery)
            self.handover = Handover(old, listed, until)

    def _end_handover(self) -> None:
        self.handover = None

    def _keeps_catalogs_of(self, before: Self) -> bool:
        old, new = ((one.settings.catalog, one.files.of("catalog")) for one in (before, self))
        return old == new

    def start(self) -> None:
        if alike := self._alike():
            self.discovery.take_over(alike.discovery, listings=True, catalogs=self._keeps_catalogs_of(alike))
            self.learned.gate.queue.resize(self.settings.connections)
        elif isinstance(before := self._before, Service):
            self.discovery.take_over(before.discovery, listings=False, catalogs=False)
            self.learned.gate.breaker.openings += before.learned.gate.breaker.openings
        if self.handover is not None:
            old = self.handover.old
            self.handover.listed.take_over(old.discovery, listings=True, catalogs=self._keeps_catalogs_of(old))
            at_most = self.settings.backend.listing.timeout
            self.handover.start(self.discovery, self.invocation.forwarder, at_most, self._end_handover)
        super().start()
        self.shared_listing.follow(self.discovery)
        self.discovery_notices.follow(self.discovery, self.mount.subscriptions)
        if self._modes.lists_per_caller and self.settings.auth.anonymous == "none":
            self.discovery.first_attempt_over.set()  # each caller has its own view: there is no shared one to wait for
            self.discovery.problem.set("")
        else:
            self.background.start("listing", self.discovery.refresh_forever)

    def unready(self) -> str | None:
        serves = self.discovery.first_attempt_over.is_set() or self.discovery.former is not None
        if not serves and time.monotonic() - self._started < READY_AFTER:
            return "the first listing has not come yet"
        return super().unready()

    async def refresh_now(self) -> str:
        """Ask for the listing now, with a credential that was refused, too. Return why that failed, or ""."""
        self.shared_listing.ask_backend()
        self.reader.ask_all()
        for tries in self._tries.values():
            tries.force()
        trouble = await self.discovery.refresh_now()
        await self.invocation.forwarder.retry_credential()
        return trouble

    async def close(self) -> None:
        if self.handover is not None:
            await self.handover.close()
        self.shared_listing.close()
        for tries in self._tries.values():
            tries.close()
        self.discovery_notices.close()
        await super().close()
        await self.discovery.close()
        await self.transport.close()

    def _tokens(self, section: Credentials) -> TokenClient:
        issuers = self.auth.issuers
        endpoint = partial(issuers.token_endpoint, section)
        return TokenClient(issuers.outbound, section, endpoint, self._endpoint, self._tries_of(section))

    def _tries_of(self, section: Credentials) -> CredentialTries:
        """Return the count of a credential's refusals, by its digest: a changed setting or secret begins anew."""
        made_of = [repr(self.settings.backend), section_secrets(section), header_secrets(self.settings)]
        secret = next(iter(self._keys.derive("credential")), b"")  # so that who reads the store cannot guess it
        digest = hmac.digest(secret, jsonrpc.encode(made_of), "sha256").hex()[:32]
        if digest not in self._tries:
            self._tries[digest] = CredentialTries(self._store, digest)
        return self._tries[digest]

    def _discovery(self, of: "Service", callers_own: bool) -> Discovery:
        """Return what makes catalogs of listings of this service or a predecessor, as these settings have them."""
        backend, learned, send = of.settings.backend, of.learned, self.settings.backend.credentials.send
        sent = {"leading_params": bool(send.params), "named_arguments": bool(send.arguments)} if send else {}
        discovery = Discovery(
            self.shared_listing.fetch_listing,
            build.Builder(backend.params, learned.validators, self.files.pins, **sent),
            self.settings.catalog,
            fallback=self.files.fallback,
            patience=2 * backend.listing.timeout,  # for one under way, and then for its own
            uses_callers_token=callers_own,
            broken_output_schemas=learned.broken_output_schemas,
        )
        discovery.before_publish = self._prepare_pages
        discovery.languages = self.access.languages
        discovery.explain_with(self.explain)
        return discovery

    def explain(self, failure: Exception | None) -> tuple[dict[str, str], str]:
        """Return ``cause`` and ``next`` of a failed listing, as far as they are known without a further request, and
        what names their kind."""
        has_token = self.settings.auth.anonymous == "none"  # where callers' own tokens fetch listings
        return known_diagnosis(Trouble.of(self.settings, failure, self.secrets, has_token=has_token))

    def _forwarder(self, credential: Credential) -> Forwarder:
        backend = self.settings.backend
        url = urlsplit(backend.url)
        old = self._before.secrets if isinstance(self._before, Service) else ()  # a late response may still quote them
        hidden = (*self.secrets, *secrets_in(backend.url), *old, url.hostname or "", url.netloc)
        admission = CallAdmission(self.transport, self.learned.gate, backend.queue_timeout)
        most, passes = backend.max_response, backend.errors == "passed"
        redactor = ErrorRedactor(hidden)
        client = BackendClient(
            admission, backend.target, most, redactor, self.secrets, passes_errors=passes, lenient=backend.lenient
        )
        structures, resends = self.learned.param_structures, self.learned.gate.resends
        ask = partial(self.reader.is_refused, credential)
        return Forwarder(client, credential, structures, resends, backend.timeout, ask)

    def _prepare_pages(self, catalog: Catalog) -> None:
        """Render the first pages of a catalog before a client asks for them, and name its tools in the metrics."""
        knobs = self.settings.catalog
        listed = self._name_tools(catalog)
        shared = self.discovery.current(SHARED) if self._modes.lists_per_caller else catalog
        projectors = [one.with_name_style(NameStyle(knobs.names)) for one in (modern.PROJECTOR, *legacy.PROJECTORS)]
        self._pages.prepare_first_pages(listed, projectors, knobs.page_size)
        rest = RestProjector(self.access, shared, mount=self.settings.mount)
        self._pages.prepare_first_pages(listed, (rest,), min(knobs.page_size, MAX_PAGE))
