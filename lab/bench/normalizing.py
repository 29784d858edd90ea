"""How long it takes to make a tool of a listed method, in this process.

:func:`normalize` is the one place to wire: it takes an OpenRPC document and does all that the gateway does
between reading a listing and having a catalog (names, schemas, descriptions, compiled validators).
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from gateway.catalog.build import Builder
from gateway.listing.openrpc import parse_listing
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params
from tests.orders import openrpc

_TOOLS = 100
_MANY = 5000
_REPEATS = 5


def normalize(document: dict[str, Any]) -> int:
    """Normalize every method of the document and return how many tools came of it."""
    builder = Builder(Params(), ValidatorCache())
    return len(asyncio.run(builder.build_catalog(parse_listing(document), CatalogSettings())).tools)


def milliseconds_per_tool() -> list[float]:
    """One figure per repeat."""
    return [_seconds(_TOOLS) * 1000 / _TOOLS for _ in range(_REPEATS)]


def seconds_for_many() -> list[float]:
    """One figure per repeat, for a listing at the limit of what is taken."""
    return [_seconds(_MANY) for _ in range(_REPEATS)]


def _seconds(tools: int) -> float:
    document = openrpc(tools)
    started = time.perf_counter()
    made = normalize(document)
    took = time.perf_counter() - started
    if made != tools:
        raise ValueError(f"{made} tools came of {tools} methods")
    return took
