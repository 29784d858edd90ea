"""Bounds of a port that no test here reaches."""

from __future__ import annotations

from gateway.http_server.accepting import Bounds
from gateway.http_server.connection_limit import ConnectionLimit
from gateway.http_server.held_bytes import HeldBytes


def wide(most: int = 1000, spare: int = 0) -> Bounds:
    return Bounds(0.1, 30.0, ConnectionLimit(most, lambda _: False), HeldBytes(2**28), spare)
