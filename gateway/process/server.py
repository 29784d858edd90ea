"""The two ports of the process, and the table from path to service.

A reload builds every changed or new service before it swaps the table, so that a faulty configuration changes nothing.
An old service is closed once its last call has ended.
"""

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import chain
from typing import Any, Final

import structlog

from gateway.backend.unfinished import UnfinishedMessages
from gateway.catalog.curation import left_out
from gateway.concurrency.background import Background, Problem, describe_problems, time_after
from gateway.concurrency.collector import COLLECTOR
from gateway.concurrency.threads import read_apart
from gateway.concurrency.turns import LoopLag
from gateway.config import source as config
from gateway.config.certificate import read_certificate
from gateway.config.service_files import ServiceFiles
from gateway.config.source import ConfigError
from gateway.config.warnings import log_config_warnings
from gateway.http_server.accepting import Bounds, Port, bind
from gateway.http_server.connection_limit import ConnectionLimit, most_connections
from gateway.http_server.held_bytes import HeldBytes
from gateway.networks import AddressReader
from gateway.process.gauges import ReloadState, admin_gauges, process_gauges
from gateway.service.gauges import resource_gauges, resource_status, with_runbook
from gateway.service.group import make_resource
from gateway.service.mount import Mount
from gateway.service.resource import BuildContext, Resource
from gateway.service.service import Service
from gateway.settings import ResourceSettings, Settings
from gateway.signing import read_secrets
from gateway.store import ServerStore, StoreFault
from gateway.store.choice import PER_PROCESS, make_store
from gateway.store.memory import MemoryStore
from gateway.telemetry import audit, logs, tracing
from gateway.telemetry.metrics import Snapshot, render, snapshot
from gateway.web.admin import ADMIN_BEYOND, ADMIN_CONNECTIONS, AdminHandler, listen_for_probes
from gateway.web.admin_page import AdminPage, refused_row
from gateway.web.public import REFUSED, Origins, PublicHandler

_OTHER_DESCRIPTORS: Final = 64
"""Descriptors for files that are read, names that are looked up, and each service's issuers."""

log = structlog.get_logger()


class Server:
    """Run a gateway on its two ports. ``port`` and ``admin_port`` are the bound ones. ``store``, not opened, takes the
    place of that of the settings. A worker is given bound ``sockets``; the admin port is its parent's."""

    def __init__(
        self, settings: Settings, store: ServerStore | None = None, sockets: Sequence[socket.socket] | None = None
    ) -> None:
        self.settings = settings
        self.port = 0
        self.admin_port = 0
        self.background = Background()
        self.held = HeldBytes(settings.server.share(settings.server.max_buffered))
        self.unfinished = UnfinishedMessages(self.held.reserve, self.held.most)
        self.configuration: dict[str, Any] = {"files": [], "since": time_after(), "refused": []}
        self.problems: Sequence[Problem] = ()
        """Hold what /status says of the configuration and its files. The file watcher sets it."""
        self.values: Sequence[tuple[str, str, str]] = ()
        """Hold the knobs that are set, their values and origins. The file watcher sets this and the next."""
        self.read_again: Callable[[], Awaitable[Sequence[str]]] | None = None
        """Read the configuration again, and return the faults for which it is refused."""
        self.lag = LoopLag()
        self.reloads = ReloadState()
        self._reloading = asyncio.Lock()
        self.resources: dict[str, Resource] = {}  # the services by mount, "" or /crm, and then the groups
        self._given_store = store
        self._sockets = sockets
        self._store: ServerStore = MemoryStore()
        self._retiring: dict[Resource, asyncio.Task[None]] = {}
        self._ports: list[Port] = []
        self._limit: ConnectionLimit | None = None
        self._stopping = False

    def __repr__(self) -> str:
        state = f"{'stopping ' if self._stopping else ''}port={self.port} admin_port={self.admin_port}"
        return f"<Server {state} services={list(self.services.values())} retiring={len(self._retiring)}>"

    async def open(self, *, admin: bool) -> None:
        """Build the services, and the admin port if ``admin``. Another server passes requests to :attr:`handler`."""
        server = self.settings.server
        self._secrets = read_secrets(server.secret_file)
        self.handler = PublicHandler(AddressReader(server.trusted_proxies), self._origins(), server.shown_page)
        await self._open_store()
        try:
            await self.reload(self.settings)
            self.lag.start()
            if admin:
                page = AdminPage(server.admin_page, self.figures, self.details)
                self.background.start("history for the page", page.keep_history)
                handler = AdminHandler(
                    self.unready, lambda: [self.status()], self.refresh_listings, self.metrics, page, self.read_again
                )
                port = await listen_for_probes(handler, server, self.held)
                self._ports.append(port)
                self.admin_port = port.number
        except (OSError, ConfigError):
            await self.stop()
            raise

    async def start(self) -> None:
        """Build the services and listen. Raises :class:`OSError`, :class:`ConfigError`, ``SecretError``."""
        server = self.settings.server
        await self.open(admin=self._sockets is None)
        try:
            limit = self._limit = self._connection_limit()
            bounds = Bounds(server.shutdown_timeout, server.write_timeout, limit, self.held)
            tls = self.reloads.certificate and self.reloads.certificate.context
            sockets = self._sockets or await bind(server.host, server.port)
            public = Port(sockets, self.handler, bounds, tls)
        except OSError:
            await self.stop()
            raise
        self._ports.append(public)
        self.port = public.number
        if self._sockets is not None:
            log.info("worker started", port=self.port, max_connections=limit.most)
            return
        log_config_warnings(self.settings)
        if not self._store.is_shared:
            log.info("the store is in memory", of_each_process=PER_PROCESS)
        log.info(
            "gateway started", host=server.host, port=self.port, admin_port=self.admin_port, max_connections=limit.most
        )

    async def reload(self, new: Settings | None = None) -> None:
        """Apply ``new``, or the settings in force again, and the files that they name, without losing a request;
        :func:`config.needs_restart` has the knobs that keep their values. Raises :class:`ConfigError` with all faults;
        then nothing has changed."""
        async with self._reloading:
            await self._apply(new or self.settings)

    async def _apply(self, new: Settings) -> None:
        kept = config.keep_for_process(self.settings, new)
        certificate = await read_apart(read_certificate, kept.server.tls)
        built = await self._build(kept.resources)
        # Nothing is awaited from here on, so that no request meets a half of the swap.
        before, self.settings = self.resources, kept
        self.resources = {one.mount: built.get(one.mount) or before[one.mount] for one in kept.resources}
        self.handler.sites = {mount: one.site for mount, one in self.resources.items()}
        self.handler.origins = self._origins()
        self.reloads.certificate = certificate
        if self.port and certificate is not None:
            self._ports[-1].serving.tls = certificate.context
        for one in built.values():
            one.start()
        for mount, old in reversed(before.items()):  # groups before their services
            if self.resources.get(mount) is not old:
                self._retire(old)
        logs.set_level(kept.telemetry.log.level)
        logs.choose_requests(kept.telemetry.log.requests)
        self.reloads.apply(kept)

    @property
    def services(self) -> Mapping[str, Service]:
        """Return the services by mount, without the groups."""
        return {mount: one for mount, one in self.resources.items() if isinstance(one, Service)}

    async def wait_until_listed(self) -> None:
        """Wait until each service has tried to fetch its listing once."""
        for service in self.services.values():
            await service.discovery.first_attempt_over.wait()

    async def refresh_listings(self) -> str:
        """Fetch the listing of each service now. Return why that failed, "" if it did not."""
        return "; ".join(filter(None, await asyncio.gather(*map(self._refresh_listing, list(self.services)))))

    def borrow(self, sockets: Sequence[socket.socket]) -> None:
        self._ports[-1].borrow(sockets)

    def end_streams(self) -> None:
        """End the streams that last while their clients listen. Those of calls end with their calls."""
        for one in self.resources.values():
            one.mount.subscriptions.close()

    async def stop(self) -> None:
        """Serve on for ``server.drain_delay``, so that proxies learn of the end. Then finish the running requests
        within ``server.shutdown_timeout``, and close everything."""
        self._stopping = True
        for port in self._ports:
            port.drain()
        if self.port:  # else it has served no client yet
            await asyncio.sleep(self.settings.server.drain_delay)
        ends = time.monotonic() + self.settings.server.shutdown_timeout
        self.lag.stop()
        await self.background.stop()
        for one in self.resources.values():
            await one.background.stop()
        self.end_streams()
        for port in reversed(self._ports):  # the admin port last: probes are answered until the end
            await port.close()
        for one in self.resources.values():
            await one.mount.close()
        for one in self._retiring:
            one.uses.give_up()  # its port is closed: no call can still be answered
        await asyncio.gather(*self._retiring.values(), return_exceptions=True)
        for one in self.resources.values():
            await one.close()
        await self._store.close()
        if self.settings.telemetry.audit.to:
            audit.stop()
        if self.settings.telemetry.traces != "off":
            await asyncio.to_thread(tracing.stop, ends - time.monotonic())

    async def _open_store(self) -> None:
        """Open the audit, the traces and the store that the settings name. Raises :class:`ConfigError`."""
        try:
            audit.start(self.settings.telemetry.audit)
            tracing.start(self.settings.telemetry)
            self._store = self._given_store or make_store(self.settings.store)
            await self._store.open()
        except StoreFault as fault:
            raise ConfigError([f"store.url: {fault}"]) from None
        except audit.TelemetryFault as fault:
            raise ConfigError([str(fault)]) from None

    async def _build(self, wanted: Iterable[ResourceSettings]) -> dict[str, Resource]:
        """Make the services, and the groups of them, that are new or changed. Raises :class:`ConfigError`."""
        built: dict[str, Resource] = {}
        faults: list[str] = []
        async with AsyncExitStack() as undo:
            for settings in wanted:
                before = self.resources.get(settings.mount)
                try:
                    files = await ServiceFiles.read(settings)
                    known = {**self.resources, **built}
                    if before is None or not before.is_made_of(settings, files, known):
                        path = Mount(held=self.held, unfinished=self.unfinished) if before is None else before.mount
                        context = BuildContext(files, self._store, self._secrets, path, before)
                        built[settings.mount] = await make_resource(settings, context, known)
                        undo.push_async_callback(built[settings.mount].close)
                except ConfigError as error:
                    faults += error.faults
            if faults:
                raise ConfigError(faults)
            undo.pop_all()
        return built

    async def _refresh_listing(self, mount: str) -> str:
        """Fetch the listing of the service at one mount, and of each service that a reload puts there meanwhile."""
        asked: Service | None = None
        trouble = ""
        while (service := self.services.get(mount)) not in (None, asked):
            asked = service
            with service.uses:
                trouble = await service.refresh_now()
        return _named(asked, trouble) if asked and trouble else ""

    def _retire(self, old: Resource) -> None:
        """Close a service or a group once its calls have ended, and those that may still need it: of predecessors at
        the mount, and of groups. Close the mount first if nothing else is there from now on."""
        is_unused = old.settings.mount not in self.resources
        predecessors = [task for one, task in self._retiring.items() if old.is_used_by(one)]
        if is_unused:
            old.mount.subscriptions.close()

        async def retire() -> None:
            await old.background.stop()
            if predecessors:
                await asyncio.wait(predecessors)
            await old.uses.wait_until_idle()
            if is_unused:
                await old.mount.close()
            await old.close()

        task = self._retiring[old] = asyncio.create_task(retire())
        task.add_done_callback(lambda _: self._retired(old))

    def _retired(self, old: Resource) -> None:
        """Forget a service. After the last one collect garbage: services are large, and hold reference cycles."""
        del self._retiring[old]
        if not self._retiring and not self._stopping:
            asyncio.get_running_loop().call_soon(COLLECTOR.look_through)  # later: this frame still refers to it

    def _connection_limit(self) -> ConnectionLimit:
        """Return how many connections the public port may have: what the settings say, or what the system allows."""
        to_services = sum(service.connections for service in self.settings.by_mount.values())
        others = to_services + _OTHER_DESCRIPTORS * (1 + len(self.services)) + ADMIN_CONNECTIONS + ADMIN_BEYOND
        server = self.settings.server
        return ConnectionLimit(
            most_connections(server.share(server.max_connections), others), self.handler.addresses.trusts
        )

    def _origins(self) -> Origins:
        server = self.settings.server
        return Origins(server.public_url, server.allowed_hosts, server.allowed_origins)

    def unready(self) -> str | None:
        """Return why no service can answer, None if one can."""
        if self._stopping:
            return "stopping"
        reasons = [(service, service.unready()) for service in self.services.values()]
        if any(reason is None for _, reason in reasons):
            return None
        return "; ".join(_named(service, str(reason)) for service, reason in reasons)

    def figures(self) -> Snapshot:
        of_services = map(resource_gauges, self.resources.values())
        ahead = sum(port.serving.ahead.bytes for port in self._ports[-1:] if self._limit is not None)
        own = process_gauges(self._store, self.held, self._limit, ahead, self.lag, self.reloads)
        return snapshot(chain(own, *of_services))

    async def metrics(self, accept: str) -> tuple[bytes, str]:
        cells, exemplars = self.figures()
        cells |= {key: [value] for key, value in admin_gauges(1, 1, 0)}
        return await render((cells, exemplars), (one.name for one in self.resources.values()), accept)

    async def details(self) -> dict[str, Any]:
        """Return what the admin page says beside the status. A worker's goes to its parent as one line."""
        catalogs = ((service, service.discovery.current()) for service in self.services.values())
        return {
            "values": self.values,
            "refused": [refused_row(line) for line in reversed(REFUSED)],
            "left_out": {
                service.name: left_out(catalog, service.settings.catalog, service.name, len(self.services))
                for service, catalog in catalogs
                if catalog is not None
            },
        }

    def status(self) -> dict[str, Any]:
        """Return what ``/status`` says of the process (config/status.schema.json). A leak shows under way."""
        calls = sum(one.mount.concurrency.total for one in self.resources.values())
        streams = sum(one.mount.streams.total for one in self.resources.values())
        of_files = with_runbook("McpGatewayConfigRefused", describe_problems(self.problems[:1]))
        of_files += with_runbook("McpGatewayConfigFileMissing", describe_problems(self.problems[1:]))
        of_store = with_runbook("McpGatewayStoreAway", describe_problems([self._store.problem]))
        return {
            "unready": self.unready(),
            "worker": None,
            "process": os.getpid(),
            "configuration": self.configuration,
            "services": [*map(resource_status, self.resources.values())],
            "problems": [*of_files, *of_store],
            "jobs": [*self.background.describe()],
            "under_way": {"calls": calls, "streams": streams, "tasks": len(asyncio.all_tasks())},
        }


def _named(service: Service, text: str) -> str:
    """Return a text with the name of its service in front; a service at the root has none."""
    return f"{service.name}: {text}" if service.name else text
