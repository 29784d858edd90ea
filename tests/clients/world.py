"""What the clients meet: three gateways, each a process of its own, before two backends in this one.

``whole`` has all tools on one page, ``paged`` two on a page, and ``changing`` one whose backend's listing grows. The
third has a backend of its own, so that the others' tools are known.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
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
    """``scratch`` is a folder for whatever clients write."""

    whole: Served
    paged: Served
    changing: Served
    scratch: Path


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """The world, until the end of the block."""
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
    """``serve`` with a configuration file, once it has listed."""
    _configure(file, backend.url, catalog)
    async with Program("serve", "--config", str(file)) as program:
        await program.logged("listing refreshed")
        yield Served((await program.logged("gateway started"))["port"], file, backend)


def _configure(file: Path, url: str, catalog: Mapping[str, Any]) -> None:
    knobs = {
        "server": {"port": 0, "admin_port": 0, "shutdown_timeout": "1s"},
        "backend": {"url": url},
        "auth": {"mode": "off"},
        "catalog": {"tools": {"agree": {"confirm": True}}, **catalog},
        "limits": {"discovery": "100000/minute", "invocation": "100000/minute", "concurrent": 1000},
        "mcp": {"heartbeat": "1s"},
    }
    file.write_text(json.dumps(knobs))  # JSON is YAML
