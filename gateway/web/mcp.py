"""``POST /mcp``: HTTP around :class:`gateway.mcp.endpoint.Endpoint`."""

from __future__ import annotations

from aiohttp import web

from gateway.mcp.exchange import Inbound
from gateway.web.context import CONTEXT, TRACE, caller_of
from gateway.web.reading import check_accepts_json, read_json_body
from gateway.web.replies import JSON


async def post(request: web.Request) -> web.Response:
    check_accepts_json(request)
    body = await read_json_body(request)
    endpoint = request.app[CONTEXT].endpoint
    reply = await endpoint.answer(Inbound(request.headers, body, caller_of(request)))
    fields = request[TRACE].fields
    fields["mcp"] = reply.method
    if reply.tool:
        fields["tool"] = reply.tool[:128]
    if not reply.body:
        return web.Response(status=reply.status, headers=reply.headers)
    return web.Response(body=reply.body, status=reply.status, headers=reply.headers, content_type=JSON)
