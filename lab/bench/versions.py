"""The machine, and the versions of all who take part."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Final

from lab.bench.lanes import PYTHONS
from lab.bench.machine import Unusable, program
from lab.bench.peers import environments

_BUILT: Final = """
import platform, sysconfig
optimized = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
print(f"{platform.python_version()}, built {'with optimizations' if optimized else 'plainly'}")
"""
_PEERS: Final = (
    ("FastMCP", "fastmcp", "fastmcp"),
    ("MCP Python SDK behind FastMCP", "fastmcp", "mcp"),
    ("MCP Python SDK", "mcp", "mcp"),
    ("httpx2", "mcp", "httpx2"),
    ("uvicorn of the Python peers", "mcp", "uvicorn"),
    ("mcp-proxy", "mcp_proxy", "mcp-proxy"),
    ("ContextForge", "contextforge", "mcp-contextforge-gateway"),
)


def machine() -> dict[str, str]:
    """What the page says of the machine and of the versions, in order."""
    found = {
        **processor(),
        **{f"Python {version}": _other(version) for version in PYTHONS},
        "aiohttp, uvloop": f"{version('aiohttp')}, {version('uvloop')}",
        "nginx": _said(program("nginx"), "-v").rpartition("/")[2],
        "wrk": " ".join(_said(program("wrk"), "-v").split()[1:2]),
        "Node.js": _said(str(environments.NODE), "--version"),
        "undici": environments.npm_version_of("undici"),
        "MCP TypeScript SDK": environments.npm_version_of("@modelcontextprotocol/server"),
        **{label: environments.version_of(home, name) for label, home, name in _PEERS},
    }
    try:
        found["Redis"] = _said(program("redis-server"), "--version").partition("v=")[2].partition(" ")[0]
    except Unusable:
        found["Redis"] = ""
    return {name: value or "not here" for name, value in found.items()}


def processor() -> dict[str, str]:
    """What a page says of the machine itself, and of the Python that runs on it."""
    return {
        "measured": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "kernel": platform.release(),
        "Python": _said(sys.executable, "-c", _BUILT),
    }


def _processor() -> str:
    """The name of the processor as the kernel has it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _other(python: str) -> str:
    """A further version of Python, "" where it is not here."""
    try:
        return _said(str(environments.project(python)), "-c", _BUILT)
    except Unusable:
        return ""


def _said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip().splitlines()[0]
