"""What a call brings along, and what it comes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.errors import ToolFault
from gateway.model.listed import JsonObject
from gateway.model.tools import Tool


class NoResult:
    """The value of a call that has no result, by declaration."""

    def __repr__(self) -> str:
        return "NOTHING"


NO_RESULT: Final = NoResult()


@dataclass(frozen=True, slots=True)
class CallExtras:
    """What a 2026-07-28 client sends along with a call.

    ``responses`` answer the questions of an earlier round and ``state`` is what was handed out with them;
    ``capabilities`` are the client's; ``trace`` are W3C trace context headers. A surface that cannot pass a question on
    to a person has no extras.
    """

    responses: JsonObject = field(default_factory=dict)
    state: str | None = None
    capabilities: JsonObject = field(default_factory=dict)
    trace: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InputRequest:
    """Questions to the client before a call can go on: ``inputRequests``, and the state to bring back."""

    requests: JsonObject
    state: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call came to: a value (JSON, or :data:`NO_RESULT`), a fault, or questions to the client."""

    tool: Tool
    value: Any = None
    fault: ToolFault | None = None
    input_request: InputRequest | None = None
