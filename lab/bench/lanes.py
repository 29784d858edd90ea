"""What is measured, by name: the tables of the page, each with its lanes in order. A lane is a server and a request,
under load from a number of connections."""

from __future__ import annotations

from typing import Final

BARE: Final = "bare aiohttp proxy"
GATEWAY: Final = "gateway"
LISTED: Final = "gateway, list of 20"
STATIC: Final = "static answer of aiohttp, list of 20"
NGINX: Final = "nginx, plain proxy"
NODE: Final = "bare Node.js + undici proxy"
TYPESCRIPT: Final = "TypeScript SDK 2, server by hand"
FASTMCP: Final = "FastMCP, best mode (2025-06-18, stateless, JSON)"
NEWEST: Final = "FastMCP, newest mode (2026-07-28)"
SDK: Final = "Python SDK, low-level server + httpx2"
CONTEXTFORGE: Final = "ContextForge, one worker"
MCP_PROXY: Final = "mcp-proxy, before a server on standard streams"
SHARED: Final = "gateway, limits in Redis"
ONE_WORKER: Final = "gateway, 1 worker, both cores"
TWO_WORKERS: Final = "gateway, 2 workers, both cores"
SLOW_DIRECT: Final = "the service itself, 20 ms, 50 connections"
SLOW_BARE: Final = "bare aiohttp proxy, 20 ms, 50 connections"
SLOW: Final = "gateway, 20 ms, 50 connections"
BURST_DIRECT: Final = f"{SLOW_DIRECT}, first second"
BURST: Final = f"{SLOW}, first second"
"""The same for a second alone: a good part of it is what new connections cost, which all come at once."""

CALLERS: Final = (1, 100, 1000, 10_000)
SERVICES: Final = (1, 4, 12)
TOOLS: Final = (20, 200, 2000)
STREAMS: Final = (0, 250, 500, 1000)
CONNECTIONS: Final = (1, 32, 500)
PAYLOADS: Final = {"1 kB": "jsonrpc", "100 kB": "large", "1 MB": "huge"}
PYTHONS: Final = ("3.12", "3.13")


def at(lane: str, connections: int) -> str:
    """The name of a lane at another number of connections than 32."""
    return lane if connections == 32 else f"{lane}, {connections} connection{'s' * (connections > 1)}"


def listed(tools: int) -> str:
    return f"gateway, list of {tools:,}"


def static(tools: int) -> str:
    return f"static answer of aiohttp, list of {tools:,}"


def paid(who: str, payload: str) -> str:
    return f"{who}, result of {payload}"


def called_by(callers: int) -> str:
    return f"gateway, {callers:,} caller{'s' * (callers > 1)}"


def served(services: int) -> str:
    return f"gateway, {services} service{'s' * (services > 1)}"


def on_python(lane: str, version: str) -> str:
    return f"{lane}, Python {version}"


TABLES: Final[dict[str, tuple[str, ...]]] = {
    "peers": (
        NGINX, NODE, BARE, GATEWAY, TYPESCRIPT, SDK, FASTMCP, NEWEST, MCP_PROXY, CONTEXTFORGE,
    ),
    "surfaces": (
        GATEWAY, "gateway, 2025-06-18", "gateway, REST", "gateway, /jsonrpc", LISTED, STATIC,
    ),
    "switches": (
        GATEWAY, "gateway, no log lines", "gateway, no tokens", "gateway, neither", SHARED, ONE_WORKER, TWO_WORKERS,
    ),
    "pythons": (
        BARE, GATEWAY, *(on_python(lane, version) for version in PYTHONS for lane in (BARE, GATEWAY)),
    ),
    "connections": tuple(at(lane, count) for lane in (NGINX, NODE, BARE, GATEWAY) for count in CONNECTIONS),
    "slow": (SLOW_DIRECT, SLOW_BARE, SLOW, BURST_DIRECT, BURST),
    "lists": tuple(name(tools) for tools in TOOLS for name in (static, listed)),
    "payloads": tuple(paid(who, size) for size in PAYLOADS for who in (BARE, GATEWAY)),
    "callers": tuple(map(called_by, CALLERS)),
    "services": tuple(map(served, SERVICES)),
}  # fmt: skip
"""The tables of the page. A lane may stand in several; it runs once per round."""
STEADY: Final = frozenset((SLOW_DIRECT, SLOW_BARE, SLOW))
"""Lanes whose stretch is so long that its first burst is less than a hundredth of its calls."""
QUICK: Final = (BARE, GATEWAY, LISTED, STATIC, NODE, TYPESCRIPT, FASTMCP, SLOW_DIRECT, SLOW)
"""The lanes of ``make bench-quick``."""
