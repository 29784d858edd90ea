"""Rows of ``make fault``: large bodies of calls under way, large results, and what the process takes for them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, Final

from lab.fault.rounds import QUIET, certain
from lab.fault.stage import Stage, stage
from lab.fault.table import MEMORY, Figure, Line, Row
from tests.authorization.stand import CALLS, MODERN, Bearer
from tests.fault.behaviours import Body, Exchange, InTurn, result
from tests.fault.load import Sample, Samples, addresses, session
from tests.protocol.official import LEGACY
from tests.protocol.talk import JSON, modern_headers, modern_request, request

_MIB: Final = 1024 * 1024
_CALLERS: Final = 12
_EACH: Final = 32
"""Calls of one caller at a time."""
_FEW: Final = 3
_TAKES: Final = 3.0
"""Seconds that the service takes for a large call."""
_CALM: Final = 10.0
"""Seconds after which the memory of a flood is given back."""
_FLOODS: Final = 2
"""What leaks adds up."""
_KEPT: Final = 20.0
"""MiB that may be kept after them (decision 50)."""
_PATIENCE: Final = 30.0
SHAPES: Final[dict[str, Any]] = {
    "one long text": "x" * 1_000_000,
    "36,000 small objects": [{"id": number, "n": "abc"} for number in range(36_000)],
}


@dataclass(frozen=True)
class _Slow:
    """Answer after a while."""

    async def play(self, exchange: Exchange) -> None:
        await asyncio.sleep(_TAKES)
        await result({}).play(exchange)


_KNOBS: Final = ("limits.concurrent=32", "services.far.backend.timeout=20s")


def _message(surface: str, value: Any) -> tuple[str, bytes, dict[str, str]]:
    """The path, body and headers of a call of ``keep``."""
    params = {"name": "keep", "arguments": {"value": value}}
    path, body, headers = "/mcp", modern_request("tools/call", params), modern_headers("tools/call", "keep")
    if surface in LEGACY:
        body, headers = request("tools/call", params), {"MCP-Protocol-Version": surface}
    elif surface == "rest":
        path, body, headers = "/mcp/tools/invoke", params, {}
    elif surface != MODERN:
        path, body, headers = (
            "/mcp/tools/keep" if surface == "tool" else "/jsonrpc",
            request("keep", {"value": value}),
            {},
        )
    return path, json.dumps(body, separators=(",", ":")).encode(), {**JSON, "Accept": "application/json", **headers}


async def _told(client: Bearer, path: str, body: bytes, headers: dict[str, str]) -> str:
    """What the answer to a large call says, in a word."""
    async with asyncio.timeout(_PATIENCE), client.request("POST", path, body, headers) as answer:
        said = await answer.read()
        if b"holds too many answers to read this one" in said:
            return "not read"
        if answer.status == 503 and b"not sent" in said and "Retry-After" in answer.headers:
            return "503 not sent"
        return (
            "right"
            if answer.status == 200 and b"error" not in said.lower().replace(b'"iserror":false', b"")
            else f"{answer.status} {said[:200]!r}"
        )


async def _flood(it: Stage, send: Callable[[str, Bearer], Awaitable[str]], told: Counter[str], each: int) -> None:
    """Let each caller make all its calls at once, on one surface after the other, and hang up at the end."""
    async with AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(session(one)) for one in addresses(6, _CALLERS)]
        clients = [Bearer(one, it.port, None, "/far") for one in sessions]
        for surface in CALLS:
            told.update(await asyncio.gather(*(send(surface, client) for client in clients for _ in range(each))))


async def _measured(
    it: Stage, send: Callable[[str, Bearer], Awaitable[str]], fine: set[str], each: int = _EACH
) -> Line:
    """Measure the memory and the healthy callers during floods, and the memory 10 s after each."""
    healthy, told = await it.healthy(), Counter[str]()
    await healthy.calls(2 * QUIET)
    samples: list[Sample] = []
    kept: list[float] = []
    before = it.program.memory()
    for _ in range(_FLOODS):
        flood = asyncio.create_task(_flood(it, send, told, each))
        while not flood.done():
            samples += (await healthy.calls(QUIET)).of
        await flood
        await asyncio.sleep(_CALM)
        kept.append((it.program.memory() - before) / _MIB)
    figures = (
        Figure("VmHWM of the gateway", it.program.peak_memory() / _MIB, MEMORY, " MiB"),
        Figure("memory kept 10 s after the last of two floods", kept[-1], _KEPT, " MiB"),
        Figure("other answers", sum(count for word, count in told.items() if word not in fine), 0),
        Figure("calls let in and answered, at least one", -told["right"], -1),
    )
    beside = Samples(samples)
    after = ", ".join(f"{one:.1f}" for one in kept)
    notes = (f"{before / _MIB:.0f} MiB, later {after} more; {dict(told.most_common(4))}", *it.ledger.complaints[:3])
    return Line(held=beside.held, worst=beside.worst, **certain(it.ledger), figures=figures, notes=notes)


def _bodies(value: Any) -> Row:
    async def row() -> Line:
        async with stage(*_KNOBS) as it:
            it.far.on("keep", _Slow())
            messages = {surface: _message(surface, value) for surface in CALLS}
            return await _measured(
                it, lambda surface, client: _told(client, *messages[surface]), {"503 not sent", "right"}
            )

    return row


async def _bombs() -> Line:
    """Results of many small arrays, which have to be decoded: some find room for their values, others never do."""
    async with stage(*_KNOBS) as it:
        it.far.on("keep", InTurn(tuple(_bomb(size) for size in (_MIB, 7 * _MIB)) * 1000))
        messages = {surface: _message(surface, 1) for surface in CALLS}
        fine = {"not read", "503 not sent", "right"}
        line = await _measured(it, lambda surface, client: _told(client, *messages[surface]), fine, _FEW)
        # The service of the others shares a core with all of the load and may come too late, so this is not judged.
        note = f"{line.held or 0:.0%} of other calls were answered rightly meanwhile"
        return replace(line, held=None, notes=(note, *line.notes))


def _bomb(size: int) -> Body:
    parts = b"[1]," * (size // 4)
    return Body(b'{"jsonrpc":"2.0","id":@ID@,"result":[%b"\\u0041"]}' % parts)


ROWS: Final[dict[str, Row]] = {
    f"{_CALLERS} x {_EACH} calls of 1 MB under way: {name}": _bodies(value) for name, value in SHAPES.items()
} | {"results of a million small arrays": _bombs}
