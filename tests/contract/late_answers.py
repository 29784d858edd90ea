"""Calls of one caller that are given up and answered late without an id, and calls of another right behind them.

The service owes an answer to each ``note``, and sends it on the same connection right before that to a ``balance``,
which is then the only call under way there. Who reads it reads what belongs to another caller.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import ClientSession

from tests.contract.transports import Json, SocketStand
from tests.waiting import until

CALLS: Final = 100
_AT_ONCE: Final = 10
SECRET: Final = "account 4711 of the first caller"
_NAMES: Final = ("note", "hold", "balance")
_ANSWERED: Final = -1
"""The number of a ``note`` that is answered as it should be."""
_LISTING: Final = {
    "openrpc": "1.2.6",
    "info": {"title": "Bank", "version": "1"},
    "methods": [{"name": name, "params": [{"name": "number"}], "paramStructure": "by-name"} for name in _NAMES],
}
_LEGACY: Final = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
_FAULT: Final = {"code": -32000, "message": SECRET}


def _id_null(other: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": _FAULT}).encode()


def _no_id(other: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "error": _FAULT}).encode()


def _broken(other: str) -> bytes:
    return b'{"jsonrpc": "2.0", "result": "%b", }' % SECRET.encode()


def _id_in_data(other: str) -> bytes:
    return b'{"jsonrpc": "2.0", "result": {"id": "%b", "text": "%b"}, }' % (other.encode(), SECRET.encode())


LATE: Final[dict[str, Callable[[str], bytes]]] = {
    "id null": _id_null, "no id": _no_id, "broken JSON": _broken, "the other's id in the data": _id_in_data,
}  # fmt: skip
"""The answer to a call that was given up; it is told the id of the call that is under way meanwhile."""


def owing(make: Callable[[], SocketStand], late: Callable[[str], bytes]) -> OwingStand:
    """Return a service over this wire that answers ``note`` late, and so."""

    class Owing(OwingStand, make):  # type: ignore[misc, valid-type]  # each is a class
        pass

    stand: OwingStand = Owing()
    stand.late = late
    stand.result = lambda message: _LISTING if message["method"] == "rpc.discover" else message["params"]
    return stand


class OwingStand(SocketStand):
    """Counts the notes that it got, and owes answers on each connection."""

    late: Callable[[str], bytes]

    def __init__(self) -> None:
        super().__init__()
        self.notes = 0
        self._owed: Counter[asyncio.StreamWriter] = Counter()

    async def take(self, message: Json, writer: asyncio.StreamWriter) -> None:
        method = message.get("method")
        if method == "note" and message["params"]["number"] != _ANSWERED:
            self.notes += 1
            self._owed[writer] += 1
            return
        if method == "hold":
            await self.release.wait()
        if method == "balance" and self._owed[writer]:
            self._owed[writer] -= 1
            writer.write(self.wrap(self.late(message["id"])))
        await super().take(message, writer)


@dataclass
class Seen:
    """What the calls of the second caller came to: how many there were, were right, and had a word of the first's."""

    calls: int = 0
    right: int = 0
    leaked: int = 0


class Teller:
    """The callers of one gateway at ``base``. ``slots`` returns how many exchanges it has under way."""

    def __init__(
        self, session: ClientSession, base: str, stand: OwingStand, slots: Callable[[], Awaitable[float]]
    ) -> None:
        self._session = session
        self._base = base
        self._stand = stand
        self._slots = slots

    async def balances(self, *, times_out: bool) -> Seen:
        """Give up a hundred calls, and make a hundred others when these are the only ones under way."""
        seen, session = Seen(), await self._open_session()
        for first in range(0, CALLS, _AT_ONCE):
            numbers = range(first, first + _AT_ONCE)
            await (self._time_out(numbers) if times_out else self._cancel(numbers, session))
            for number in numbers:
                text = await self._invoke("balance", number)
                seen.calls += 1
                seen.right += json.loads(text) == {"result": {"number": number}}
                seen.leaked += SECRET in text
        return seen

    async def _time_out(self, numbers: range) -> None:
        """Let calls time out on a connection that is alive: another call is under way, and the tool answers a third."""
        self._stand.release.clear()
        held = asyncio.create_task(self._invoke("hold", 0))
        before = self._stand.notes
        notes = [asyncio.create_task(self._invoke("note", number)) for number in numbers]
        await until(lambda: self._stand.notes - before, len(numbers).__eq__)
        await self._invoke("note", _ANSWERED)
        await asyncio.gather(*notes)
        self._stand.release.set()
        await held

    async def _cancel(self, numbers: range, session: dict[str, str]) -> None:
        calls = [(number + 1, {"name": "note", "arguments": {"number": number}}) for number in numbers]
        before = self._stand.notes
        notes = [asyncio.create_task(self._mcp("tools/call", id, session, **params)) for id, params in calls]
        await until(lambda: self._stand.notes - before, len(numbers).__eq__)
        for number in numbers:
            await self._mcp("notifications/cancelled", None, session, requestId=number + 1)
        await until(self._slots, (0).__eq__)
        await asyncio.wait(notes)

    async def _open_session(self) -> dict[str, str]:
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        headers = await self._mcp("initialize", 0, {}, **client)
        return {"Mcp-Session-Id": headers["Mcp-Session-Id"]}

    async def _mcp(self, method: str, id: int | None, session: dict[str, str], **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if id is None else {"id": id})
        async with self._session.post(f"{self._base}/mcp", json=message, headers={**_LEGACY, **session}) as response:
            await response.read()
            return response.headers

    async def _invoke(self, name: str, number: int) -> str:
        body = {"name": name, "arguments": {"number": number}}
        async with self._session.post(f"{self._base}/mcp/tools/invoke", json=body) as response:
            return await response.text()
