"""Decode the large JSON documents of a backend in steps, and find the fault in one that is broken."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from gateway import jsonrpc
from gateway.jsonrpc import Raw

_PART: Final = 64 * 1024
"""Bytes that are decoded in one step."""
_LEVELS: Final = 6
"""Levels of a document that are divided into parts."""


def decode_in_steps(raw: bytes | Raw, level: int = 0) -> Generator[None, None, Any]:
    """Decode as :func:`gateway.jsonrpc.decode` does, and yield about every 64 KiB, so that a large document does not
    block the event loop. One huge string, or a list of tiny values, is still one step."""
    view = memoryview(raw)
    opening = bytes(view[:1])
    if view.nbytes <= _PART or level == _LEVELS or opening not in (b"{", b"["):
        yield
        return jsonrpc.decode(view)
    whole: Any = {} if opening == b"{" else []
    parts = jsonrpc.members_of(view).items() if opening == b"{" else enumerate(jsonrpc.elements_of(view))
    for key, part in parts:
        value = yield from decode_in_steps(part, level + 1)
        if opening == b"{":
            whole[key] = value
        else:
            whole.append(value)
    return whole


def json_fault(raw: bytes) -> str:
    """Return what is wrong with JSON that cannot be decoded, and where."""
    try:
        raw.decode()
        jsonrpc.decode(raw)
    except UnicodeDecodeError as error:
        return f"not UTF-8 (byte {error.start})"
    except ValueError as error:
        what = str(error).removeprefix("JSON is malformed: ")
        return f"it ends too early (byte {len(raw)})" if "truncated" in what else what
    return "the fault could not be located"
