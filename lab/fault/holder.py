"""Strangers that hold connections: ``python -m lab.fault.holder PORT SENT COUNT ADDRESS …``, so many of each address.
Each sends what SENT names, reads nothing that comes, and begins again when it is closed. A process of its own, which
gives way to others on its core."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from typing import Final

_METRICS: Final = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 40
SENT: Final = {
    "nothing": b"",
    "half heads": b"GET /livez HTTP/1.1\r\nHost: a\r\nX-",
    "half bodies": b"GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx",
    "whole requests": b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n",
    "requests for metrics, read nothing": _METRICS,
    "a probe and requests for metrics, read nothing": b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n" + _METRICS,
}
AGAIN: Final = 0.02
"""Seconds after which one comes again."""
UNDER_WAY: Final = "all were there"
_ESTABLISHED: Final = 1
"""The state of a connection that nobody has closed, tcp(7)."""


async def main(port: int, sent: bytes, count: int, addresses: list[str]) -> None:
    os.nice(10)
    async with asyncio.TaskGroup() as strangers:
        for address in addresses:
            for _ in range(count):
                strangers.create_task(_hold(port, sent, address))
        await asyncio.sleep(1.0)
        print(UNDER_WAY, flush=True)


async def _hold(port: int, sent: bytes, address: str) -> None:
    loop = asyncio.get_running_loop()
    while True:
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.setblocking(False)
            one.bind((address, 0))
            try:
                await loop.sock_connect(one, ("127.0.0.1", port))
                if sent:
                    await loop.sock_sendall(one, sent)
                await _closed(one, reads=b"metrics" not in sent)
            except OSError:
                pass
        await asyncio.sleep(AGAIN)


async def _closed(one: socket.socket, *, reads: bool) -> None:
    loop = asyncio.get_running_loop()
    if reads:
        while await loop.sock_recv(one, 4096):
            pass
        return
    while one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED:  # noqa: ASYNC110, reading would tell, too
        await asyncio.sleep(AGAIN)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), SENT[sys.argv[2]], int(sys.argv[3]), sys.argv[4:]))
