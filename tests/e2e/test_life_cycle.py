"""The process from start to end under load: a drain, a sudden end, signals, and a service that is not there yet."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from tests.e2e.test_reload import RELOADED, serving, until, written
from tests.e2e.test_start_and_stop import http_status, nobody_listens
from tests.fault.behaviours import Hang
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Front
from tests.program import Program, settings
from tests.program import serving as serve
from tests.protocol.talk import LEGACY, MODERN, Client, modern_headers, modern_request
from tests.protocol.test_streams_alone import ERAS, begun, opened
from tests.services.launch import openrpc_app
from tests.services.process import free_port
from tests.waiting import PATIENCE

SUM = {"a": 2, "b": 3}
SLOW_NAMES = "tests.e2e.slow_names"


@dataclass
class Load:
    """Calls without a pause, each with a number of its own. ``answered`` are those with a right answer, ``broken``
    those that got no answer, ``wrong`` any other answers."""

    answered: list[int] = field(default_factory=list)
    broken: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)
    sent: int = 0

    async def call(self, gateway: Front) -> None:
        while True:
            for surface in SURFACES:
                self.sent += 1
                number = self.sent
                try:
                    called = await gateway.call(surface, "add", {"a": number, "b": 0})
                except aiohttp.ClientError:
                    self.broken.append(number)
                    await asyncio.sleep(0.01)  # nobody may be there for a while
                    continue
                if called.status == 200 and not called.failed and called.value == {"sum": number}:
                    async with self.news:
                        self.answered.append(number)
                        self.news.notify_all()
                else:
                    self.wrong.append(called.text)

    async def more(self, number: int = 30) -> None:
        """Return after so many further right answers."""
        goal = len(self.answered) + number
        async with asyncio.timeout(PATIENCE), self.news:
            await self.news.wait_for(lambda: len(self.answered) >= goal)


def ran(backend: ScriptedBackend) -> Counter[int]:
    """How often the service was sent each call."""
    bodies = (json.loads(request.body) for request in backend.requests if request.method == "add")
    return Counter(body["params"]["a"] for body in bodies)


async def test_a_drain_serves_on_and_then_ends_all_with_their_results(backend: ScriptedBackend) -> None:
    backend.default = Hang("nothing")
    async with serve(backend.url, "server.drain_delay=1s") as (program, gateway), aiohttp.ClientSession() as session:
        client = Client(session, urlsplit(gateway.base).port or 0)
        admin = (await program.logged("gateway started"))["admin_port"]
        call = {"name": "add", "arguments": SUM, "_meta": {"progressToken": "p"}}
        progress = client.stream(modern_request("tools/call", call), modern_headers("tools/call", "add"))
        async with opened(client, MODERN) as new, opened(client, LEGACY[0]) as old, progress as work:
            await begun(new, MODERN)
            await begun(old, LEGACY[0])
            assert (await work.message())["method"] == "notifications/progress"
            calls = [asyncio.create_task(gateway.call(surface, "add", SUM)) for surface in SURFACES]
            await backend.called("add", 4)
            program.signal(signal.SIGTERM)
            await program.logged("stopping")
            assert await http_status(f"http://127.0.0.1:{admin}/readyz") == 503
            assert await http_status(f"http://127.0.0.1:{admin}/livez") == 200
            assert "add" in await gateway.tools("rest")
            await nobody_listens(client.port)
            assert [message["result"]["resultType"] for message in await new.rest()] == ["complete"]
            assert await old.rest() == []
            backend.release.set()
            assert [(await one).value for one in calls] == [{"sum": 5}] * 3
            assert (await work.rest())[-1]["result"]["structuredContent"] == {"sum": 5}
        assert await program.ended() == 0
        assert "Traceback" not in program.output


async def test_a_second_signal_ends_the_drain_at_once(backend: ScriptedBackend) -> None:
    async with serve(backend.url, "server.drain_delay=10m") as (program, gateway):
        program.signal(signal.SIGTERM)
        await program.logged("stopping")
        assert (await gateway.call("rest", "add", SUM)).headers["Connection"] == "close"
        program.signal(signal.SIGTERM)
        assert await program.ended() == 128 + signal.SIGTERM


async def test_a_name_whose_look_up_hangs_does_not_keep_the_process_from_its_end() -> None:
    """It does not keep it from its start either."""
    knobs = settings("http://hangs.example.com/jsonrpc", "server.shutdown_timeout=100ms")
    async with Program("serve", *knobs, module=SLOW_NAMES) as program:
        await program.said("hangs.example.com is looked up")
        await program.logged("gateway started")
        program.signal(signal.SIGTERM)
        assert await program.ended() == 0


async def test_a_gateway_that_is_killed_under_load_runs_no_call_twice_and_is_soon_back(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    """What was answered ran once; what was cut off ran once or never. Sessions outlive it with a secret."""
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef0123456789abcdef")
    knobs = settings(backend.url, f"server.secret_file={secret}", "limits.invocation=100000/second")
    port = free_port()
    options = [*knobs, "--set", f"server.port={port}"]
    load = Load()
    async with aiohttp.ClientSession() as session:
        gateway, client = Front(port, session), Client(session, port)
        callers: list[asyncio.Task[None]] = []
        kept = ""
        for life in range(2):
            async with Program("serve", *options) as program:
                await program.logged("listing refreshed")
                kept = kept or await client.initialize()
                callers = callers or [asyncio.create_task(load.call(gateway)) for _ in range(8)]
                await load.more()
                headers = {"MCP-Protocol-Version": LEGACY[0], "Mcp-Session-Id": kept}
                listed = await client.mcp({"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers)
                assert listed.status == 200, f"in life {life}"
                program.signal(signal.SIGKILL)
                await program.ended()
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
    assert load.wrong == []
    counts = ran(backend)
    assert [number for number, count in counts.items() if count > 1] == []
    assert [number for number in load.answered if counts[number] != 1] == []
    assert load.broken, "it was killed under load"


async def test_signals_and_changed_files_under_load_cost_no_call(backend: ScriptedBackend, tmp_path: Path) -> None:
    file, load = tmp_path / "gateway.yaml", Load()
    written(file, backend.url)
    async with serving(file) as (program, gateway), aiohttp.ClientSession() as session:
        client = Client(session, urlsplit(gateway.base).port or 0)
        callers = [asyncio.create_task(load.call(gateway)) for _ in range(6)]
        async with opened(client, ERAS[0]) as new, opened(client, ERAS[1]) as old:
            await begun(new, ERAS[0])
            await begun(old, ERAS[1])
            for number in range(1, 5):
                if number % 2:
                    program.signal(signal.SIGHUP)
                else:
                    written(file, backend.url, mcp=f"{{heartbeat: {number}s}}")
                await program.logged(RELOADED, number)
                await load.more()
            for caller in callers:
                caller.cancel()
            await asyncio.gather(*callers, return_exceptions=True)
            program.signal(signal.SIGTERM)
            assert [message.get("result", {}).get("resultType") for message in await new.rest()][-1] == "complete"
            await old.rest()
        assert await program.ended() == 0
    assert (load.wrong, load.broken) == ([], [])
    counts = ran(backend)
    assert all(counts[number] == 1 for number in load.answered)


async def test_a_gateway_starts_before_its_service_says_so_and_serves_when_that_has_come() -> None:
    with openrpc_app() as service:
        service.stop()
        async with Program("serve", *settings(service.url)) as program, aiohttp.ClientSession() as session:
            gateway = Front((await program.logged("gateway started"))["port"], session)
            failed = await program.logged("listing failed")
            assert "connection refused" in failed["steps"][0]
            assert (await gateway.call("rest", "ping", {})).code == "catalog_unavailable"
            service.restart()
            await program.logged("listing refreshed")

            async def answers() -> bool:
                return (await gateway.call("rest", "ping", {})).status == 200

            await until(answers)
