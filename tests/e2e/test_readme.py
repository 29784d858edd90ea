"""The README's session: what it says to type prints what it shows."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.program import Program
from tests.services.process import free_port
from tests.waiting import PATIENCE

SESSION: Final = (
    (Path(__file__).parents[2] / "README.md").read_text().partition("\n## A session\n")[2].partition("\n## ")[0]
)
COMMAND: Final = re.compile(r"^```console\n\$ ((?:.*\\\n)*.*)\n((?:.*\n)*?)```$", re.MULTILINE)
CLIENT: Final = re.compile(r"^```python\n((?:.*\n)*?)```\n\n```\n((?:.*\n)*?)```$", re.MULTILINE)


async def output_of(*command: str) -> str:
    """Return what a command prints, its errors too. ``.venv/bin`` stands for the folder of this interpreter."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
    )
    async with asyncio.timeout(PATIENCE):
        printed, _ = await process.communicate()
    return printed.decode()


def with_ports_of(guide: str) -> Callable[[str], str]:
    """Return what puts the demo's own ports in place of the README's, which may be in use."""
    service, gateway = re.findall(r"at +(http://127\.0\.0\.1:\d+)/(?:jsonrpc|mcp)$", guide, re.MULTILINE)
    return lambda text: text.replace("http://127.0.0.1:8000", service).replace("http://127.0.0.1:8080", gateway)


async def test_the_commands_and_the_client_of_the_readme_print_what_it_shows() -> None:
    commands, clients = COMMAND.findall(SESSION), CLIENT.findall(SESSION)
    assert (len(commands), len(clients)) == (3, 1)
    async with Program("demo", "--port", str(free_port())) as program:
        await program.said("Ctrl-C")
        await program.logged("listing refreshed")
        ours = with_ports_of(program.output)
        assert re.match(r"Open in a browser +http://127\.0\.0\.1:\d+/\n", program.output)
        for command, shown in commands:
            printed = await output_of("sh", "-c", ours(command).replace(".venv/bin/", ""))
            assert printed.strip() == ours(shown).strip()
        for code, shown in clients:
            assert await output_of(sys.executable, "-c", ours(code)) == shown
