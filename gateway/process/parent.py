"""Keep several workers running that serve one public port, and answer probes for them.

Each worker has a listening socket (SO_REUSEPORT), which the parent holds too: what waits there is accepted by other
workers, to which it is lent, and by the successor. A worker that hangs is killed and replaced.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

import structlog

from gateway.concurrency.background import Background, retry_delay
from gateway.config.warnings import log_config_warnings
from gateway.http_server.accepting import Port, bind, bind_beside
from gateway.http_server.held_bytes import HeldBytes
from gateway.process.gauges import admin_gauges
from gateway.process.signals import call_on_hangup, notify, stop_on_signal
from gateway.process.worker import Worker
from gateway.settings import Settings
from gateway.telemetry.merging import Totals
from gateway.telemetry.metrics import Snapshot, render
from gateway.web.admin import AdminHandler, listen_for_probes
from gateway.web.admin_page import AdminPage
from gateway.web.public import REFUSED

DIVIDED: Final = "server.max_connections, server.max_buffered, backend.connections"
OF_EACH: Final = "limits.concurrent, limits.streams, callers' own listings, the breaker"
"""Lists of what workers divide among them, and of what each has for itself."""
_GRACE: Final = 5.0  # seconds after which a worker that should have ended is killed
_LOOK: Final = 0.25  # seconds from one look at the workers to the next

log = structlog.get_logger()


@dataclass(eq=False)
class Parent:
    """Hold the sockets, the workers and the admin port. ``command`` starts a worker; ``delay`` returns the seconds
    before the next attempt by the number of failures in a row. ``port`` and ``admin_port`` are the bound ones."""

    settings: Settings
    command: Sequence[str]
    delay: Callable[[int], float] = retry_delay
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep

    def __post_init__(self) -> None:
        self.port = 0
        self.admin_port = 0
        self.workers: list[Worker] = []
        self._totals = Totals()
        self._admin: Port | None = None
        self._absent: list[Worker] = []
        self._background = Background()
        self._keeping: list[asyncio.Task[int]] = []
        self._stopping = False

    async def start(self) -> int | None:
        """Open the ports, and start the workers, the first one alone: where it ends before it serves, so would the
        others. Return its exit code then, None where it serves. Raises :class:`OSError` where a port is taken."""
        server = self.settings.server
        groups = [await bind(server.host, server.port)]
        groups += [bind_beside(groups[0]) for _ in range(1, server.workers)]
        self.port = groups[0][0].getsockname()[1]
        self.workers = [
            Worker(
                number,
                sockets,
                self.command,
                self.delay,
                lambda: all(map(Worker.absence, self.workers)),
                self._totals,
            )
            for number, sockets in enumerate(groups, start=1)
        ]
        self._background.start("watch over the workers", self._watch)
        page = AdminPage(server.admin_page, self._figures, self._details)
        self._background.start("history for the page", page.keep_history)
        handler = AdminHandler(
            self.unready, self._processes, self.refresh_listings, self.metrics, page, self.read_again
        )
        self._admin = await listen_for_probes(handler, server, HeldBytes(server.max_buffered))
        self.admin_port = self._admin.number
        if self._stopping:  # meanwhile: a host's name may take long to look up
            await self.stop()
            return 0
        first, *others = self.workers
        self._keeping.append(asyncio.create_task(first.keep_running(must_serve=True)))
        served = asyncio.create_task(first.served.wait())
        await asyncio.wait([served, *self._keeping], return_when=asyncio.FIRST_COMPLETED)
        if not served.done():
            served.cancel()
            return self._keeping[0].result()
        self._keeping += [asyncio.create_task(worker.keep_running(must_serve=False)) for worker in others]
        return None

    async def stop(self) -> None:
        """Let every worker finish what is under way, all within the same time, and end."""
        self._stopping = True
        for worker in self.workers:
            worker.stop()
        if self._keeping:
            server = self.settings.server
            most = server.drain_delay + server.shutdown_timeout + _GRACE
            _, late = await asyncio.wait(self._keeping, timeout=most)
            if late:
                log.error("workers did not end in time, and are killed", workers=len(late))
                self.kill()
                await asyncio.wait(late)
        await self._background.stop()
        if self._admin is not None:
            await self._admin.close()

    def kill(self) -> None:
        for worker in self.workers:
            worker.kill()

    def reload(self) -> None:
        """Have every worker read the configuration, and refresh the listings."""
        for worker in self.workers:
            worker.tell("reload")

    async def read_again(self) -> list[str]:
        """Have every worker read the configuration. Return why it is refused."""
        faults = await asyncio.gather(*(worker.ask("read") for worker in self.workers))
        return [*dict.fromkeys(filter(None, faults))]

    async def refresh_listings(self) -> str:
        """Have every worker refresh the listings. Return why that failed, "" if it did not."""
        troubles = await asyncio.gather(*(worker.ask("refresh") for worker in self.workers))
        named = zip(self.workers, troubles, strict=True)
        return "; ".join(f"worker {worker.number}: {trouble}" for worker, trouble in named if trouble)

    def unready(self) -> str | None:
        """Return why no worker can answer, None if one can."""
        if self._stopping:
            return "stopping"
        reasons = [(worker.number, worker.unready()) for worker in self.workers]
        if any(reason is None for _, reason in reasons):
            return None
        return "; ".join(f"worker {number}: {reason}" for number, reason in reasons)

    async def metrics(self, accept: str) -> tuple[bytes, str]:
        """Return what ``/metrics`` says of all workers together, and its content type."""
        if names := {service["name"] for state in self._processes() for service in state["services"]}:
            self._totals.services = frozenset(names)
        return await render(self._figures(), self._totals.services, accept)

    def _figures(self) -> Snapshot:
        alive = sum(worker.absence() is None for worker in self.workers)
        own = admin_gauges(alive, len(self.workers), sum(worker.replaced for worker in self.workers))
        return self._totals.snapshot(own)

    async def _details(self) -> dict[str, Any]:
        """Return what the admin page says beside the status: each listing of the first worker that has it."""
        found = [one for one in await asyncio.gather(*map(Worker.details, self.workers)) if one]
        refused = sorted((line for one in found for line in one["refused"]), key=itemgetter("time"), reverse=True)
        left_out = {name: rows for one in reversed(found) for name, rows in one["left_out"].items()}
        return {**found[0], "refused": refused[: REFUSED.maxlen], "left_out": left_out} if found else {}

    def _processes(self) -> list[dict[str, Any]]:
        return [worker.status() for worker in self.workers]

    async def _watch(self) -> None:
        while True:
            await self.pause(_LOOK)
            for worker in self.workers:
                worker.look(_LOOK)
            if not self._stopping:
                self._lend()

    def _lend(self) -> None:
        """Divide the sockets of the workers that accept no connections among those that do."""
        absent = [worker for worker in self.workers if worker.absence()]
        serving = [worker for worker in self.workers if not worker.absence()]
        for number, worker in enumerate(serving):
            worker.lend([one for other in absent[number :: len(serving)] for one in other.sockets])
        for worker in absent:
            if serving and worker not in self._absent and worker.served.is_set():
                log.warning("other workers accept its connections", worker=worker.number, reason=worker.absence())
        self._absent = absent


async def serve(settings: Settings, command: Sequence[str], started: Callable[[int], None]) -> int:
    """Serve with ``server.workers`` processes until SIGTERM or SIGINT; a second one ends all at once. ``started`` gets
    the public port once a worker serves. Return the exit code. Raises :class:`OSError` where a port is taken."""
    parent = Parent(settings, command)
    stop = stop_on_signal(parent.kill)
    call_on_hangup(parent.reload)
    asked = asyncio.create_task(stop.wait())
    starting = asyncio.create_task(_start(parent, started))
    try:
        await asyncio.wait([asked, starting], return_when=asyncio.FIRST_COMPLETED)
        if starting.done() and (code := starting.result()) is not None:
            return code
        await asked
        log.info("stopping", reason="signal")
        notify("STOPPING=1")
    finally:
        asked.cancel()
        await parent.stop()
        await asyncio.wait([starting])
    log.info("stopped")
    return 0


async def _start(parent: Parent, started: Callable[[int], None]) -> int | None:
    log.info("several workers", divided=DIVIDED, of_each_worker=OF_EACH)
    code = await parent.start()
    if code is None:
        server = parent.settings.server
        log_config_warnings(parent.settings)
        log.info("gateway started", host=server.host, port=parent.port, admin_port=parent.admin_port,
                 workers=server.workers)  # fmt: skip
        started(parent.port)
        notify("READY=1")
    return code
