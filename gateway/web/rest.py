"""Tools over REST: list, describe, invoke, as discovery clients older than MCP's transports know them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from aiohttp import web

from gateway import jsonrpc
from gateway.auth.access import Access
from gateway.errors import InvalidArguments, InvalidRequest, MissingParameter
from gateway.model import NOTHING, Catalog, Naming, Tool
from gateway.text import printable
from gateway.web.context import CONTEXT, TRACE, caller_of
from gateway.web.reading import read_json_body
from gateway.web.replies import json_response, rest_error

TOOLS: Final = "/mcp/tools"
PATIENCE: Final = 3.5
"""Seconds that a caller waits for a first listing: older discovery clients give up after five, and an answer says when
to come back."""
OWN_SEGMENTS: Final = {"list": "GET", "describe": "GET", "invoke": "POST"}
"""Segments of our own, and their methods."""
_SUFFIX: Final = "~"  # no tool name has it


@dataclass(frozen=True, slots=True)
class RestProjector:
    """``shared`` is the catalog that callers without a token see."""

    access: Access
    shared: Catalog | None = None
    naming: Naming = Naming.MCP

    @property
    def key(self) -> str:
        return f"rest {self.naming} {self.shared.digest if self.shared else ''}"

    def project(self, tool: Tool) -> dict[str, Any]:
        """Every member that older clients require, where MCP would leave some out."""
        name = tool.named(self.naming)
        return {
            "name": name,
            "title": tool.title or name,
            "description": tool.description,
            "inputSchema": tool.input_schema,
            "outputSchema": tool.output_schema if isinstance(tool.output_schema, Mapping) else {},
            "annotations": tool.all_annotations,
            "endpoint": f"{TOOLS}/{quote(segment_of(name))}",
            "method": printable(tool.method),
            "requiresAuth": self.access.needs_token(tool, self.shared),
        }


def projector_for(request: web.Request) -> RestProjector:
    context = request.app[CONTEXT]
    return RestProjector(context.access, context.discovery.current(), caller_of(request).naming or Naming.MCP)


def segment_of(name: str) -> str:
    """The path segment of a tool; those that would meet our own get a suffix."""
    return name + _SUFFIX if name in OWN_SEGMENTS else name


def name_of(segment: str) -> str:
    return segment.removesuffix(_SUFFIX) if segment.removesuffix(_SUFFIX) in OWN_SEGMENTS else segment


async def list_tools(request: web.Request) -> web.Response:
    """``GET /mcp/tools/list?cursor=&names=`` → ``{tools, nextCursor}``, nextCursor null on the last page."""
    context = request.app[CONTEXT]
    cursor, projector = request.query.get("cursor"), projector_for(request)
    caller, size = caller_of(request), context.rest_page_size()
    page = await context.operations.list_tools(caller, cursor, projector, size, PATIENCE)
    return json_response(jsonrpc.encode({"tools": page.tools, "nextCursor": page.cursor}))


async def describe(request: web.Request) -> web.Response:
    """``GET /mcp/tools/describe?name=&names=`` → ``{tool}``."""
    context = request.app[CONTEXT]
    name = request.query.get("name")
    if not name:
        raise MissingParameter('The parameter "name" is missing')
    caller, projector = caller_of(request), projector_for(request)
    await context.operations.admit_discovery(caller)
    tool = await context.invocation.find(caller, name, PATIENCE)
    context.access.check_sight(caller, tool)
    return json_response(jsonrpc.encode({"tool": projector.project(tool)}))


async def invoke(request: web.Request) -> web.Response:
    """``POST /mcp/tools/invoke`` with ``{name, arguments}`` → ``{result}``."""
    context = request.app[CONTEXT]
    body = jsonrpc.decode_strictly(await read_json_body(request))
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be an object with name and arguments")
    name = body.get("name")
    if not isinstance(name, str) or not name:
        raise MissingParameter('"name" must be the name of a tool')
    arguments = body.get("arguments")
    if arguments in (None, []):
        arguments = {}  # PHP writes an empty map as a list
    if not isinstance(arguments, dict):
        raise InvalidArguments('"arguments" must be an object')
    request[TRACE].fields["tool"] = name[:128]
    call = await context.invocation.prepare(caller_of(request), name, arguments)
    request[TRACE].fields["tool"] = call.tool.name
    outcome = await call.execute()
    if outcome.fault is not None:
        return rest_error(request, outcome.fault)
    return json_response(jsonrpc.encode({"result": json_value(outcome.value)}))


def json_value(value: Any) -> Any:
    """Return a call's value as JSON has it: no result is null."""
    return None if value is NOTHING else value
