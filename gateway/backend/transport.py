"""How bytes reach the backend. One contract; the client above it knows JSON-RPC and nothing of connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gateway.outbound import Answer


class Transport(Protocol):
    """Exchanges over HTTP; implementations raise :class:`gateway.outbound.OutboundError` and nothing else.

    :class:`gateway.outbound.Outbound` is one, on aiohttp's ClientSession.
    """

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, timeout: float, max_bytes: int
    ) -> Answer: ...

    async def get(self, url: str, headers: Mapping[str, str], *, timeout: float, max_bytes: int) -> Answer: ...

    async def close(self) -> None: ...
