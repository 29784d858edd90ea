"""The stage of ``make fault``: a gateway as a process with a core to itself, before two services.

``near`` is sound, and its callers are the healthy ones. ``far`` stands behind the fault proxy, and its callers are in
trouble. All of the load, and the services, share the other core.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from lab.bench.machine import two_cores
from tests.authorization.stand import Bearer
from tests.fault.ledger import Ledger, service
from tests.fault.load import Callers, addresses, session
from tests.fault.proxy import FaultProxy
from tests.fault.scripted import ScriptedBackend
from tests.program import Program

DEADLINE: Final = 2.0
"""Seconds that the gateway has for a call."""


@dataclass(frozen=True)
class Stage:
    """All of it, running."""

    program: Program
    port: int
    ledger: Ledger
    near: ScriptedBackend
    far: ScriptedBackend
    proxy: FaultProxy
    _stack: AsyncExitStack

    async def callers(
        self, network: int, count: int, rate: float, *, mount: str = "/near", tool: str = "work", wait: float = 0.0
    ) -> Callers:
        """Return so many callers, each with an address of its own in a network of their own (1 to 254)."""
        sessions = [await self._stack.enter_async_context(session(one)) for one in addresses(network, count)]
        return Callers(self.ledger, [Bearer(one, self.port, None, mount) for one in sessions], rate, tool, wait)

    async def healthy(self) -> Callers:
        return await self.callers(1, 20, rate=100)

    async def troubled(self) -> Callers:
        return await self.callers(2, 10, rate=40, mount="/far")


@asynccontextmanager
async def stage(*knobs: str) -> AsyncIterator[Stage]:
    """Start all; ``knobs`` are section.knob=value, as ``services.near.backend.timeout=1s``."""
    ledger = Ledger()
    async with AsyncExitStack() as stack:
        near = await stack.enter_async_context(service(ledger))
        far = await stack.enter_async_context(service(ledger))
        proxy = await stack.enter_async_context(FaultProxy(far.port))
        ground = [
            "auth.mode=off",
            f"services.near.backend.url={near.url}", f"services.far.backend.url={proxy.url('/jsonrpc')}",
            *(f"services.{name}.backend.timeout={DEADLINE}s" for name in ("near", "far")),
            *(f"services.{name}.backend.listing.dialect=openrpc" for name in ("near", "far")),
        ]  # fmt: skip
        program, port = await stack.enter_async_context(serving(*ground, *knobs))
        for number in (1, 2):
            await program.logged("listing refreshed", number)
        yield Stage(program, port, ledger, near, far, proxy, stack)


@asynccontextmanager
async def serving(*knobs: str) -> AsyncIterator[tuple[Program, int]]:
    """``serve`` with a core to itself, and its port; the load keeps to the other core."""
    load_core, core = two_cores()
    ports = ("server.port=0", "server.admin_port=0")
    async with Program("serve", *(f"--set={knob}" for knob in (*ports, *knobs))) as program:
        os.sched_setaffinity(program.pid, {core})
        os.sched_setaffinity(0, {load_core})
        try:
            yield program, (await program.logged("gateway started"))["port"]
        finally:
            os.sched_setaffinity(0, {load_core, core})
