"""Define the interface of the HTTP client: the code above it knows JSON-RPC and nothing of connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gateway.outbound import Answer


class Transport(Protocol):
    """Exchange requests and answers over HTTP. Implementations raise :class:`gateway.outbound.OutboundError` alone.

    :class:`gateway.outbound.Outbound` is the one on aiohttp's ClientSession.
    """

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, timeout: float, max_bytes: int
    ) -> Answer: ...

    async def get(self, url: str, headers: Mapping[str, str], *, timeout: float, max_bytes: int) -> Answer: ...
