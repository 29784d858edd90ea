"""What one path keeps while reloads replace the service behind it."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.discovery.subscriptions import Subscriptions
from gateway.limits import StreamLimit
from gateway.mcp.running import RunningCalls


@dataclass(frozen=True)
class Mount:
    """Hold the streams that clients have open, how many each client has, and the calls that they may cancel by id."""

    subscriptions: Subscriptions = field(default_factory=Subscriptions)
    streams: StreamLimit = field(default_factory=StreamLimit)
    calls: RunningCalls = field(default_factory=RunningCalls)

    async def close(self) -> None:
        """End the streams, and the calls whose clients are gone."""
        self.subscriptions.close()
        await self.calls.close()
