"""Assembly: makes the parts from the settings and wires them. Knows everybody, decides nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import structlog
from aiohttp import web

from gateway import __version__, config
from gateway.auth.access import Access
from gateway.backend.client import HEADERS, BackendClient, Limits
from gateway.backend.faults import Cleaner
from gateway.backend.params import Conventions
from gateway.backend.shapes import Shapes
from gateway.background import Background
from gateway.catalog.build import Builder
from gateway.catalog.changes import Changes
from gateway.catalog.discovery import Discovery
from gateway.catalog.pages import Pages
from gateway.catalog.pins import PinError, Pins, read
from gateway.catalog.search import DOORS, Search
from gateway.catalog.validation import Validators
from gateway.credentials import credentials_of, faults_of, ways_of
from gateway.credentials.grants import TokenClient
from gateway.guard import Trust, access_of, authenticator_of, metadata_of, trust_of
from gateway.invocation import Invocation
from gateway.limits import AddressReader, Budget, Streams
from gateway.listing.dialect import NoListing
from gateway.listing.fallback import read_fallback
from gateway.listing.reader import ListingReader, form_of
from gateway.mcp import legacy, modern
from gateway.mcp.cursors import Cursors
from gateway.mcp.endpoint import Endpoint
from gateway.mcp.operations import Operations
from gateway.mcp.server_info import Introduction
from gateway.mcp.sessions import Sessions
from gateway.model import Catalog, Listing, Naming
from gateway.outbound import Outbound, TlsFiles
from gateway.remarks import remarks_on
from gateway.rounds import Rounds
from gateway.settings import Settings
from gateway.signing import Keys, read_secrets
from gateway.store import ResourceStore, Store
from gateway.store.memory import MemoryStore
from gateway.telemetry import logs
from gateway.text import secrets_in
from gateway.web.connection import Port, listen
from gateway.web.context import Context
from gateway.web.ops import admin_application
from gateway.web.origins import Origins
from gateway.web.rest import RestProjector
from gateway.web.routes import public_application

READY_AFTER: Final = 10.0
"""Seconds after which a gateway is ready although its first listing is still awaited."""
SERVER_NAME: Final = "jsonrpc-mcp-gateway"
_ADMIN_SHUTDOWN: Final = 0.1
"""Seconds that requests for health have to finish: they wait for nothing."""
_PAGES_PER_LISTING: Final = 10
"""For each listing that a caller may begin, the cursors that it may follow."""

log = structlog.get_logger()


class Current:
    """The settings of the moment, and the pins that they name; a reload swaps both.

    Raises :class:`config.ConfigError` where the pins cannot be read.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.pins = pins_of(settings)


def pins_of(settings: Settings) -> Pins | None:
    """Raises :class:`config.ConfigError`."""
    if settings.catalog.pin is None:
        return None
    try:
        return Pins(read(Path(settings.catalog.pin)), settings.catalog.pin_mode == "hold")
    except PinError as error:
        raise config.ConfigError([f"catalog.pin: {error}"]) from None


@dataclass(frozen=True)
class Pipeline:
    """From listing to call, without a server: what ``serve``, ``check``, ``tools`` and ``call`` share."""

    outbound: Outbound
    discovery: Discovery
    invocation: Invocation
    store: Store
    keys: Keys
    trust: Trust
    access: Access
    cleaner: Cleaner

    async def close(self) -> None:
        await self.outbound.close()
        await self.trust.close()


async def pipeline(current: Current, progress: Callable[[str], None] = lambda _: None) -> Pipeline:
    """Raises :class:`config.ConfigError` where a file cannot be used or callers' tokens would go astray,
    :class:`gateway.signing.SecretError`."""
    settings = current.settings
    backend = settings.backend
    if faults := faults_of(settings):  # also where they were not loaded
        raise config.ConfigError(faults)
    fallback = await _fallback(settings)
    keys = Keys(read_secrets(settings.server.secret_file), settings.mount_id)
    trust = trust_of(settings)
    access = access_of(settings)
    outbound = _outbound(settings)
    credential, listing_credential = credentials_of(
        settings, lambda section: TokenClient(trust.outbound(), section, trust.token_endpoint(section))
    )
    credentials = (*credential.secrets(), *listing_credential.secrets())
    prefix = tuple(secret.get_secret_value() for secret in backend.params.prefix)
    secrets = (
        *credentials,
        *(part for part in prefix if isinstance(part, str)),
        *current.settings.catalog.secrets(),
    )
    hosts = (urlsplit(backend.url).hostname or "", urlsplit(backend.url).netloc)
    cleaner = Cleaner((*secrets, *secrets_in(backend.url), *hosts))
    limits, passes_errors = Limits(backend.timeout, backend.max_response), backend.errors == "passed"
    client = BackendClient(outbound, backend.url, limits, cleaner, passes_errors=passes_errors)
    validators = Validators()
    discovery = Discovery(
        ListingReader(outbound, backend, listing_credential, progress, credentials).fetch,
        Builder(backend.params, validators, pins=lambda: current.pins),
        lambda: current.settings.catalog,
        fallback=fallback,
        patience=2 * backend.listing.timeout,  # its own, and another that it may have to wait for
        callers_own=listing_credential.callers_own,
    )
    shapes = Shapes(Conventions(prefix, backend.params.always, backend.params.gaps == "null"))
    store = ResourceStore(MemoryStore(), settings.mount_id)
    invocation = Invocation(
        discovery,
        client,
        credential,
        validators,
        shapes,
        Rounds(keys, store),
        access,
        Search(),
        lambda: current.settings.catalog,
        lambda: current.settings.backend.timeout,
    )
    return Pipeline(outbound, discovery, invocation, store, keys, trust, access, cleaner)


async def _fallback(settings: Settings) -> Listing | None:
    if settings.catalog.fallback is None:
        return None
    try:
        return await read_fallback(settings.catalog.fallback, form_of(settings.backend))
    except NoListing as error:
        raise config.ConfigError([f"catalog.fallback: {error}"]) from None


def _outbound(settings: Settings) -> Outbound:
    backend = settings.backend
    files = backend.tls
    tls = TlsFiles(files.ca_file, files.cert_file, files.key_file, "backend.tls.ca_file", "backend.tls.cert_file")
    try:
        return Outbound(connections=backend.connections, tls=tls, proxy=backend.proxy, headers=HEADERS)
    except OSError as error:
        raise config.ConfigError([f"backend.tls: {error.filename}: {error.strerror}"]) from None


class Gateway:
    """A gateway with its two ports. ``port`` and ``admin_port`` are the bound ones once started."""

    def __init__(self, settings: Settings) -> None:
        self.port = 0
        self.admin_port = 0
        self.background = Background()
        self._current = Current(settings)
        self._ports: list[Port] = []
        self._started = time.monotonic()
        self._stopping = False

    @property
    def settings(self) -> Settings:
        return self._current.settings

    async def start(self) -> None:
        """Raises :class:`OSError` where a port is taken, :class:`config.ConfigError`,
        :class:`gateway.signing.SecretError`."""
        settings = self.settings
        parts = self._parts = await pipeline(self._current)
        listings = Budget(parts.store, "discovery", settings.limits.discovery)
        next_pages = Budget(parts.store, "next page", settings.limits.discovery, _PAGES_PER_LISTING)
        self._budgets = (listings, next_pages)
        self._pages = Pages()
        self._changes = Changes(lambda: self.settings.catalog.notify_interval, settings.mcp.heartbeat)
        parts.discovery.on_change(self._prepare_pages)
        parts.discovery.on_changed(self._changes.tell)
        operations = Operations(
            parts.discovery, self._pages, listings, Cursors(parts.keys, next_pages),
            lambda: self.settings.catalog, Introduction(settings.mcp.server, SERVER_NAME, __version__),
            self._changes, Streams(lambda: self.settings.limits.streams), settings.mcp.heartbeat, parts.access,
            settings.backend.max_response,
        )  # fmt: skip
        self._endpoint = Endpoint(operations, parts.invocation, Sessions(parts.keys, parts.store))
        context = Context(
            self._endpoint, operations, parts.invocation, parts.discovery,
            AddressReader(settings.server.trusted_proxies),
            Origins(settings.server.public_url, settings.mcp.hosts, settings.mcp.origins),
            authenticator_of(settings, parts.trust, parts.access, parts.store), parts.access,
            metadata_of(settings, parts.access, SERVER_NAME),
            lambda: self.settings.catalog.rest_page_size,
            settings.server.max_body, settings.server.body_timeout,
        )  # fmt: skip
        try:
            server = settings.server
            admin = admin_application(self._unready, self.background, parts.discovery.renew)
            self.admin_port = await self._listen(admin, server.admin_host, server.admin_port, _ADMIN_SHUTDOWN)
            public = public_application(context)
            self.port = await self._listen(public, server.host, server.port, server.shutdown_timeout)
        except OSError:
            await self.stop()
            raise
        parts.trust.start(self.background)
        if ways_of(settings).lists_per_caller and settings.auth.anonymous == "none":
            parts.discovery.attempted.set()  # there is no shared view to wait for
        else:
            self.background.start("listing", parts.discovery.keep_fresh)
        for remark in remarks_on(settings):
            log.warning("remark on the configuration", remark=remark)
        log.info("gateway started", host=settings.server.host, port=self.port, admin_port=self.admin_port)

    async def listed(self) -> None:
        """Wait until the first attempt at a listing is over."""
        await self._parts.discovery.attempted.wait()

    async def list_anew(self) -> None:
        """Ask for the listing now, whatever its age."""
        await self._parts.discovery.renew()

    async def stop(self) -> None:
        """Finish what is under way, then let go of everything."""
        self._stopping = True
        await self.background.stop()
        self._changes.close()
        for port in reversed(self._ports):  # health is told until the last
            await port.close()
        await self._endpoint.close()
        await self._parts.close()

    async def apply(self, new: Settings) -> config.Change:
        """Go on with the live knobs of ``new``, and with the pins and the fallback as they are now, at once and without
        losing a request.

        Raises :class:`config.ConfigError` where a file cannot be read; then nothing changes.
        """
        change = config.merge(self.settings, new)
        pins, fallback = await asyncio.to_thread(pins_of, change.settings), await _fallback(change.settings)
        other_pins, spare = pins != self._current.pins, self._parts.discovery.fallback
        other = (("catalog.pin", other_pins), ("catalog.fallback", fallback != spare.listing))
        files = [knob for knob, differs in other if differs]
        if files:
            # Other settings, so that what is being built by the files of before is built again.
            catalog = change.settings.catalog.model_copy()
            changed = tuple(dict.fromkeys((*change.changed, *files)))
            change = replace(change, settings=change.settings.model_copy(update={"catalog": catalog}), changed=changed)
        spare.listing = fallback
        self._current.settings, self._current.pins = change.settings, pins
        self._parts.cleaner.learn(change.settings.catalog.secrets())
        if any(knob.startswith("limits.") for knob in change.changed):
            for budget in self._budgets:
                budget.set_rate(change.settings.limits.discovery)
        if any(knob.startswith("catalog.") for knob in change.changed):
            await self._parts.discovery.rebuild(forget=other_pins and pins is not None and pins.holds)
        if {"catalog.search", "catalog.names"} & set(change.changed):
            self._parts.discovery.tell_all()
        logs.set_level(change.settings.telemetry.log.level)
        return change

    async def _listen(self, application: web.Application, host: str, port: int, shutdown_timeout: float) -> int:
        bound = await listen(application, host, port, shutdown_timeout)
        self._ports.append(bound)
        return bound.number

    def _prepare_pages(self, catalog: Catalog) -> None:
        knobs = self.settings.catalog
        shared = self._parts.discovery.current() if ways_of(self.settings).lists_per_caller else catalog
        catalog = DOORS if knobs.search else catalog
        projectors = (projector.named(Naming(knobs.names)) for projector in (modern.PROJECTOR, *legacy.PROJECTORS))
        self._pages.prepare(catalog, projectors, knobs.page_size)
        self._pages.prepare(catalog, (RestProjector(self._parts.access, shared),), knobs.rest_page_size)

    def _unready(self) -> str | None:
        if self._stopping:
            return "stopping"
        waited = time.monotonic() - self._started
        if not self._parts.discovery.attempted.is_set() and waited < READY_AFTER:
            return "the first listing is still awaited"
        return self._parts.trust.unready()
