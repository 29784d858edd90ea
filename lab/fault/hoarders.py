"""A row of ``make fault``: clients that do not read, hostile bodies and answers, and what the process holds of them."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress
from typing import Final

from lab.fault.rounds import certain
from lab.fault.stage import stage
from lab.fault.table import MEMORY, Figure, Line, Row
from tests.fault.behaviours import GzipBomb, InTurn, Stream
from tests.fault.load import addresses
from tests.protocol.talk import all_said
from tests.protocol.test_hostile_bodies import bomb, head

_MIB: Final = 1024 * 1024
_LARGE: Final = 7 * _MIB
"""Bytes of an answer that is just taken, with the default of ``backend.max_response``."""
_HOARDERS: Final = 60
_EACH: Final = 4
"""Requests that each of them sends, one after the other on one connection."""
_HOSTILE: Final = (Stream(50 * _MIB), Stream(50 * _MIB, chunked=True), GzipBomb(300 * _MIB))
_SECONDS: Final = 8.0
_BOMBS: Final = 50
_BOMB: Final = b"".join(bomb(200 * _MIB))
PACKED: Final = (
    head(f"Content-Length: {len(_BOMB)}", "Content-Encoding: gzip", "Connection: close", path="/near/mcp/tools/invoke")
    + _BOMB
)
"""A request of 300 KB that unpacks to 200 MiB."""
_CALL: Final = {"name": "fill", "arguments": {"size": _LARGE}}


async def unread_answers() -> Line:
    async with stage("services.near.backend.timeout=10s") as it:
        it.far.default = InTurn(_HOSTILE * 1000)
        healthy, hostile = await it.healthy(), await it.callers(5, 8, rate=8, mount="/far")
        await healthy.calls(1)
        hoarders = [_stuffed(it.port, one) for one in addresses(6, _HOARDERS)]
        bombs = [all_said(it.port, PACKED) for _ in range(_BOMBS)]
        besides = asyncio.create_task(healthy.calls(_SECONDS))
        await asyncio.gather(besides, hostile.calls(_SECONDS), *bombs)
        beside = besides.result()
        for hoarder in hoarders:
            hoarder.close()
        counts = certain(it.ledger)
        figure = Figure("VmHWM of the gateway", it.program.peak_memory() / _MIB, MEMORY, " MiB")
        note = f"{beside.held:.0%} of other calls were answered rightly meanwhile"
        # The service of the others shares a core with all of the load and may come too late, so this is not judged.
        return Line(worst=beside.worst, **counts, figures=(figure,), notes=(note, *it.ledger.complaints[:3]))


def _stuffed(port: int, address: str) -> socket.socket:
    """A client that asks for large answers and reads nothing."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.bind((address, 0))
    client.connect(("127.0.0.1", port))
    client.setblocking(False)
    body = json.dumps(_CALL).encode()
    head = f"POST /near/mcp/tools/invoke HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
    with suppress(BlockingIOError):
        client.send((head.encode() + b"Content-Type: application/json\r\n\r\n" + body) * _EACH)
    return client


ROWS: Final[dict[str, Row]] = {f"{_HOARDERS} clients do not read, hostile bodies and answers": unread_answers}
