"""One endpoint for both eras: the body's ``_meta`` tells them apart, not the method's name."""

from __future__ import annotations

from typing import Any

from gateway import jsonrpc
from gateway.errors import GatewayError
from gateway.invocation.invocation import Invocation
from gateway.jsonrpc import BadMessage, Id
from gateway.mcp import legacy, modern
from gateway.mcp.messages import Inbound, Reply, StreamReply
from gateway.mcp.operations import Operations
from gateway.mcp.running import RunningCalls
from gateway.mcp.sessions import Sessions
from gateway.telemetry.internal_errors import to_gateway_error
from gateway.uses import Uses


class Endpoint:
    """``running`` is the mount's, which closes it: calls may go on when another endpoint has taken this one's place."""

    def __init__(
        self, operations: Operations, invocation: Invocation, sessions: Sessions, running: RunningCalls, uses: Uses
    ) -> None:
        self.modern = modern.Modern(operations, invocation)
        self.legacy = legacy.Legacy(operations, invocation, sessions, running, uses)

    async def answer(self, inbound: Inbound) -> Reply | StreamReply:
        """The reply to one POST; never raises for what a client sent."""
        try:
            value = jsonrpc.decode_strictly(inbound.body)
            if isinstance(value, list) and self.legacy.serves(inbound):
                return await self.legacy.answer_batch(inbound, value, self._one)
        except GatewayError as error:
            return _reply(error.status, jsonrpc.error_bytes(None, error), error)
        return await self._one(inbound, value)

    async def listen(self, inbound: Inbound) -> StreamReply:
        """The stream that a GET opens. Raises :class:`GatewayError`."""
        return await self.legacy.listen(inbound)

    async def end(self, inbound: Inbound) -> Reply:
        """What a DELETE comes to. Raises :class:`GatewayError`."""
        return await self.legacy.end(inbound)

    async def _one(self, inbound: Inbound, value: Any) -> Reply | StreamReply:
        try:
            message = jsonrpc.message_of(value)
        except BadMessage as error:
            return _reply(error.status, jsonrpc.error_bytes(error.id, error), error)
        era: modern.Modern | legacy.Legacy = self.modern
        if not self.modern.claims(message, inbound.headers, legacy.VERSIONS):
            era = self.legacy
        id: Id | None = getattr(message, "id", None)
        method: str = getattr(message, "method", "")
        try:
            return await era.answer(inbound, message)
        except Exception as error:  # noqa: BLE001, the client gets an answer whatever it is
            failure = to_gateway_error(error, method=method)
            return _reply(*era.refusal(failure, id), failure, method)


def _reply(status: int, body: bytes, error: GatewayError, method: str = "") -> Reply:
    return Reply(status, body, method=method, error=error)
