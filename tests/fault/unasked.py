"""What a service may say on a connection beside its answers, and when."""

from __future__ import annotations

import asyncio
from typing import Final

from tests.fault.behaviours import SUM, Behaviour, Ending, Exchange
from tests.fault.rows import LEAK
from tests.fault.wire import head
from tests.waiting import PATIENCE

_JSON: Final = (("Content-Type", "application/json"),)


def answer(members: bytes) -> bytes:
    """An HTTP answer that nobody asked for, which holds these members."""
    body = b'{"jsonrpc":"2.0",' + members + b"}"
    return head(200, (*_JSON, ("Content-Length", str(len(body))))) + body


def interim(status: int) -> bytes:
    return head(status, (("Link", "</style.css>; rel=preload"),) if status == 103 else ())


SURPLUS: Final = {
    "an answer to the call before": answer(b'"id":@ID@,"result":{"sum":"' + LEAK.encode() + b'"}'),
    "an answer without id": answer(b'"result":{"sum":"' + LEAK.encode() + b'"}'),
    "an answer with null for id": answer(b'"id":null,"result":{"sum":"' + LEAK.encode() + b'"}'),
    "half an answer": answer(b'"id":null,"result":{"sum":"' + LEAK.encode() + b'"}')[:-9],
    "a head": answer(b"")[:30],
    "interim answers": interim(103) * 3,
    "no HTTP": b"\x00" + LEAK.encode(),
    "a line end": b"\r\n",
}


class Lingering:
    """Answers, and once it is told says ``more`` on the connection, which it ends then or keeps."""

    def __init__(self, more: bytes = b"", ending: Ending = "close", reply: Behaviour = SUM) -> None:
        self._more = more
        self._ending: Ending = ending
        self._reply = reply
        self._told = asyncio.Event()
        self._over = asyncio.Event()

    async def play(self, exchange: Exchange) -> None:
        await self._reply.play(exchange)
        exchange.ending = self._ending
        if await exchange.wait(self._told):
            await exchange.send(exchange.request.fill(self._more))
            if self._ending == "reset":
                exchange.ending = "reset"
        self._over.set()

    async def goes_on(self) -> None:
        self._told.set()
        async with asyncio.timeout(PATIENCE):
            await self._over.wait()
