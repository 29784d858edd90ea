"""``/mcp``: HTTP around :class:`gateway.mcp.endpoint.Endpoint`."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

from aiohttp import web

from gateway.mcp.exchange import EVENT_STREAM, Inbound, Reply, StreamReply
from gateway.web.context import CONTEXT, TRACE, caller_of
from gateway.web.reading import check_accepts_json, read_json_body
from gateway.web.replies import JSON, with_headers

_STREAM_HEADERS: Final = {"Content-Type": EVENT_STREAM, "X-Accel-Buffering": "no"}
_KEEP_ALIVE: Final = b":\n\n"


async def post(request: web.Request) -> web.StreamResponse:
    check_accepts_json(request)
    body = await read_json_body(request)
    return await _send(request, await request.app[CONTEXT].endpoint.answer(_inbound(request, body)))


async def get(request: web.Request) -> web.StreamResponse:
    """The older eras' stream of notifications."""
    return await _send(request, await request.app[CONTEXT].endpoint.listen(_inbound(request)))


async def delete(request: web.Request) -> web.StreamResponse:
    """The end of an older era's session."""
    return await _send(request, await request.app[CONTEXT].endpoint.end(_inbound(request)))


def _inbound(request: web.Request, body: bytes = b"") -> Inbound:
    return Inbound(request.headers, body, caller_of(request))


async def _send(request: web.Request, reply: Reply | StreamReply) -> web.StreamResponse:
    fields = request[TRACE].fields
    fields["mcp"] = reply.method
    if reply.tool:
        fields["tool"] = reply.tool[:128]
    if isinstance(reply, StreamReply):
        return await _stream(request, reply)
    if not reply.body:
        return web.Response(status=reply.status, headers=reply.headers)
    response = web.Response(body=reply.body, status=reply.status, headers=reply.headers, content_type=JSON)
    return response if reply.error is None else with_headers(request, response, reply.error)


async def _stream(request: web.Request, reply: StreamReply) -> web.StreamResponse:
    """Messages as server-sent events. A client that hangs up ends it, and with it whatever the events hold."""
    response = web.StreamResponse(headers={**_STREAM_HEADERS, **reply.headers})
    async with aclosing(reply.events) as events:
        try:
            await response.prepare(request)
            async for message in events:
                await response.write(_KEEP_ALIVE if message is None else b"event: message\ndata: %b\n\n" % message)
            await response.write_eof()
        except ConnectionError:
            request[TRACE].fields["left"] = True
    return response
