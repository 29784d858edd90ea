"""Reading a gateway's answer as server-sent events, message by message, with bounded waits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from enum import Enum
from typing import Any

from aiohttp import ClientResponse

from tests.protocol import official
from tests.waiting import PATIENCE


class Mark(Enum):
    """What a stream has besides messages."""

    COMMENT = "a keep-alive"
    END = "the end"


class Stream:
    """An open stream. Each message is checked against the official models on its way."""

    def __init__(self, response: ClientResponse, asked: official.Asked) -> None:
        check_headers(response)
        self.headers = response.headers
        self._asked = asked
        self._response = response

    async def event(self) -> Any:
        """The next message, or a :class:`Mark`."""
        data = b""
        async with asyncio.timeout(PATIENCE):
            while line := (await self._response.content.readline()).rstrip(b"\n"):
                data += line + b"\n"
        if not data:
            assert self._response.content.at_eof()
            return Mark.END
        return event_of(data, self._asked)

    async def message(self) -> Any:
        """The next message, whatever keeps the line alive before it."""
        while (event := await self.event()) is Mark.COMMENT:
            pass
        assert event is not Mark.END, "the stream ended"
        return event

    async def comment(self) -> None:
        """A keep-alive, and no message before it."""
        assert await self.event() is Mark.COMMENT

    async def rest(self) -> list[Any]:
        """All messages until the gateway ends the stream."""
        return [event async for event in self._events() if event is not Mark.COMMENT]

    async def _events(self) -> AsyncIterator[Any]:
        while (event := await self.event()) is not Mark.END:
            yield event

    def close(self) -> None:
        """Hang up."""
        self._response.close()


def check_headers(response: ClientResponse) -> None:
    """What every stream says of itself (2026-07-28, streamable-http; security.md H33)."""
    assert response.status == 200
    assert response.headers["Content-Type"] == "text/event-stream"
    assert response.headers["X-Accel-Buffering"] == "no"
    assert response.headers["Cache-Control"] == "no-store"


def event_of(data: bytes, asked: official.Asked) -> Any:
    """One event, which is one message on one line, or a comment. There is no ``id`` and no ``retry``: nothing
    can be resumed (2026-07-28, streamable-http)."""
    lines = data.decode().splitlines()
    if lines == [":"]:
        return Mark.COMMENT
    fields = [line.partition(": ")[::2] for line in lines]
    assert [name for name, _ in fields] == ["event", "data"], data
    assert fields[0][1] == "message", data
    message = json.loads(fields[1][1])
    if "method" in message:
        official.check_request(asked, message)
    else:
        official.check_response(asked, message)
    return message


def events_of(body: bytes, asked: official.Asked) -> list[Any]:
    """A whole stream's messages."""
    assert body.endswith(b"\n\n"), body
    events = [event_of(event, asked) for event in body[:-2].split(b"\n\n")]
    return [event for event in events if event is not Mark.COMMENT]
