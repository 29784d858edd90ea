"""Keep what stays while reloads replace a service: what belongs to its path, and what it learned of its backend."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from gateway.backend.admission import BackendGate
from gateway.backend.params import ParamStructures
from gateway.discovery.catalogs import BrokenOutputSchemas
from gateway.discovery.subscriptions import Subscriptions
from gateway.discovery.tool_search import ToolSearch
from gateway.http_server.held_bytes import HeldBytes
from gateway.limits import ConcurrencyLimit, StreamLimit
from gateway.mcp.elicitation import PendingElicitations
from gateway.mcp.running import RunningCalls
from gateway.schema.validation import ValidatorCache

_MAX_HELD: Final = 2**28
"""Bytes, where no server says how many."""


@dataclass(frozen=True)
class Mount:
    """Hold the streams that clients have open, how many streams and calls each client has, and the calls that they may
    cancel by id, and the questions to their users. ``held`` counts for the whole process."""

    subscriptions: Subscriptions = field(default_factory=Subscriptions)
    streams: StreamLimit = field(default_factory=StreamLimit)
    concurrency: ConcurrencyLimit = field(default_factory=ConcurrencyLimit)
    calls: RunningCalls = field(default_factory=RunningCalls)
    elicitations: PendingElicitations = field(default_factory=PendingElicitations)
    held: HeldBytes = field(default_factory=lambda: HeldBytes(_MAX_HELD))

    async def close(self) -> None:
        """End the streams, and the calls whose clients are gone."""
        self.subscriptions.close()
        await self.calls.close()


@dataclass(frozen=True)
class Learned:
    """Hold what was learned of one backend, and what was made of its schemas. Its successive services share it."""

    param_structures: ParamStructures
    gate: BackendGate
    broken_output_schemas: BrokenOutputSchemas = field(default_factory=BrokenOutputSchemas)
    validators: ValidatorCache = field(default_factory=ValidatorCache)
    search: ToolSearch = field(default_factory=ToolSearch)
