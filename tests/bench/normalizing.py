"""How long it takes to make a tool of a listed method, in this process.

:func:`normalize` is the one place to wire: it takes an OpenRPC document and does all that the gateway does
between reading a listing and having a catalog (names, schemas, descriptions, compiled validators).
"""

from __future__ import annotations

import time
from typing import Any

from tests.bench.work import openrpc

_TOOLS = 100
_REPEATS = 5


def normalize(document: dict[str, Any]) -> int:
    """Normalize every method of the document and return how many tools came of it."""
    raise NotImplementedError


def milliseconds_per_tool() -> list[float] | None:
    """One figure per repeat, or None while :func:`normalize` is not wired."""
    figures = []
    for _ in range(_REPEATS):
        document = openrpc(_TOOLS)
        started = time.perf_counter()
        try:
            made = normalize(document)
        except NotImplementedError:
            return None
        figures.append((time.perf_counter() - started) * 1000 / _TOOLS)
        if made != _TOOLS:
            raise ValueError(f"{made} tools came of {_TOOLS} methods")
    return figures
