"""Tool names: MCP's ``[A-Za-z0-9_.-]{1,128}`` (2026-07-28, tools "Tool Names"), made once and kept in a table.

Nothing is ever derived back from a name by string surgery: a tool carries the name of its method.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final

MAX_LENGTH: Final = 128
_VALID = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_INVALID_RUN = re.compile(r"[^A-Za-z0-9_.-]+")
_LLM_API = re.compile(r"[A-Za-z0-9_-]{1,64}")


def is_valid(name: str) -> bool:
    return _VALID.fullmatch(name) is not None


def suits_llm_apis(name: str) -> bool:
    """Whether the function-calling APIs of the large model providers take the name as it is."""
    return _LLM_API.fullmatch(name) is not None


def assign(methods: Iterable[str], chosen: dict[str, str]) -> dict[str, str]:
    """A unique tool name for each method, equal for equal sets of methods whatever their order.

    ``chosen`` are the operator's names by method. Next come the methods whose names are valid as they are, then the
    others in the order of their raw names; who finds a name taken gets a suffix made from its own raw name.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    ordered = sorted(set(methods), key=lambda method: (method not in chosen, not is_valid(method), method))
    for method in ordered:
        name = chosen.get(method) or (method if is_valid(method) else _sanitized(method))
        salt = method
        while name in taken:
            name, salt = _suffixed(name, salt), f"{salt}+"
        names[method] = name
        taken.add(name)
    return names


def _sanitized(method: str) -> str:
    name = _INVALID_RUN.sub("_", method).strip("_")
    if not name:
        return _suffixed("method", method)
    return name if len(name) <= MAX_LENGTH else _suffixed(name, method)


def _suffixed(name: str, method: str) -> str:
    suffix = "_" + hashlib.sha256(method.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return name[: MAX_LENGTH - len(suffix)] + suffix
