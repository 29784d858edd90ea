"""Exchange over lanes of one connection each, for services that challenge each connection by itself.

With HTTP Digest (RFC 7616) a client answers a challenge that the server sent before. monerod keeps the challenge with
the connection: where a pool sends the answer over another one, it is refused (34 % of calls, with ten at a time). So
each lane has one connection, and its own state of Digest.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from gateway.outbound import Answer, NoConnection, Outbound

_AT_ONCE: Final = 0.001
"""Seconds that count as no wait."""


class Lanes:
    """Hold at most ``most`` lanes. ``open_lane`` makes one, which must use one connection at a time."""

    def __init__(self, open_lane: Callable[[], Outbound], most: int) -> None:
        self._open_lane = open_lane
        self._most = most
        self._lanes: list[Outbound] = []
        self._idle: list[Outbound] = []
        self._free = asyncio.Semaphore(most)

    def __repr__(self) -> str:
        return f"<Lanes {len(self._lanes)} of at most {self._most}, {len(self._idle)} idle>"

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, timeout: float, max_bytes: int
    ) -> Answer:
        """Send a request, ``timeout`` in seconds for all of it. Raises :class:`~gateway.outbound.OutboundError`."""
        async with self._lane(timeout) as (lane, remaining):
            return await lane.post(url, body, headers, timeout=remaining, max_bytes=max_bytes)

    async def get(self, url: str, headers: Mapping[str, str], *, timeout: float, max_bytes: int) -> Answer:
        """Send a request, ``timeout`` in seconds for all of it. Raises :class:`~gateway.outbound.OutboundError`."""
        async with self._lane(timeout) as (lane, remaining):
            return await lane.get(url, headers, timeout=remaining, max_bytes=max_bytes)

    async def close(self) -> None:
        for lane in self._lanes:
            await lane.close()

    @asynccontextmanager
    async def _lane(self, timeout: float) -> AsyncIterator[tuple[Outbound, float]]:
        """Yield an idle lane and the seconds that remain. The one used last comes first: its challenge is fresh."""
        begun = time.monotonic()
        try:
            async with asyncio.timeout(timeout):
                await self._free.acquire()
        except TimeoutError:
            raise NoConnection(f"no free connection within {timeout:g} s") from None
        waited = time.monotonic() - begun
        try:
            if not self._idle:
                self._idle.append(self._open_lane())
                self._lanes.append(self._idle[-1])
            lane = self._idle.pop()
            try:
                # Without a wait it is the same number each time, by which the HTTP client finds its time-out object.
                yield lane, timeout if waited < _AT_ONCE else max(_AT_ONCE, timeout - waited)
            finally:
                self._idle.append(lane)
        finally:
            self._free.release()
