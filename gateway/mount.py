"""Keep what stays while reloads replace a service: what belongs to its path, and what it learned of its backend."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.backend.admission import Traffic
from gateway.backend.params import ParamStructures
from gateway.discovery.broken_output_schemas import BrokenOutputSchemas
from gateway.discovery.subscriptions import Subscriptions
from gateway.limits import ConcurrencyLimit, StreamLimit
from gateway.mcp.running import RunningCalls
from gateway.schema.validation import ValidatorCache
from gateway.search.tools import ToolSearch


@dataclass(frozen=True)
class Mount:
    """Hold the streams that clients have open, how many streams and calls each client has, and the calls that they may
    cancel by id."""

    subscriptions: Subscriptions = field(default_factory=Subscriptions)
    streams: StreamLimit = field(default_factory=StreamLimit)
    concurrency: ConcurrencyLimit = field(default_factory=ConcurrencyLimit)
    calls: RunningCalls = field(default_factory=RunningCalls)

    async def close(self) -> None:
        """End the streams, and the calls whose clients are gone."""
        self.subscriptions.close()
        await self.calls.close()


@dataclass(frozen=True)
class Knowledge:
    """Hold what was learned of one backend, and what was made of its schemas. Its successive services share it."""

    param_structures: ParamStructures
    traffic: Traffic
    broken_output_schemas: BrokenOutputSchemas = field(default_factory=BrokenOutputSchemas)
    validators: ValidatorCache = field(default_factory=ValidatorCache)
    search: ToolSearch = field(default_factory=ToolSearch)
