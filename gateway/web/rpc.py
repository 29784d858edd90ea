"""``POST /jsonrpc``, for clients that speak JSON-RPC 2.0 already. Calls pass the same decisions as on other paths.

JSON-RPC 2.0 holds here without MCP's restrictions: §4 allows null and fractions as ids; §5 requires an id on each
error, null where the request's cannot be read.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from gateway import jsonrpc
from gateway.backend.transport import UNKNOWN
from gateway.errors import (
    BadBackendAnswer,
    CallLimited,
    Forbidden,
    GatewayError,
    InternalError,
    InvalidArguments,
    MethodNotAllowed,
    MethodNotFound,
    MissingParameter,
    UnknownTool,
)
from gateway.http_server.response import Response
from gateway.invocation.invocation import Invocation
from gateway.jsonrpc import BadMessage, ClientResponse, Notification, Request
from gateway.mcp.messages import answers_to
from gateway.mcp.operations import Operations
from gateway.model import Tool
from gateway.telemetry.logs import to_gateway_error
from gateway.telemetry.record import CALL, RECORD
from gateway.web.exchange import RPC, Exchange, error_response, rpc_error
from gateway.web.rest import json_value

_OWN_SITES: Final = frozenset(("same-origin", "none"))
"""Values of Sec-Fetch-Site (W3C Fetch Metadata) of a page of the gateway, and of what a person typed. A neighbor's page
(same-site) is a stranger's."""


def parse_call(value: Any) -> Request | Notification:
    """Return decoded JSON as a call. Raise :class:`BadMessage` where it is none."""
    message = jsonrpc.parse_message(value)
    if isinstance(message, ClientResponse):
        raise BadMessage("Invalid request: responses are not accepted, since the gateway sends no requests")
    value.pop("params", None)  # the message alone has them, until they are arguments
    return message


async def call_value(invocation: Invocation, exchange: Exchange, message: Request | Notification, name: str) -> Any:
    """Call the tool ``name`` with a message's params, and return its value. Raise :class:`GatewayError` for every
    failure, also an unexpected one, so that the caller can answer with the request's ``id``."""

    def arguments(tool: Tool) -> dict[str, Any]:
        if message.method not in (name, tool.name, *tool.names.values(), tool.method):
            raise BadMessage(f'Invalid request: "method" must be {tool.name}, as the path says')
        return arguments_by_name(tool, message.params)

    record = RECORD.get()
    record.method, record.rpc_id = CALL, message.id
    try:
        call = await invocation.prepare(exchange.caller, name, arguments, as_sent=True)
        message.params = None
        if record is exchange.record:  # what is left after one item of a batch says nothing of the others
            exchange.headers.update(call.headers)
        outcome = await call.execute()
        if record.mended is not None:
            raise BadBackendAnswer(f"The backend's answer is no sound JSON: {record.mended}; {UNKNOWN}")
        if outcome.fault is None:
            return json_value(outcome.value)
        raise outcome.fault
    except UnknownTool:
        raise MethodNotFound(f"Method not found: {message.method[:128]}") from None
    except GatewayError:
        raise
    except Exception as error:  # noqa: BLE001, the client gets an answer to every failure
        raise to_gateway_error(error, method=message.method) from None


def arguments_by_name(tool: Tool, params: dict[str, Any] | list[Any] | None) -> dict[str, Any]:
    """Return ``params`` as arguments: positions and the method's own names become the published names. Raise
    :class:`InvalidArguments` for too many positions."""
    if params is None:
        return {}
    if isinstance(params, dict):
        return tool.binding.publish_params(params) if tool.binding.own_names else params
    if tool.binding.spread_argument is not None:
        return {tool.binding.spread_argument: params}
    names = tool.binding.published_order
    if len(params) > len(names):
        raise InvalidArguments(f"Invalid arguments: {len(params)} given, at most {len(names)} are taken")
    return dict(zip(names, params, strict=False))


@dataclass(frozen=True, slots=True)
class RpcSurface:
    """Serve ``/mcp/tools/{name}`` and ``/jsonrpc``.

    The body for a tool must name the same tool or its backend method: a proxy in front may allow by path, and what it
    allowed must be what runs. Its errors have their own HTTP status. On ``/jsonrpc`` only a refusal, and an error that
    says when to come again, have one, so that clients see the challenge and the wait. All other answers have 200.
    """

    operations: Operations

    async def get_tool(self, exchange: Exchange) -> Response:
        """Answer ``GET ?query=`` with a JSON-RPC request as its value, for tools that are marked read-only."""
        sites = exchange.request.headers.getall("Sec-Fetch-Site", ())
        is_allowed = "Access-Control-Allow-Origin" in exchange.headers  # the Origin was looked up before
        if not (is_allowed or _OWN_SITES.issuperset(sites)):
            raise Forbidden("Pages of other origins must not call tools; server.allowed_origins names those that may")
        # The answer says whether such a tool exists and is read-only, as a listing would: so it takes the same rights.
        await self.operations.admit_discovery(exchange.caller)
        tool = await self.operations.invocation.find_tool(exchange.caller, exchange.tool)
        if tool.annotations.get("readOnlyHint") is not True:
            raise MethodNotAllowed("Only a tool that is marked read-only can be called with GET", allow="POST")
        query = exchange.request.query.get("query")
        if query is None:
            raise MissingParameter('The parameter "query" is missing')
        exchange.body = query.encode("utf-8", "surrogateescape")
        return await self.post_tool(exchange)

    async def post_tool(self, exchange: Exchange) -> Response:
        """Return the response to one message. A notification is called too and gets 204, or an error where the request
        itself is refused."""
        try:
            message = parse_call(jsonrpc.decode_any_ids(exchange.take_body()))
        except GatewayError as error:
            return error_response(exchange, error, RPC, error.id if isinstance(error, BadMessage) else None)
        try:
            body = await self._answer(exchange, message, exchange.tool)
        except GatewayError as error:
            if message.id is not None or error.refuses or isinstance(error, BadMessage | CallLimited):
                return error_response(exchange, error, RPC, message.id)
            exchange.record.note_error(error)
            body = None
        return Response(status=204) if body is None else Response(body)

    async def post(self, exchange: Exchange) -> Response:
        try:
            value = jsonrpc.decode_any_ids(exchange.take_body())
            if isinstance(value, list):
                body = await answers_to(value, partial(self._item, exchange), self.operations.max_response)
                return Response(status=204) if body is None else Response(body)
            message = parse_call(value)
        except BadMessage as error:
            return error_response(exchange, error, RPC, error.id)
        try:
            body = await self._answer(exchange, message, message.method)
        except GatewayError as error:
            waits = message.id is not None and error.retry_after is not None
            if error.refuses or waits or isinstance(error, InternalError | CallLimited):
                return error_response(exchange, error, RPC, message.id)
            exchange.record.note_error(error)
            body = _error(message, error)
        return Response(status=204) if body is None else Response(body)

    async def _item(self, exchange: Exchange, value: Any) -> bytes | None:
        """Answer one message of a batch. Its errors do not affect the others."""
        try:
            message = parse_call(value)
        except BadMessage as error:
            RECORD.get().note_error(error)
            return rpc_error(error, error.id)  # always answered: what is malformed is no notification (§6)
        try:
            return await self._answer(exchange, message, message.method)
        except GatewayError as error:
            RECORD.get().note_error(error)
            return _error(message, error)

    async def _answer(self, exchange: Exchange, message: Request | Notification, name: str) -> bytes | None:
        """Return the response to a call of the tool ``name``, None to a notification. Raise as :func:`call_value`."""
        value = await call_value(self.operations.invocation, exchange, message, name)
        return None if message.id is None else jsonrpc.response_bytes(message.id, value)


def _error(message: Request | Notification, error: GatewayError) -> bytes | None:
    return None if message.id is None else rpc_error(error, message.id)
