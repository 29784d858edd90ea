"""What the clients meet: three gateways, each a process of its own, before two backends in this one.

``whole`` has all tools on one page, ``paged`` two on a page, and ``changing`` one whose backend's listing grows. The
third has a backend of its own, so that the others' tools are known. Agent frameworks also meet large listings.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.clients.backend import Backend
from tests.program import Program

PAGE: Final = 2
"""Tools on a page of the gateway ``paged``."""


@dataclass(frozen=True)
class Served:
    """A gateway's public port, its configuration, and the backend that it fronts."""

    port: int
    file: Path
    backend: Backend


@dataclass(frozen=True)
class World:
    """``scratch`` is a folder for whatever clients write. ``large`` are ports of gateways before large listings:

    - ``kodi``, ``ethereum``: all tools are listed
    - ``wanted``: Kodi with default settings
    - ``search``: Kodi with tool search
    """

    whole: Served
    paged: Served
    changing: Served
    scratch: Path
    large: Mapping[str, int] = field(default_factory=dict)


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """Yield the world, without large listings."""
    with tempfile.TemporaryDirectory(prefix="mcp-clients-") as name:
        folder = Path(name)
        async with (
            Backend() as still,
            Backend() as growing,
            _gateway(folder / "whole.yaml", still) as whole,
            _gateway(folder / "paged.yaml", still, page_size=PAGE) as paged,
            _gateway(folder / "changing.yaml", growing, ttl="100ms") as changing,
        ):
            yield World(whole, paged, changing, folder)


@asynccontextmanager
async def _gateway(file: Path, backend: Backend, **catalog: Any) -> AsyncIterator[Served]:
    overrides = {"tools": {"agree": {"confirm": True}}}
    async with running(file, {"url": backend.url}, overrides | catalog) as port:
        yield Served(port, file, backend)


@asynccontextmanager
async def running(file: Path, backend: Mapping[str, Any], catalog: Mapping[str, Any]) -> AsyncIterator[int]:
    """The port of ``serve`` with a configuration file, once it has listed."""
    _configure(file, backend, catalog)
    async with Program("serve", "--config", str(file)) as program:
        await program.logged("listing refreshed")
        yield (await program.logged("gateway started"))["port"]


def _configure(file: Path, backend: Mapping[str, Any], catalog: Mapping[str, Any]) -> None:
    knobs = {
        "server": {"port": 0, "admin_port": 0, "shutdown_timeout": "1s"},
        "backend": backend,
        "auth": {"mode": "off"},
        "catalog": catalog,
        "limits": {"discovery": "100000/minute", "invocation": "100000/minute", "concurrent": 1000},
        "mcp": {"heartbeat": "1s"},
    }
    file.write_text(json.dumps(knobs))  # JSON is YAML
