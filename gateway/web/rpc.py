"""``POST /jsonrpc``: the guarded way through, for clients that speak JSON-RPC 2.0 already.

The same decisions as everywhere: only tools of the caller's view can be called, by their name or their method's;
positional params become the names they stand for before they are checked; hidden arguments are refused. The result
is the backend's own, the id the caller's. The calls of a batch are made one after the other.
"""

from __future__ import annotations

from typing import Any, Final

import structlog
from aiohttp import web

from gateway import jsonrpc
from gateway.errors import GatewayError, InternalError, MethodNotFound, UnknownTool
from gateway.jsonrpc import BadMessage, Id, Notification, Request
from gateway.web.context import CONTEXT, TRACE, caller_of
from gateway.web.reading import read_json_body
from gateway.web.replies import json_response, rpc_error
from gateway.web.rest import value_bytes
from gateway.web.tool_route import by_name

MAX_BATCH: Final = 50

log = structlog.get_logger()


async def post(request: web.Request) -> web.Response:
    try:
        value = jsonrpc.decode_strictly(await read_json_body(request))
        if not isinstance(value, list):
            return await _single(request, value)
        if not 0 < len(value) <= MAX_BATCH:
            raise BadMessage(f"Invalid request: a batch has 1 to {MAX_BATCH} messages")
    except GatewayError as error:
        return rpc_error(request, error, getattr(error, "id", None))
    answers = [answer for item in value if (answer := await _item(request, item)) is not None]
    if not answers:
        return web.Response(status=204)
    return json_response(b"[" + b",".join(answers) + b"]")


async def _single(request: web.Request, value: Any) -> web.Response:
    """One message: a refusal is the exchange's own status, so that its challenge is seen; the rest is in-band."""
    message = _message_of(value)
    try:
        body = await _answer(request, message)
    except GatewayError as error:
        if error.refuses:
            return rpc_error(request, error, getattr(message, "id", None))
        body = _error(message, error)
    return web.Response(status=204) if body is None else json_response(body)


async def _item(request: web.Request, value: Any) -> bytes | None:
    """One message of a batch: whatever becomes of it concerns no other."""
    try:
        message = _message_of(value)
    except BadMessage as error:
        return jsonrpc.error_bytes(error.id, error)
    try:
        return await _answer(request, message)
    except GatewayError as error:
        return _error(message, error)
    except Exception:
        log.exception("internal error", method=message.method)
        return _error(message, InternalError())


def _message_of(value: Any) -> Request | Notification:
    message = jsonrpc.message_of(value)
    if not isinstance(message, Request | Notification):
        raise BadMessage("Invalid request: responses are not accepted, the gateway asks nothing")
    return message


async def _answer(request: web.Request, message: Request | Notification) -> bytes | None:
    invocation = request.app[CONTEXT].invocation
    caller = caller_of(request)
    try:
        tool = await invocation.find(caller, message.method)
    except UnknownTool:
        raise MethodNotFound(f"Method not found: {message.method[:128]}") from None
    request[TRACE].fields["tool"] = tool.name
    outcome = await invocation.run(caller, tool, by_name(tool, message.params))
    if outcome.fault is not None:
        invocation.refuse(outcome)
        raise outcome.fault
    if isinstance(message, Notification):
        return None
    return jsonrpc.result_bytes(message.id, value_bytes(outcome.value))


def _error(message: Request | Notification, error: GatewayError) -> bytes | None:
    id: Id | None = getattr(message, "id", None)
    return None if isinstance(message, Notification) else jsonrpc.error_bytes(id, error)
