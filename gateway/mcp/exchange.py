"""What passes between the HTTP side and the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from gateway.model import Caller

JSON: Final = "application/json"

PROTOCOL_VERSION: Final = "MCP-Protocol-Version"
METHOD: Final = "Mcp-Method"
NAME: Final = "Mcp-Name"


class Headers(Protocol):
    """Request headers; names are case-insensitive."""

    def get(self, key: str, /) -> str | None: ...

    def getall(self, key: str, default: list[str], /) -> list[str]: ...

    def __contains__(self, key: object, /) -> bool: ...


@dataclass(frozen=True, slots=True)
class Inbound:
    """One POST to the MCP endpoint."""

    headers: Headers
    body: bytes
    caller: Caller


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer: JSON, or nothing where ``body`` is empty. ``method`` and ``tool`` are for the log."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = ""
    tool: str = ""
