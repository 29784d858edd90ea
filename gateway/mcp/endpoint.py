"""One endpoint for both eras: the body's ``_meta`` tells them apart, not the method's name."""

from __future__ import annotations

from typing import Any

import structlog

from gateway import jsonrpc
from gateway.errors import GatewayError, InternalError
from gateway.jsonrpc import BadMessage, Id, Message
from gateway.mcp import legacy, modern
from gateway.mcp.exchange import PROTOCOL_VERSION, Inbound, Reply
from gateway.mcp.operations import Operations

log = structlog.get_logger()


class Endpoint:
    def __init__(self, operations: Operations) -> None:
        self.modern = modern.Modern(operations)
        self.legacy = legacy.Legacy(operations)

    async def answer(self, inbound: Inbound) -> Reply:
        """The reply to one POST; never raises for what a client sent."""
        try:
            value = jsonrpc.decode_strictly(inbound.body)
            if isinstance(value, list) and self._is_legacy(inbound):
                return await self.legacy.answer_batch(inbound, value, self._one)
        except GatewayError as error:
            return _reply(400, jsonrpc.error_bytes(None, error), error)
        return await self._one(inbound, value)

    def _is_legacy(self, inbound: Inbound) -> bool:
        return inbound.headers.get(PROTOCOL_VERSION) in (None, *legacy.VERSIONS)

    async def _one(self, inbound: Inbound, value: Any) -> Reply:
        try:
            message = jsonrpc.message_of(value)
        except BadMessage as error:
            return _reply(error.status, jsonrpc.error_bytes(error.id, error), error)
        era = self._era(inbound, message)
        id: Id | None = getattr(message, "id", None)
        method: str = getattr(message, "method", "")
        try:
            return await era.answer(inbound, message)
        except GatewayError as error:
            return _reply(*era.refusal(error, id), error, method)
        except Exception:
            log.exception("internal error", method=method)
            failure = InternalError()
            return _reply(*era.refusal(failure, id), failure, method)

    def _era(self, inbound: Inbound, message: Message) -> modern.Modern | legacy.Legacy:
        if self.modern.claims(message, inbound.headers, legacy.VERSIONS):
            return self.modern
        return self.legacy


def _reply(status: int, body: bytes, error: GatewayError, method: str = "") -> Reply:
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    return Reply(status, body, headers, method)
