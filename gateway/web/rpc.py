"""``POST /jsonrpc``: the guarded way through, for clients that speak JSON-RPC 2.0 already.

The same decisions as everywhere: only tools of the caller's view can be called, by their name or their method's;
positional params become the names they stand for before they are checked; hidden arguments are refused. The result
is the backend's own, the id the caller's. The calls of a batch are made one after the other.

The rules are those of JSON-RPC 2.0, where MCP narrows them: §4 takes null and fractions for ids, §5 wants an id on
each error, null where the request's cannot be read.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from gateway import batch, jsonrpc
from gateway.batch import Room
from gateway.errors import GatewayError, InternalError
from gateway.jsonrpc import BadMessage, Notification, Raw, Request
from gateway.web.context import CONTEXT
from gateway.web.reading import JSONRPC_TYPES, read_json_body
from gateway.web.replies import json_response, rpc_error, rpc_error_bytes
from gateway.web.tool_route import call_in, value_of


async def post(request: web.Request) -> web.Response:
    try:
        value = jsonrpc.decode_any_ids(await read_json_body(request, JSONRPC_TYPES))
        if not isinstance(value, list):
            return await _single(request, value)
        batch.check_length(value)
    except GatewayError as error:
        return rpc_error(request, error, getattr(error, "id", None))
    room = Room(request.app[CONTEXT].operations.max_response)
    answers = [Raw(answer) for item in value if (answer := await _item(request, item, room)) is not None]
    if not answers:
        return web.Response(status=204)
    return json_response(jsonrpc.encode(answers))


async def _single(request: web.Request, value: Any) -> web.Response:
    """One message: a refusal is the exchange's own status, so that its challenge is seen; the rest is in-band."""
    message = call_in(value)
    try:
        body = await _answer(request, message)
    except GatewayError as error:
        if error.refuses or isinstance(error, InternalError):
            return rpc_error(request, error, message.id if isinstance(message, Request) else None)
        body = _error(message, error)
    return web.Response(status=204) if body is None else json_response(body)


async def _item(request: web.Request, value: Any, room: Room) -> bytes | None:
    """One message of a batch: whatever becomes of it concerns no other, but for the room that its answer takes."""
    try:
        message = call_in(value)
    except BadMessage as error:
        return rpc_error_bytes(error.id, error)
    try:
        body = await _answer(request, message)
    except GatewayError as error:
        return _error(message, error)
    return None if isinstance(message, Notification) or body is None else room.fit(message.id, body)


async def _answer(request: web.Request, message: Request | Notification) -> bytes | None:
    value = await value_of(request, message, message.method)
    return None if isinstance(message, Notification) else jsonrpc.response_bytes(message.id, value)


def _error(message: Request | Notification, error: GatewayError) -> bytes | None:
    return None if isinstance(message, Notification) else rpc_error_bytes(message.id, error)
