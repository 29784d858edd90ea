"""What passes between the HTTP side and the protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from gateway.errors import GatewayError
from gateway.model import Caller

PROTOCOL_VERSION: Final = "MCP-Protocol-Version"
METHOD: Final = "Mcp-Method"
NAME: Final = "Mcp-Name"
SESSION: Final = "Mcp-Session-Id"
LAST_EVENT: Final = "Last-Event-ID"
EVENT_STREAM: Final = "text/event-stream"

Events: TypeAlias = AsyncGenerator[bytes | None, None]
"""Messages of a stream; None is a keep-alive."""


class Headers(Protocol):
    """Request headers; names are case-insensitive."""

    def get(self, key: str, /) -> str | None: ...

    def getall(self, key: str, default: list[str], /) -> list[str]: ...

    def __contains__(self, key: object, /) -> bool: ...


@dataclass(frozen=True, slots=True)
class McpRequest:
    """One request to the MCP endpoint."""

    headers: Headers
    body: bytes
    caller: Caller
    is_single: bool = True
    """False for a part of a batch, whose answer is a part of one JSON body."""

    @property
    def accepts_stream(self) -> bool:
        return self.is_single and any(EVENT_STREAM in accept for accept in self.headers.getall("Accept", []))


@dataclass(frozen=True, slots=True)
class McpReply:
    """The answer: JSON, or nothing where ``body`` is empty. ``method`` and ``tool`` are for the log; an ``error`` may
    ask for headers of its own (Retry-After, WWW-Authenticate)."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = ""
    tool: str = ""
    error: GatewayError | None = None


@dataclass(frozen=True, slots=True)
class McpStreamReply:
    """The answer as server-sent events. Whoever gets it iterates ``events``, or closes it. ``notices`` says that they
    come as long as the client listens, not until a call is over."""

    events: Events
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = ""
    tool: str = ""
    notices: bool = False
