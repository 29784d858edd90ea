"""The slowest answer of a client that calls every 10 ms, while requests come in that once stopped everybody.

One has baggage that an expression took exponential time for, one has arguments of combining marks that a person is to
confirm, and the listing, read anew every second, has a description made of them.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from lab.bench.machine import Process, Unusable, free_port
from lab.bench.work import MODERN_CALL, RESULT, Workload
from tests.fault.behaviours import result
from tests.fault.scripted import ScriptedBackend
from tests.orders import TOOL, openrpc

if TYPE_CHECKING:
    from collections.abc import Callable

_ROUNDS: Final = 3
_SECONDS: Final = 4.0
_EVERY: Final = 0.010
_PAUSE: Final = 0.050
"""Seconds between two hostile requests."""
_CONFIRMED: Final = f"{TOOL}_01"
_MARKS: Final = "a" + "\u0316\u0301" * 32_000


def _hostile(name: str, arguments: dict[str, Any], check: Callable[[Any], bool], **meta: Any) -> Workload:
    params = MODERN_CALL.message["params"]
    message = {**MODERN_CALL.message, "params": {"name": name, "arguments": arguments, "_meta": params["_meta"] | meta}}
    return Workload(MODERN_CALL.path, message, {**MODERN_CALL.headers, "Mcp-Name": name}, check)


_CAPABLE: Final[dict[str, Any]] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
HOSTILE: Final = (
    _hostile(TOOL, MODERN_CALL.message["params"]["arguments"], MODERN_CALL.check, baggage="a= " + ";b= " * 40 + '"'),
    _hostile(
        _CONFIRMED,
        {"text": _MARKS},
        lambda answer: bool(answer["result"]["resultType"] == "input_required"),
        **_CAPABLE,
    ),
)


def slowest_answers(core: int, folder: Path) -> list[float]:
    """Milliseconds, of the best of three rounds, since what the machine does besides only ever adds; the gateway has
    ``core`` to itself."""
    return [min(asyncio.run(_measure(core, folder)))]


async def _measure(core: int, folder: Path) -> list[float]:
    document = openrpc()
    document["methods"][1]["params"] = []  # the one argument of the confirmed tool is in the settings
    document["methods"][2]["description"] = _MARKS
    async with ScriptedBackend() as backend:
        backend.on("rpc.discover", result(document))
        backend.on(TOOL, result(RESULT))
        port = free_port()
        settings = {
            "server": {"port": port, "admin_port": free_port()},
            "backend": {"url": backend.url, "listing": {"dialect": "openrpc"}},
            "catalog": {
                "ttl": "1s",
                "tools": {_CONFIRMED: {"confirm": True, "arguments": {"text": {"schema": {"type": "string"}}}}},
            },
            "auth": {"mode": "off"},
            "limits": {"invocation": "100000000/minute", "concurrent": 10_000},
            "telemetry": {"log": {"level": "warning"}},
        }
        config = folder / "hostile.yaml"
        config.write_text(json.dumps(settings))  # JSON is YAML
        command: list[str | Path] = [sys.executable, "-m", "gateway", "serve", "--config", config]
        with Process(command, core, folder / "hostile.log") as gateway:
            async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
                await _until_ready(session, gateway)
                return [await _round(session) for _ in range(_ROUNDS)]


async def _until_ready(session: aiohttp.ClientSession, gateway: Process) -> None:
    for _ in range(300):
        try:
            await _ask(session, MODERN_CALL)
            break
        except (aiohttp.ClientError, Unusable):
            await asyncio.sleep(0.1)
    await _ask(session, MODERN_CALL)


async def _round(session: aiohttp.ClientSession) -> float:
    over = time.perf_counter() + _SECONDS
    attack = asyncio.create_task(_attack(session, over))
    asked = []
    while time.perf_counter() < over:
        asked.append(asyncio.create_task(_ask(session, MODERN_CALL)))
        await asyncio.sleep(_EVERY)
    waits = await asyncio.gather(*asked)
    await attack
    return max(waits) * 1000


async def _attack(session: aiohttp.ClientSession, over: float) -> None:
    while time.perf_counter() < over:
        for request in HOSTILE:
            await _ask(session, request)
            await asyncio.sleep(_PAUSE)


async def _ask(session: aiohttp.ClientSession, request: Workload) -> float:
    """Seconds until the right answer."""
    started = time.perf_counter()
    async with session.post(request.path, data=request.body, headers=dict(request.headers)) as response:
        body = await response.read()
    took = time.perf_counter() - started
    if response.status != 200 or not _is_right(request, body):
        raise Unusable(f"a wrong answer, status {response.status}:\n{body[:500].decode(errors='replace')}")
    return took


def _is_right(request: Workload, body: bytes) -> bool:
    try:
        return request.check(json.loads(body))
    except KeyError:
        return False
