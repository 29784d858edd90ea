"""A listing that fails: cause and next step, once for each failure, in the log and for the client of ``stdio``."""

from __future__ import annotations

import asyncio
import json

from tests.fault.behaviours import Body
from tests.fault.scripted import ScriptedBackend
from tests.front import ground
from tests.program import Program, settings, started
from tests.services.process import free_port
from tests.waiting import PATIENCE, until


async def test_serve_says_cause_and_next_once_while_the_same_failure_goes_on() -> None:
    url = f"http://127.0.0.1:{free_port()}/jsonrpc"
    async with Program("serve", *settings(url)) as program:
        failed = await program.logged("listing failed")
        assert failed["cause"] == f"Nothing listens at {url.split('/')[2]}."
        assert failed["next"] == "Start the service, or set backend.url to where it listens."
        admin = (await program.logged("gateway started"))["admin_port"]
        await until(lambda: _attempts(admin), lambda attempts: attempts >= 3)
        assert program.output.count('"listing failed"') == 1


async def _attempts(admin: int) -> float:
    reader, writer = await asyncio.open_connection("127.0.0.1", admin)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    counted = [line for line in text.splitlines() if 'catalog_refreshes_total{result="failed"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in counted)


async def test_another_failure_is_said_anew() -> None:
    async with ScriptedBackend() as backend:
        backend.on("rpc.discover", Body(b"", 503, "text/html"))
        async with Program("serve", *settings(backend.url, "backend.listing.dialect=openrpc")) as program:
            assert "maintenance" in (await program.logged("listing failed"))["cause"]
            backend.on("rpc.discover", Body(b"", 429, "text/html"))
            await program.said("gets too many requests")


async def test_the_client_of_stdio_is_told_the_cause() -> None:
    url = f"http://127.0.0.1:{free_port()}/jsonrpc"
    options = [part for knob in ground(url) for part in ("--set", knob)]
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await started("stdio", *options, given=pipe, output=pipe, errors=nothing)
    try:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(ask).encode() + b"\n")
        async with asyncio.timeout(PATIENCE):
            answer = json.loads(await process.stdout.readline())
        assert answer["error"]["message"].startswith(f"Nothing listens at {url.split('/')[2]}. Start the service")
    finally:
        process.kill()
        await process.wait()
