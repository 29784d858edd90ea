"""One gateway, or more, in front of a service that a cause of an alert spoils; and callers."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from lab.observe.watch import Watch
from tests.fault.load import addresses, session
from tests.fault.methods import METHODS, Rpc
from tests.fault.scripted import ScriptedBackend
from tests.program import Program
from tests.redis_server import RedisServer
from tests.waiting import until

NAME: Final = "jsonrpc-mcp-gateway"
SUM: Final = {"name": "add", "arguments": {"a": 2, "b": 3}}
_START: Final = 60.0
"""Seconds that a gateway has until Prometheus sees it: others start at the same time."""


def knobs(url: str, *more: str) -> list[str]:
    """The options of a gateway before ``url`` on free ports, which lists each second; ``more`` win over these."""
    ground = [
        f"backend.url={url}", "backend.listing.dialect=openrpc", "catalog.ttl=1s",
        "server.port=0", "server.admin_port=0", "limits.discovery=100000/minute",
    ]  # fmt: skip
    if not any(knob.startswith("auth.") for knob in more):
        ground.append("auth.mode=off")
    if not any(knob.startswith("limits.invocation") for knob in more):
        ground.append("limits.invocation=100000/minute")
    return [option for knob in (*ground, *more) for option in ("--set", knob)]


@dataclass
class Scene:
    """What a cause has to work with. ``caused`` is the monotonic time at which it began to fail."""

    job: str
    watch: Watch
    folder: Path
    stack: AsyncExitStack
    caused: float = 0.0
    port: int = 0
    admin_port: int = 0
    _tasks: list[asyncio.Task[Any]] = field(default_factory=list)

    def begins(self) -> None:
        """From now on it fails."""
        self.caused = time.monotonic()

    async def service(self, methods: Sequence[Rpc] = METHODS, **more: Any) -> ScriptedBackend:
        return await self.stack.enter_async_context(ScriptedBackend(methods, **more))

    def redis(self) -> tuple[RedisServer, list[str]]:
        """A Redis, and the knobs of a gateway that shares it."""
        secret = self.folder / "secret"
        secret.write_text("0123456789abcdef" * 4)
        secret.chmod(0o600)
        redis = self.stack.enter_context(RedisServer())
        return redis, [f"store.url={redis.url}", f"server.secret_file={secret}"]

    async def gateway(self, url: str, *more: str) -> Program:
        """A gateway that has listed, and that Prometheus has seen."""
        return await self.program(*knobs(url, *more))

    async def program(self, *options: str) -> Program:
        """The same, by its options."""
        program = await self.start(*options)
        await self.seen()
        return program

    async def start(self, *options: str) -> Program:
        """A gateway that has listed."""
        program = await self.stack.enter_async_context(Program("serve", *options))
        started = await program.logged("gateway started")
        await program.logged("listing refreshed")
        self.port, self.admin_port = started["port"], started["admin_port"]
        return program

    async def seen(self) -> None:
        """Return once Prometheus has scraped it, and evaluated the rules on that."""
        self.watch.scrape(self.job, self.admin_port)
        await self.watch.comes(f'min_over_time(up{{job="{self.job}"}}[2s])', lambda up: up == 1, _START)

    async def callers(self, number: int) -> list[aiohttp.ClientSession]:
        """Callers with addresses of their own."""
        return [await self.stack.enter_async_context(session(one)) for one in addresses(9, number)]

    async def call(
        self, caller: aiohttp.ClientSession, body: Mapping[str, Any] = SUM, headers: Mapping[str, str] | None = None
    ) -> int:
        """One call over REST. Return its status, 0 where there was none."""
        url = f"http://127.0.0.1:{self.port}/mcp/tools/invoke"
        with suppress(aiohttp.ClientError, ConnectionError, TimeoutError):
            async with caller.post(url, json=body, headers=headers) as answer:
                await answer.read()
                return answer.status
        return 0

    async def calls(
        self,
        rate: float,
        body: Mapping[str, Any] = SUM,
        *,
        callers: int = 1,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Call so often a second from now on, whatever comes of it, by so many callers in turn."""
        each = itertools.cycle(await self.callers(callers))
        running: set[asyncio.Task[int]] = set()

        async def calling() -> None:
            while True:
                task = asyncio.create_task(self.call(next(each), body, headers))
                running.add(task)
                task.add_done_callback(running.discard)
                await asyncio.sleep(1 / rate)

        self.goes_on(calling())

    async def goes_around(self, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        """Call as fast as ten calls at a time allow, from now on."""
        (caller,) = await self.callers(1)

        async def calling() -> None:
            while True:
                await asyncio.gather(*(self.call(caller, body, headers) for _ in range(10)))

        self.goes_on(calling())

    def goes_on(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this until the scene is over."""
        self._tasks.append(asyncio.create_task(work))

    def stop(self) -> None:
        """End what goes on."""
        for task in self._tasks:
            task.cancel()

    async def end(self) -> None:
        """End all of it. Raises what went wrong in what went on."""
        self.stop()
        done = await asyncio.gather(*self._tasks, return_exceptions=True)
        self.watch.forget(self.job)
        # Prometheus may scrape a gateway once more that is gone; the alert for that takes longer.
        await until(self._is_forgotten)
        await self.stack.aclose()
        for failure in done:
            if isinstance(failure, Exception):
                raise failure

    async def _is_forgotten(self) -> bool:
        return not await self.watch.query(f'up{{job="{self.job}"}}')
