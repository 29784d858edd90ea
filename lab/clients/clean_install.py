"""``python -m lab.clients.clean_install``: in a new virtual environment, ``pip install .``, then the official client
calls a tool over ``stdio URL``, in both eras.

This takes a minute, and asks the package registry.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from mcp import StdioServerParameters
from mcp.client.client import Client

from tests.fault.scripted import ScriptedBackend
from tests.front import LEGACY, MODERN

_ROOT: Final = Path(__file__).parents[2]
_ERAS: Final = {"auto": MODERN, "legacy": LEGACY}


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="clean-install-") as folder:
        run(sys.executable, "-m", "venv", folder)
        run(f"{folder}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(_ROOT))
        async with ScriptedBackend() as backend:
            for mode, version in _ERAS.items():
                server = StdioServerParameters(
                    command=f"{folder}/bin/jsonrpc-mcp-gateway", args=["stdio", backend.url], cwd=folder
                )
                async with Client(server, mode=mode) as client:
                    assert client.protocol_version == version, client.protocol_version
                    called = await client.call_tool("add", {"a": 2, "b": 3})
                    assert called.structured_content == {"sum": 5}, called
                print(f"pip install . && stdio URL: {version} answers the official client")


def run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=600, cwd="/")


if __name__ == "__main__":
    asyncio.run(main())
