"""``POST /jsonrpc``: the guarded way through, for clients that speak JSON-RPC 2.0 already.

Calls pass the same decisions as on other paths. The method is a tool of the caller's view, by its name or its method's.
Positional params become named ones before they are checked; hidden arguments are refused. The result is the backend's,
the id is the caller's. The calls of a batch run one after the other.

JSON-RPC 2.0 holds here without MCP's restrictions: §4 allows null and fractions as ids; §5 requires an id on each
error, null where the request's cannot be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from gateway import jsonrpc
from gateway.errors import CallLimited, GatewayError, InternalError
from gateway.http_server.response import Response
from gateway.invocation.invocation import Invocation
from gateway.jsonrpc import BadMessage, Notification, Request
from gateway.mcp.batch import BatchBudget, answers_to
from gateway.web.exchange import RPC, Exchange, error_response, rpc_error
from gateway.web.tool_route import call_value, parse_call


@dataclass(frozen=True, slots=True)
class RpcSurface:
    """Serve ``/jsonrpc``. ``max_response`` bounds the answers of one batch together, in bytes."""

    invocation: Invocation
    max_response: int

    async def post(self, exchange: Exchange) -> Response:
        try:
            value = jsonrpc.decode_any_ids(exchange.take_body())
            if not isinstance(value, list):
                return await self._single(exchange, value)
            answers = await answers_to(value, partial(self._item, exchange), self.max_response)
        except BadMessage as error:
            return error_response(exchange, error, RPC, error.id)
        return Response(status=204) if answers is None else Response(answers)

    async def _single(self, exchange: Exchange, value: Any) -> Response:
        """Answer one message. A refusal, and an error that says when to come again, have HTTP statuses of their own, so
        that clients see the challenge and the wait. All other answers have 200."""
        message = parse_call(value)
        try:
            body = await self._answer(exchange, message)
        except GatewayError as error:
            id = message.id if isinstance(message, Request) else None
            waits = isinstance(message, Request) and error.retry_after is not None
            if error.refuses or waits or isinstance(error, InternalError | CallLimited):
                return error_response(exchange, error, RPC, id)
            body = _error(message, error)
        return Response(status=204) if body is None else Response(body)

    async def _item(self, exchange: Exchange, value: Any, budget: BatchBudget) -> bytes | None:
        """Answer one message of a batch. Its errors do not affect the others; the answers share ``budget``."""
        try:
            message = parse_call(value)
        except BadMessage as error:
            return rpc_error(error, error.id)  # always answered: what is malformed is no notification (§6)
        try:
            body = await self._answer(exchange, message)
        except GatewayError as error:
            return _error(message, error)
        return None if isinstance(message, Notification) or body is None else budget.fit_response(message.id, body)

    async def _answer(self, exchange: Exchange, message: Request | Notification) -> bytes | None:
        value = await call_value(self.invocation, exchange, message, message.method)
        return None if isinstance(message, Notification) else jsonrpc.response_bytes(message.id, value)


def _error(message: Request | Notification, error: GatewayError) -> bytes | None:
    return None if isinstance(message, Notification) else rpc_error(error, message.id)
