"""``/mcp/tools/{name}``: one tool, spoken to in JSON-RPC 2.0.

The body names the tool or its backend method; one that names another is refused, so that what a proxy in front allows
by path is what runs.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from gateway import jsonrpc
from gateway.errors import Forbidden, GatewayError, InvalidArguments, MethodNotAllowed, MissingParameter
from gateway.jsonrpc import BadMessage, Request
from gateway.model import Tool
from gateway.web.context import CONTEXT, TRACE, caller_of
from gateway.web.reading import read_json_body
from gateway.web.replies import json_response, rpc_error
from gateway.web.rest import OWN_SEGMENTS, name_of, value_bytes


async def post(request: web.Request) -> web.Response:
    return await _call(request, await read_json_body(request))


async def get(request: web.Request) -> web.Response:
    """``GET ?query=`` with the JSON-RPC request as its value, for tools that are marked read-only."""
    if request.headers.get("Sec-Fetch-Site") == "cross-site":
        raise Forbidden("A foreign page may not call")
    # Whether there is such a tool, and what kind, is what a listing would tell.
    await request.app[CONTEXT].operations.admit_discovery(caller_of(request))
    tool = await _tool(request)
    if tool.annotations.get("readOnlyHint") is not True:
        raise MethodNotAllowed("Only a tool that is marked read-only can be called with GET", allow="POST")
    query = request.query.get("query")
    if query is None:
        raise MissingParameter('The parameter "query" is missing')
    return await _call(request, query.encode("utf-8", "surrogateescape"))


async def _tool(request: web.Request) -> Tool:
    segment = request.match_info["name"]
    if segment in OWN_SEGMENTS:
        raise MethodNotAllowed("Method not allowed", allow=OWN_SEGMENTS[segment])
    invocation = request.app[CONTEXT].invocation
    return await invocation.find(caller_of(request), name_of(segment))


async def _call(request: web.Request, body: bytes) -> web.Response:
    id: jsonrpc.Id | None = None
    try:
        message = jsonrpc.message_of(jsonrpc.decode_strictly(body))
        if not isinstance(message, Request):
            raise BadMessage('Invalid request: one JSON-RPC request with an "id" is expected')
        id = message.id
        tool = await _tool(request)
        request[TRACE].fields["tool"] = tool.name
        if message.method not in (tool.name, *tool.names.values(), tool.method):
            raise BadMessage(f'Invalid request: "method" must be {tool.name}, as the path says', id)
        context = request.app[CONTEXT]
        outcome = await context.invocation.run(caller_of(request), tool, by_name(tool, message.params))
        if outcome.fault is not None:
            context.invocation.refuse(outcome)
            raise outcome.fault
    except GatewayError as error:
        return rpc_error(request, error, getattr(error, "id", id) or id)
    return json_response(jsonrpc.result_bytes(id, value_bytes(outcome.value)))


def by_name(tool: Tool, params: dict[str, Any] | list[Any] | None) -> dict[str, Any]:
    """``params`` as arguments: positions, and the method's own names, become the published ones.

    Raises :class:`InvalidArguments`.
    """
    if params is None:
        return {}
    if isinstance(params, dict):
        return tool.binding.published(params) if tool.binding.renamed else params
    if tool.binding.spread is not None:
        return {tool.binding.spread: params}
    names = tool.binding.open
    if len(params) > len(names):
        raise InvalidArguments(f"Invalid arguments: {len(params)} given, at most {len(names)} are taken")
    return dict(zip(names, params, strict=False))
