"""Measure what models are shown of a real service: name, description and input schema of each tool, as JSON.

*Before* is the schema that is checked and pinned, *after* the one that is published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gateway import jsonrpc
from gateway.cli.contact import contact
from gateway.config.source import load_settings
from gateway.mcp.modern import PROJECTOR
from gateway.model import Caller, Catalog, Tool
from gateway.model.schema_keywords import without_booleans
from gateway.service.service import Service
from lab.reach.rows import Row
from tests.front import ground

_SEEN = ("name", "description", "inputSchema")


@dataclass(frozen=True)
class Sizes:
    """Hold how many tools a service has, and the bytes of what models are shown of them."""

    service: str
    tools: int
    before: int
    after: int

    @property
    def saved(self) -> float:
        """Return how many per cent less is shown."""
        return 100 * (1 - self.after / self.before) if self.before else 0.0

    def __str__(self) -> str:
        tokens = f"{self.before / 4:>8,.0f} tokens before, {self.after / 4:>8,.0f} after"
        return f"{self.service:28} {self.tools:>5} tools, {tokens}: {self.saved:.1f} % saved"


def sizes_of(service: str, catalog: Catalog) -> Sizes:
    before = sum(_size(tool, without_booleans(tool.input_schema)) for tool in catalog.tools)
    after = sum(_size(tool) for tool in catalog.tools)
    return Sizes(service, len(catalog.tools), before, after)


def _size(tool: Tool, schema: Any = None) -> int:
    shown = PROJECTOR.project(tool)
    if schema is not None:
        shown["inputSchema"] = schema
    return len(jsonrpc.encode({member: shown[member] for member in _SEEN}))


async def measured_sizes(row: Row) -> Sizes:
    """Start the service, read its listing, and stop it. Raise ServiceMissing, ServiceFailed."""
    with row.start() as service:
        more = () if row.hint is None else row.hint.settings
        more += () if row.file is None else (f"backend.listing={{dialect: static, file: {row.file}}}",)
        (settings,) = load_settings(None, ground(service.url, *row.credentials, *more), environ={}).by_mount.values()

        async def sizes(_: Service, __: Caller, catalog: Catalog) -> Sizes:
            return sizes_of(row.service, catalog)

        found: Sizes = await contact(settings, sizes)
        return found
