"""Tools over REST: list, describe, invoke. Clients that are older than MCP's HTTP transports use it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from gateway import jsonrpc
from gateway.auth.access import Access
from gateway.errors import InvalidArguments, InvalidRequest, MissingParameter
from gateway.http_server.response import Response
from gateway.mcp.content import mended_meta
from gateway.mcp.operations import META_MISSING, Operations
from gateway.model import NO_RESULT, Caller, Catalog, NameStyle, Tool
from gateway.telemetry.record import CALL
from gateway.text import printable
from gateway.web.exchange import Exchange

TOOLS: Final = "/mcp/tools"
PATIENCE: Final = 3.5
"""Seconds that a caller waits for a first listing. Older discovery clients give up after five, and must get an answer
with Retry-After before."""
MAX_PAGE: Final = 50
"""Tools on one page of REST. Its readers are often models, which read the whole answer but ask for no second page."""
OWN_SEGMENTS: Final = ("list", "describe", "invoke")
"""Path segments below :data:`TOOLS` that are routes, not tools."""
_SUFFIX: Final = "~"  # not a character of tool names


@dataclass(frozen=True, slots=True)
class RestProjector:
    """Project tools to REST. ``shared`` is the catalog of callers without a token; ``mount`` the service's path."""

    access: Access
    shared: Catalog | None = None
    name_style: NameStyle = NameStyle.MCP
    mount: str = ""

    @property
    def key(self) -> str:
        return f"rest {self.mount} {self.name_style} {self.shared.digest if self.shared else ''}"

    def project(self, tool: Tool) -> dict[str, Any]:
        """Return a tool with every member that older clients require, also those that MCP would leave out."""
        name = tool.name_for(self.name_style)
        input_schema, output_schema = tool.schemas_for(self.name_style)
        return {
            "name": name,
            "title": tool.title or name,
            "description": tool.description,
            "inputSchema": input_schema,
            "outputSchema": output_schema if isinstance(output_schema, Mapping) else {},
            "annotations": tool.all_annotations,
            "endpoint": f"{self.mount}{TOOLS}/{quote(segment_of(name))}",
            "method": printable(tool.method),
            "requiresAuth": self.access.needs_token(tool, self.shared),
        }


def segment_of(name: str) -> str:
    """Return the path segment of a tool, with a suffix where it would be one of :data:`OWN_SEGMENTS`."""
    return name + _SUFFIX if name in OWN_SEGMENTS else name


def name_of(segment: str) -> str:
    """Return the name of the tool whose path segment this is: the reverse of :func:`segment_of`."""
    return segment.removesuffix(_SUFFIX) if segment.removesuffix(_SUFFIX) in OWN_SEGMENTS else segment


@dataclass(frozen=True, slots=True)
class RestSurface:
    """Serve the REST routes of one service; ``mount`` is its path."""

    operations: Operations
    mount: str

    async def list_tools(self, exchange: Exchange) -> Response:
        """Answer ``GET /mcp/tools/list?cursor=&names=``: ``{tools, nextCursor}``, with null on the last page, and
        the services of a group that are missing."""
        exchange.record.method = "tools/list"
        caller, cursor = exchange.caller, exchange.request.query.get("cursor")
        size = min(self.operations.page_size, MAX_PAGE)
        page = await self.operations.list_tools(caller, cursor, self._projector(caller), size, PATIENCE)
        missing = {META_MISSING: page.missing} if page.missing else {}
        return Response(jsonrpc.encode({"tools": page.tools, "nextCursor": page.cursor, **missing}))

    async def describe(self, exchange: Exchange) -> Response:
        """Answer ``GET /mcp/tools/describe?name=&names=``: ``{tool}``."""
        exchange.record.method = "tools/describe"
        caller, name = exchange.caller, exchange.request.query.get("name")
        if not name:
            raise MissingParameter('The parameter "name" is missing')
        await self.operations.admit_discovery(caller)
        tool = await self.operations.invocation.find_tool(caller, name, PATIENCE)
        self.operations.invocation.access.check_describe(caller, tool)
        return Response(jsonrpc.encode({"tool": self._projector(caller).project(tool)}))

    async def invoke(self, exchange: Exchange) -> Response:
        """Answer ``POST /mcp/tools/invoke`` with ``{name, arguments}``: ``{result}``, with ``_meta`` if mended."""
        exchange.record.method = CALL
        body = jsonrpc.decode_strictly(exchange.take_body())
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
        call = await self.operations.invocation.prepare(exchange.caller, name, arguments)
        exchange.headers.update(call.headers)
        outcome = await call.execute()
        if outcome.fault is not None:
            raise outcome.fault
        meta = mended_meta()
        return Response(jsonrpc.encode({"result": json_value(outcome.value), **({"_meta": meta} if meta else {})}))

    def _projector(self, caller: Caller) -> RestProjector:
        invocation, style = self.operations.invocation, caller.name_style or NameStyle.MCP
        return RestProjector(invocation.access, invocation.discovery.current(), style, self.mount)


def json_value(value: Any) -> Any:
    """Return a call's value as JSON: null where the method returns nothing."""
    return None if value is NO_RESULT else value
