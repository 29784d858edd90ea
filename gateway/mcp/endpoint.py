"""Answer the MCP endpoint of one service: choose the era of each message by its ``_meta``, not by its method."""

from collections.abc import Awaitable
from typing import Any

from gateway import jsonrpc
from gateway.errors import GatewayError
from gateway.jsonrpc import BadMessage, Id
from gateway.mcp.legacy import VERSIONS as LEGACY_VERSIONS
from gateway.mcp.legacy import Legacy
from gateway.mcp.messages import McpReply, McpRequest, McpStreamReply
from gateway.mcp.modern import VERSIONS as MODERN_VERSIONS
from gateway.mcp.modern import Modern, names_version
from gateway.telemetry.logs import to_gateway_error
from gateway.telemetry.record import RECORD


class Endpoint:
    """Answer the MCP messages of one service in both eras."""

    def __init__(self, modern: Modern, legacy: Legacy) -> None:
        self.modern = modern
        self.legacy = legacy

    def __repr__(self) -> str:
        return f"<Endpoint for {', '.join((*MODERN_VERSIONS, *LEGACY_VERSIONS))}: {self.legacy.running}>"

    def answer_post(self, mcp_request: McpRequest) -> Awaitable[McpReply | McpStreamReply]:
        """Return the reply to one POST. A bad message gets an error reply; nothing is raised for it."""
        body, mcp_request.body = mcp_request.body, b""  # once decoded, nobody needs it
        try:
            value = jsonrpc.decode_strictly(body)
        except GatewayError as error:
            return _refuse(error)
        return self.answer(mcp_request, value)

    def answer(self, mcp_request: McpRequest, value: Any) -> Awaitable[McpReply | McpStreamReply]:
        """Return the reply to a decoded message or batch; the body of the request is not read."""
        return self._answer_batch(mcp_request, value) if type(value) is list else self._answer_one(mcp_request, value)

    async def _answer_batch(self, mcp_request: McpRequest, batch: list[Any]) -> McpReply | McpStreamReply:
        try:
            # Where no header says the version, as on stdio, the messages do. The modern era has no batches.
            is_modern = any(names_version(item.get("params")) for item in batch if type(item) is dict)
            if self.legacy.serves_version(mcp_request) and not is_modern:
                return await self.legacy.answer_batch(mcp_request, batch, self._answer_one)
        except GatewayError as error:
            return await _refuse(error)
        return await self._answer_one(mcp_request, batch)

    async def _answer_one(self, mcp_request: McpRequest, value: Any) -> McpReply | McpStreamReply:
        try:
            message = jsonrpc.parse_message(value)
        except BadMessage as error:
            RECORD.get().note_error(error)
            return await _refuse(error, error.id)
        record = RECORD.get()
        record.method = message.method
        record.rpc_id = message.id
        era: Modern | Legacy
        if self.modern.claims_message(message, mcp_request.headers, LEGACY_VERSIONS):
            era, record.era = self.modern, "modern"
        else:
            era, record.era = self.legacy, "legacy"
        try:
            return await era.answer_message(mcp_request, message)
        except Exception as error:  # noqa: BLE001, the client gets an answer to every failure
            failure = to_gateway_error(error, method=message.method)
            record.note_error(failure)
            status, body = era.error_reply(failure, message.id)
            return McpReply(status, body, error=failure)


async def _refuse(error: GatewayError, id: Id | None = None) -> McpReply:
    return McpReply(error.status, jsonrpc.error_bytes(id, error), error=error)
