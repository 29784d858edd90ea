"""Requests and replies that the HTTP side and the protocol side exchange, and the names of MCP's headers."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import structlog
from msgspec import Struct, field
from multidict import MultiMapping, istr

from gateway import jsonrpc
from gateway.errors import BatchTooLarge, GatewayError
from gateway.jsonrpc import BadMessage
from gateway.model import Caller
from gateway.telemetry import record as records
from gateway.telemetry.record import RECORD
from gateway.units import format_size

# A look-up by an istr takes half as long: its lower case is known.
PROTOCOL_VERSION: Final[str] = istr("MCP-Protocol-Version")
METHOD: Final[str] = istr("Mcp-Method")
NAME: Final[str] = istr("Mcp-Name")
SESSION: Final[str] = istr("Mcp-Session-Id")
LAST_EVENT: Final = "Last-Event-ID"
EVENT_STREAM: Final = "text/event-stream"

Events: TypeAlias = AsyncGenerator[bytes | None, None]
"""Messages of a stream; None is a keep-alive."""


class McpRequest(Struct):
    """One request to the MCP endpoint, without HTTP types and without its body."""

    headers: MultiMapping[str]
    caller: Caller
    repeats_body: bool = True
    """False where the transport has no headers (stdio): then none repeat what the body says."""
    is_single: bool = True
    """False for a message of a batch: its answer is an element of one JSON body, so it cannot be a stream."""

    @property
    def accepts_stream(self) -> bool:
        return self.is_single and any(EVENT_STREAM in accept for accept in self.headers.getall("Accept", []))


class McpReply(Struct):
    """A JSON answer, or an answer without content where ``body`` is empty. An ``error`` may add headers (Retry-After,
    WWW-Authenticate)."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    error: GatewayError | None = None


class McpStreamReply(Struct):
    """An answer as server-sent events. The receiver must iterate ``events`` or close it. ``notices`` marks a stream of
    notifications, which lasts while the client listens and not until a call is over."""

    events: Events
    headers: Mapping[str, str] = field(default_factory=dict)
    notices: bool = False


# The responses of a batch (JSON-RPC 2.0 §6) are held until the last one is there. Therefore they share the bound of one
# response, ``backend.max_response``: a small request must not fill the memory.
MAX_BATCH: Final = 50

log = structlog.get_logger()


async def answers_to(
    items: Sequence[Any], answer: Callable[[Any], Awaitable[bytes | None]], max_response: int
) -> bytes | None:
    """Answer the messages of a batch one after the other. Return the JSON array of their responses, None without any.
    ``answer`` returns the response to one message, None for a notification, and notes an error in the record. Results
    have at most ``max_response`` bytes together: one that does not fit is replaced by an error. Raise
    :class:`BadMessage` for too many messages or none, before the first is answered."""
    if not 0 < len(items) <= MAX_BATCH:
        raise BadMessage(f"Invalid request: a batch has 1 to {MAX_BATCH} messages")
    remaining = max_response
    answers = []
    whole = RECORD.get()
    whole.method, memory = records.BATCH, whole.memory
    for item in items:
        before, part = memory.size, whole.part()
        RECORD.set(part)
        try:
            if response := await answer(item):
                if part.code:  # an error always fits
                    pass
                elif len(response) <= remaining:
                    remaining -= len(response)
                else:  # a later, smaller one may still fit
                    log.warning("an answer does not fit into its batch", bytes=len(response), left=remaining)
                    response = _too_large(part, max_response)
                answers.append(response)
                part.bytes_out = len(response)
        except asyncio.CancelledError:
            part.note_outcome(records.CANCELLED if part.surface == "stdio" else records.CLIENT_CLOSED)
            raise
        finally:
            records.end(part)
            RECORD.set(whole)
        memory.shrink(before + len(response or b""))  # the value is gone, its JSON stays
    return b"[" + b",".join(answers) + b"]" if answers else None


def _too_large(part: records.Record, max_response: int) -> bytes:
    # The call cannot be undone, so the message says that it was made.
    error = BatchTooLarge(
        "The answer does not fit into the batch, whose answers share backend.max_response "
        f"({format_size(max_response)}). The call was made and may have taken effect. "
        "Send calls with large answers one by one, without a batch"
    )
    part.note_error(error)
    return jsonrpc.error_bytes(part.rpc_id, error)
