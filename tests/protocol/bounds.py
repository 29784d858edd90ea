"""Ports with bounds that no test here reaches."""

from __future__ import annotations

from gateway.http_server.accepting import Bounds, Port, bind
from gateway.http_server.connection_limit import ConnectionLimit
from gateway.http_server.handler import Handler
from gateway.http_server.held_bytes import HeldBytes


async def listen(handler: Handler, number: int = 0, spare: int = 0) -> Port:
    bounds = Bounds(0.1, 30.0, ConnectionLimit(1000, lambda _: False), HeldBytes(2**28), spare)
    return Port(await bind("127.0.0.1", number), handler, bounds)
