"""``/mcp``: HTTP around :class:`gateway.mcp.endpoint.Endpoint`."""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from gateway import jsonrpc
from gateway.errors import NotAcceptable
from gateway.http_server.response import Response, StreamedResponse
from gateway.mcp.endpoint import Endpoint
from gateway.mcp.messages import EVENT_STREAM, Events, McpReply, McpRequest, McpStreamReply
from gateway.telemetry.record import Record
from gateway.web.exchange import Exchange

_UNBUFFERED: Final = {"X-Accel-Buffering": "no"}  # nginx passes each event on at once
_ACCEPTS_JSON: Final = re.compile(r"\*/\*|application/(?:json|\*)")
_KEEP_ALIVE: Final = b":\n\n"


class EventStream(StreamedResponse):
    """Hold messages that are sent as server-sent events. ``notices`` marks a stream that lasts while the client
    listens, not until a call is over."""

    def __init__(self, reply: McpStreamReply, record: Record) -> None:
        super().__init__(_server_sent(reply.events, record), EVENT_STREAM, _UNBUFFERED)
        self.notices = reply.notices


async def _server_sent(events: Events, record: Record) -> AsyncGenerator[bytes, None]:
    async with aclosing(events):
        async for message in events:
            part = _KEEP_ALIVE if message is None else b"event: message\ndata: %b\n\n" % message
            record.bytes_out += len(part)
            yield part


@dataclass(frozen=True, slots=True)
class McpSurface:
    """Serve ``/mcp``: ``POST`` brings messages; ``GET`` opens the older era's stream of notifications, ``DELETE`` ends
    a session."""

    endpoint: Endpoint

    async def post(self, exchange: Exchange) -> Response | StreamedResponse:
        headers = exchange.request.headers
        if not any(map(_ACCEPTS_JSON.search, headers.getall("Accept", ("*/*",)))):  # no Accept means any
            raise NotAcceptable("Accept must admit application/json")
        answering = self.endpoint.answer(_mcp_request(exchange), jsonrpc.decode_strictly(exchange.body))
        exchange.body = b""  # it is decoded, so nobody needs it
        return _answer(exchange, await answering)

    async def get(self, exchange: Exchange) -> Response | StreamedResponse:
        return _answer(exchange, await self.endpoint.legacy.open_stream(_mcp_request(exchange)))

    async def delete(self, exchange: Exchange) -> Response | StreamedResponse:
        return _answer(exchange, await self.endpoint.legacy.end_session(_mcp_request(exchange)))


def _mcp_request(exchange: Exchange) -> McpRequest:
    return McpRequest(exchange.request.headers, exchange.caller)


def _answer(exchange: Exchange, reply: McpReply | McpStreamReply) -> Response | StreamedResponse:
    if reply.headers:
        exchange.headers.update(reply.headers)
    if isinstance(reply, McpStreamReply):
        return EventStream(reply, exchange.record)
    if reply.error is not None:
        exchange.note_error(reply.error)
    return Response(reply.body, reply.status)
