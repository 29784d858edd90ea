"""Answer the MCP endpoint of one service: choose the era of each message by its ``_meta``, not by its method."""

from collections.abc import Awaitable
from typing import Any

from msgspec.structs import replace

from gateway import jsonrpc
from gateway.errors import GatewayError
from gateway.jsonrpc import BadMessage, Id
from gateway.mcp.legacy import VERSIONS as LEGACY_VERSIONS
from gateway.mcp.legacy import Legacy
from gateway.mcp.messages import McpReply, McpRequest, McpStreamReply, answers_to
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

    def answer(self, mcp_request: McpRequest, value: Any) -> Awaitable[McpReply | McpStreamReply]:
        """Return the reply to a decoded message or batch. A bad message gets an error reply; nothing is raised."""
        return self._answer_batch(mcp_request, value) if type(value) is list else self._answer_one(mcp_request, value)

    async def _answer_batch(self, mcp_request: McpRequest, batch: list[Any]) -> McpReply | McpStreamReply:
        # Where no header says the version, as on stdio, the messages do. The modern era has no batches.
        is_modern = any(names_version(item.get("params")) for item in batch if type(item) is dict)
        if is_modern or not self.legacy.serves_version(mcp_request):
            return await self._answer_one(mcp_request, batch)
        part = replace(mcp_request, is_single=False)

        async def answer_item(item: Any) -> bytes | None:
            reply = await self._answer_one(part, item)
            return None if isinstance(reply, McpStreamReply) else reply.body

        try:
            await self.legacy.check_batch(mcp_request, batch)
            answers = await answers_to(batch, answer_item, self.legacy.max_response)
        except GatewayError as error:
            return _refusal(error)
        return McpReply(202) if answers is None else McpReply(200, answers)

    async def _answer_one(self, mcp_request: McpRequest, value: Any) -> McpReply | McpStreamReply:
        try:
            message = jsonrpc.parse_message(value)
        except BadMessage as error:
            RECORD.get().note_error(error)
            return _refusal(error, error.id)
        record = RECORD.get()
        record.method = message.method
        record.rpc_id = message.id
        era: Modern | Legacy
        if names_version(message.params) or not self.legacy.serves_version(mcp_request):
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


def _refusal(error: GatewayError, id: Id | None = None) -> McpReply:
    return McpReply(error.status, jsonrpc.error_bytes(id, error), error=error)
