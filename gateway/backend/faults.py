"""What strangers may read of a backend's error.

A JSON-RPC error's message and short data help a model to mend its call, so they go through; but services put stack
traces, class names, file paths, their own addresses and now and then the caller's token there. Those are taken out
and the whole is capped. The code never leaves: MCP reserves the range that most services use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from gateway import jsonrpc
from gateway.jsonrpc import Fault
from gateway.text import cap, printable

MAX_BYTES: Final = 2048
_MIN_SECRET: Final = 4  # redacting shorter ones would blot out ordinary words
_STACK_KEYS: Final = re.compile(r".*(?:stack|trace).*|exception|class|file|line", re.IGNORECASE)
_STACK_LINE = re.compile(
    r"^\s*(?:Traceback \(most recent call last\)|File \".*\", line \d+|at .+[(:]\S*\d+\)?$|#\d+ \S+|\.\.\. \d+ more)"
)
_REDACTIONS: Final = (
    (re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]*"), "[token]"),
    (re.compile(r"(?i)\b(bearer|basic|token)[ :=]+[\w.~+/=-]{8,}"), r"\1 [redacted]"),
    (re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s\"'<>]+", re.IGNORECASE), "[url]"),
    (re.compile(r"\\?(?:[A-Za-z_]\w*\\+){2,}[A-Za-z_]\w*"), "[class]"),
    (re.compile(r"\b(?:[a-z_][\w$]*\.){2,}[A-Z][\w$]*(?:Exception|Error)\b"), "[class]"),
    (
        re.compile(r"(?<![\w.])(?:/[\w.@+-]+){2,}\.(?:php|py|js|mjs|ts|rb|java|go|cc?|cpp|inc|module)\b(?::\d+)*"),
        "[path]",
    ),
    (re.compile(r"(?<![\w.])/(?:var|home|usr|opt|srv|etc|root|tmp)/[\w./@+-]+"), "[path]"),
)


class Cleaner:
    """Cleans what one backend says; ``secrets`` are strings that must never come back, its host among them."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = tuple(
            sorted({secret for secret in secrets if len(secret) >= _MIN_SECRET}, key=len, reverse=True)
        )

    def describe(self, fault: Fault) -> str:
        """A sentence or two for the caller, at most :data:`MAX_BYTES` of UTF-8."""
        message = self.clean(fault.message).rstrip(".:") or "The backend reported an error"
        data = self.clean(_text_of(fault.data))
        if data and data not in message:
            message = f"{message}: {data}"
        return cap(message, MAX_BYTES)

    def clean(self, text: str) -> str:
        if not text:
            return ""
        lines = [line for line in text[: 8 * MAX_BYTES].splitlines() if not _STACK_LINE.match(line)]
        text = printable("\n".join(lines)).strip()
        for secret in self._secrets:
            text = text.replace(secret, "[redacted]")
        for pattern, replacement in _REDACTIONS:
            text = pattern.sub(replacement, text)
        return text


def _text_of(data: Any) -> str:
    if data is None or isinstance(data, bool | int | float):
        return ""
    if isinstance(data, str):
        return data
    if isinstance(data, dict) and isinstance(data.get("message"), str):
        return str(data["message"])
    kept = _without_stacks(data, 4)
    return jsonrpc.encode(kept).decode() if kept else ""


def _without_stacks(value: Any, levels: int) -> Any:
    if isinstance(value, dict):
        if not levels:
            return {}
        return {
            key: _without_stacks(child, levels - 1) for key, child in value.items() if not _STACK_KEYS.fullmatch(key)
        }
    if isinstance(value, list):
        return [_without_stacks(child, levels - 1) for child in value[:20]] if levels else []
    return value
