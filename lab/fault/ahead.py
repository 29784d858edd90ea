"""Rows of ``make fault``: strangers of one address send more than is answered yet, and read nothing.

What the gateway keeps of it, and how long a probe of the admin port waits meanwhile. The strangers are a process of
their own (``python -m lab.fault.ahead PORT CONNECTIONS KIND``), so that they hold up no probe.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import socket
import sys
import threading
from contextlib import ExitStack, suppress
from functools import partial
from typing import Final

from lab.fault.rounds import certain
from lab.fault.stage import Stage, stage
from lab.fault.table import Figure, Line, Row

_MIB: Final = 1024 * 1024
_SECONDS: Final = 10.0
_STRANGER: Final = "127.9.9.9"
_GET: Final = b"GET /near/mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
_PROBE: Final = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
_PIECE: Final = 64 * 1024
_HALF: Final = _GET[:-2] + b"".join(b"X-%d: %b\r\n" % (number, b"x" * 8000) for number in range(7))
_MANY_LINES: Final = _GET[:-2] + b"aa:bb\r\n" * 8000
"""Half a head of 56 KB, which a parser may make a megabyte of."""


_POST: Final = _GET.replace(b"GET", b"POST")[:-2] + b"Content-Type: application/json\r\n"
_CHUNKS: Final = _POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"2\r\nab\r\n" * 120_000
"""A body of which each read has 2,300 parts."""
_NO_BODY: Final = _HALF.replace(_GET[:-2], _POST) + b"Content-Length: 100\r\n\r\n"

KINDS: Final = {
    "mebibyte": _GET * (_MIB // len(_GET)),
    "small": _GET * (16_000 // len(_GET)),
    "half": _HALF,
    "lines": _MANY_LINES,
    "chunks": _CHUNKS,
    "bodiless": _NO_BODY,
}


async def flooded(connections: int, kind: str, livez: float, memory: float) -> Line:
    """Each of so many connections sends these bytes. ``livez`` is seconds, ``memory`` MiB more than before."""
    async with stage() as it:
        healthy = await it.healthy()
        await healthy.calls(1)
        admin = (await it.program.logged("gateway started"))["admin_port"]
        start = it.program.peak_memory()
        command = (sys.executable, "-m", "lab.fault.ahead", str(it.port), str(connections), kind)
        pipe = asyncio.subprocess.PIPE
        strangers = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        try:
            beside, waits = await asyncio.gather(healthy.calls(_SECONDS), _probed(admin))
            more = (it.program.peak_memory() - start) / _MIB
        finally:
            open_yet, _ = await strangers.communicate(b"")  # ends their input
        return _line(it, beside.held, beside.worst, (livez, max(waits)), (memory, more), open_yet.decode().strip())


def _line(
    it: Stage, held: float, worst: float, livez: tuple[float, float], memory: tuple[float, float], open_yet: str
) -> Line:
    figures = (Figure("slowest /livez", livez[1], livez[0], " s"), Figure("VmHWM more", memory[1], memory[0], " MiB"))
    notes = (open_yet, *it.ledger.complaints[:3])
    return Line(held=held, worst=worst, **certain(it.ledger), figures=figures, notes=notes)


def _connected(port: int) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.bind((_STRANGER, 0))
    client.connect(("127.0.0.1", port))
    client.setblocking(False)
    return client


def _begin(clients: list[socket.socket], first: bytes) -> int:
    """Send the first byte. Return how many connections were not refused."""
    begun = 0
    for client in clients:
        with suppress(OSError):
            begun += client.send(first)
    return begun


def _send_all(clients: list[socket.socket], sent: bytes) -> None:
    """Send as much as the kernel takes, a piece of each in turn."""
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client, selectors.EVENT_WRITE, 1)
        while selector.get_map():
            for key, _ in selector.select():
                try:
                    at = key.data + key.fileobj.send(sent[key.data : key.data + _PIECE])  # type: ignore[union-attr]
                except OSError:
                    at = len(sent)
                if at < len(sent):
                    selector.modify(key.fileobj, selectors.EVENT_WRITE, at)
                else:
                    selector.unregister(key.fileobj)


async def _probed(port: int) -> list[float]:
    """Ask /livez twenty times a second. Return the seconds that each answer took."""
    clock = asyncio.get_running_loop().time
    waits, end = [], clock() + _SECONDS
    while clock() < end:
        begun = clock()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_PROBE)
        raw = await reader.read()
        waits.append(clock() - begun if raw.startswith(b"HTTP/1.1 200 ") else float("inf"))
        writer.close()
        await asyncio.sleep(0.05)
    return waits


def flood(port: int, connections: int, kind: str) -> None:
    """Send, and hang up once standard input ends."""
    with ExitStack() as stack:
        strangers = [stack.enter_context(_connected(port)) for _ in range(connections)]
        print(f"{_begin(strangers, KINDS[kind][:1])} connections were open when they began", flush=True)
        threading.Thread(target=_send_all, args=(strangers, KINDS[kind]), daemon=True).start()
        sys.stdin.read()
        os._exit(0)


ROWS: Final[dict[str, Row]] = {
    "2,500 connections send 1 MiB ahead": partial(flooded, 2500, "mebibyte", 0.5, 200),
    "600 connections send 1 MiB ahead": partial(flooded, 600, "mebibyte", 0.5, 200),
    "400 connections send 16 KB of small requests": partial(flooded, 400, "small", 0.3, 200),
    "2,500 bodies of small chunks": partial(flooded, 2500, "chunks", 0.5, 200),
    "2,500 large heads without their bodies": partial(flooded, 2500, "bodiless", 0.5, 120),
    "2,500 halves of large heads": partial(flooded, 2500, "half", 0.5, 200),
    "2,500 halves of heads of many lines": partial(flooded, 2500, "lines", 0.5, 200),
}

if __name__ == "__main__":
    flood(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
