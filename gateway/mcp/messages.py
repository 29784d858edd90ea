"""Requests and replies that the HTTP side and the protocol side exchange, and the names of MCP's headers."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import structlog
from msgspec import Struct, field
from multidict import istr

from gateway import jsonrpc
from gateway.errors import BatchTooLarge, GatewayError
from gateway.jsonrpc import BadMessage, Id
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


class Headers(Protocol):
    """Request headers; names are case-insensitive."""

    def get(self, key: str, /) -> str | None: ...

    def getall(self, key: str, default: list[str], /) -> list[str]: ...

    def __contains__(self, key: object, /) -> bool: ...


class McpRequest(Struct):
    """One request to the MCP endpoint, without HTTP types."""

    headers: Headers
    body: bytes
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


class BatchBudget:
    """Count the bytes that the results of one batch may have together."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._remaining = max_bytes

    def fit_response(self, id: Id, response: bytes) -> bytes:
        """Return ``response``, or an error to the request ``id`` where it does not fit. A later, smaller response may
        still fit."""
        if len(response) <= self._remaining:
            self._remaining -= len(response)
            return response
        log.warning("an answer does not fit into its batch", bytes=len(response), left=self._remaining)
        # The call cannot be undone, so the message says that it was made.
        error = BatchTooLarge(
            "The answer does not fit into the batch, whose answers share backend.max_response "
            f"({format_size(self._max_bytes)}). The call was made and may have taken effect. "
            "Send calls with large answers one by one, without a batch"
        )
        RECORD.get().note_error(error)
        return jsonrpc.error_bytes(id, error)


async def answers_to(
    items: Sequence[Any], answer: Callable[[Any, BatchBudget], Awaitable[bytes | None]], max_response: int
) -> bytes | None:
    """Answer the messages of a batch one after the other. Return the JSON array of their responses, None without any.
    ``answer`` returns the response to one message, None for a notification; it passes results through the budget. Raise
    :class:`BadMessage` for too many messages or none, before the first is answered."""
    if not 0 < len(items) <= MAX_BATCH:
        raise BadMessage(f"Invalid request: a batch has 1 to {MAX_BATCH} messages")
    budget = BatchBudget(max_response)
    answers = []
    whole = RECORD.get()
    whole.method, memory = records.BATCH, whole.memory
    for item in items:
        before, part = memory.size, whole.part()
        RECORD.set(part)
        try:
            if response := await answer(item, budget):
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
