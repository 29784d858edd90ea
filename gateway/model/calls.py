"""Define what a client sends along with a call, and the outcome of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from msgspec import Struct, field

from gateway.errors import ToolFault
from gateway.model.listed import JsonObject
from gateway.model.tools import Tool


class NoResult:
    """Mark a call whose method declares no result. :data:`NO_RESULT` is the only one."""

    def __repr__(self) -> str:
        return "NO_RESULT"


NO_RESULT: Final = NoResult()


class CallExtras(Struct):
    """Hold what a 2026-07-28 client sends along with a call.

    ``responses`` answer an earlier :class:`InputRequest`; ``state`` is the state that came with it. ``capabilities``
    are the client's. A surface that cannot ask a person gives no extras.
    With ``optional`` a client that lacks a capability is served as on such a surface, instead of refused.
    """

    responses: JsonObject = field(default_factory=dict)
    state: str | None = None
    capabilities: JsonObject = field(default_factory=dict)
    optional: bool = False


@dataclass(frozen=True, slots=True)
class InputRequest:
    """Hold questions to the client before a call can continue (``inputRequests``), and the state to send back."""

    requests: JsonObject
    state: str | None = None


class Outcome(Struct):
    """Hold the outcome of a call: a value (JSON, or :data:`NO_RESULT`), a fault, or questions to the client."""

    tool: Tool
    value: Any = None
    fault: ToolFault | None = None
    input_request: InputRequest | None = None
