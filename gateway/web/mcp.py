"""``/mcp``: HTTP around :class:`gateway.mcp.endpoint.Endpoint`."""

from __future__ import annotations

import re
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from gateway.errors import NotAcceptable
from gateway.http_server.response import HttpAnswer, StreamedAnswer
from gateway.mcp.endpoint import Endpoint
from gateway.mcp.messages import EVENT_STREAM, McpReply, McpRequest, McpStreamReply
from gateway.telemetry.request_log import LEFT
from gateway.web.exchange import Exchange

_UNBUFFERED: Final = {"X-Accel-Buffering": "no"}  # nginx passes each event on at once
_ACCEPTS_JSON: Final = re.compile(r"\*/\*|application/(?:json|\*)")
_KEEP_ALIVE: Final = b":\n\n"


class EventStream(StreamedAnswer):
    """Send messages as server-sent events. ``notices`` marks a stream that lasts while the client listens, not until a
    call is over."""

    def __init__(self, exchange: Exchange, reply: McpStreamReply) -> None:
        super().__init__(EVENT_STREAM, {**_UNBUFFERED, **exchange.headers})
        self.notices = reply.notices
        self._events = reply.events

    async def send(self, exchange: Exchange) -> None:
        """Send all messages. When the client hangs up, close the events, which releases what they hold."""
        async with aclosing(self._events) as events:
            try:
                await self.begin(exchange.request)
                async for message in events:
                    await self.write(_KEEP_ALIVE if message is None else b"event: message\ndata: %b\n\n" % message)
                await self.end()
            except ConnectionError:
                exchange.record.note_outcome(LEFT)


@dataclass(frozen=True, slots=True)
class McpSurface:
    """Serve ``/mcp``: ``POST`` brings messages; ``GET`` opens the older era's stream of notifications, ``DELETE`` ends
    a session."""

    endpoint: Endpoint

    async def post(self, exchange: Exchange) -> HttpAnswer | StreamedAnswer:
        headers = exchange.request.headers
        if not any(map(_ACCEPTS_JSON.search, headers.getall("Accept", ("*/*",)))):  # no Accept means any
            raise NotAcceptable("Accept must admit application/json")
        return _answer(exchange, await self.endpoint.answer_post(_mcp_request(exchange)))

    async def get(self, exchange: Exchange) -> HttpAnswer | StreamedAnswer:
        return _answer(exchange, await self.endpoint.open_stream(_mcp_request(exchange)))

    async def delete(self, exchange: Exchange) -> HttpAnswer | StreamedAnswer:
        return _answer(exchange, await self.endpoint.end_session(_mcp_request(exchange)))


def _mcp_request(exchange: Exchange) -> McpRequest:
    body, exchange.body = exchange.body, b""
    return McpRequest(exchange.request.headers, body, exchange.caller)


def _answer(exchange: Exchange, reply: McpReply | McpStreamReply) -> HttpAnswer | StreamedAnswer:
    if reply.headers:
        exchange.headers.update(reply.headers)
    if isinstance(reply, McpStreamReply):
        return EventStream(exchange, reply)
    if reply.error is not None:
        exchange.note_error(reply.error)
    return HttpAnswer(reply.body, reply.status)
