"""Requests and replies that the HTTP side and the protocol side exchange, and the names of MCP's headers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Final, Protocol, TypeAlias

from msgspec import Struct, field
from multidict import istr

from gateway.errors import GatewayError
from gateway.model import Caller

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
