"""What grows with idle streams: CPU of a call beside them, and memory."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.bench import lanes, work
from lab.bench.gateways import Gateways
from tests.protocol.test_many_streams import ACKNOWLEDGED, MODERN, close, opened, ready_for

_STRETCHES = 2
_MIB = 1024 * 1024


@dataclass(frozen=True)
class Point:
    """So many idle streams: CPU of a call (µs), and memory of the gateway (MiB)."""

    streams: int
    cpu: float
    memory: float


def beside_streams(gateways: Gateways, core: int, folder: Path) -> list[Point]:
    """One point for each number of idle streams, on a gateway of their own; the load is on ``core``."""
    ready_for(max(lanes.STREAMS))
    return asyncio.run(_points(gateways, core, folder))


async def _points(gateways: Gateways, core: int, folder: Path) -> list[Point]:
    gateway = gateways.make()
    with gateway.process as process:
        lane = gateway.lane("gateway beside streams", work.MODERN_CALL)
        process.wait_until(lane.answers)
        listen = MODERN.replace(b"\r\n\r\n", f"\r\nAuthorization: Bearer {gateway.token()}\r\n\r\n".encode(), 1)
        lane.run(1, 32, core, folder)
        points = []
        streams: list[Any] = []
        for count in lanes.STREAMS:
            streams += await opened(gateway.port, count - len(streams), listen, ACKNOWLEDGED)
            memory = process.memory()
            figures = [lane.run(1, 32, core, folder) for _ in range(_STRETCHES)]
            points.append(Point(count, min(figure.cpu for figure in figures), memory / _MIB))
        close(streams)
    return points
