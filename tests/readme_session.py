"""The README's session: what it says to type, and what that prints."""

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

README: Final = Path(__file__).parents[1] / "README.md"
COMMAND: Final = re.compile(r"^```console\n\$ ((?:.*\\\n)*.*)\n((?:.*\n)*?)```$", re.MULTILINE)
_CLIENT: Final = re.compile(r"^```python\n((?:.*\n)*?)```\n\n```\n((?:.*\n)*?)```$", re.MULTILINE)


async def replay(python: str = sys.executable, folder: Path | None = None) -> None:
    """Run the demo with this interpreter, then the commands and the client of the README, in ``folder`` or here. Raise
    AssertionError where one prints something else than the README shows."""
    session = README.read_text(encoding="utf-8").partition("\n## A session\n")[2].partition("\n## ")[0]
    commands, clients = COMMAND.findall(session), _CLIENT.findall(session)
    assert (len(commands), len(clients)) == (3, 1)
    async with Program("demo", "--port", str(free_port()), python=python, folder=folder) as program:
        await program.said("Ctrl-C")
        await program.logged("listing refreshed")
        ours = _with_ports_of(program.output)
        assert re.search(r"^Open in a browser +http://127\.0\.0\.1:\d+/$", program.output, re.MULTILINE)
        for command, shown in commands:
            printed = await output_of("sh", "-c", ours(command).replace(".venv/bin/", ""), python=python, folder=folder)
            assert printed.strip() == ours(shown).strip(), (
                f"{command}\nprints\n{printed}\nand the README shows\n{shown}"
            )
        for code, shown in clients:
            printed = await output_of(python, "-c", ours(code), python=python, folder=folder)
            assert printed == shown, f"the client prints\n{printed}\nand the README shows\n{shown}"


async def output_of(*command: str, python: str, folder: Path | None = None) -> str:
    """Return what a command prints, its errors too. Programs beside ``python`` are found first."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"},
        cwd=folder,
    )
    async with asyncio.timeout(PATIENCE):
        printed, _ = await process.communicate()
    return printed.decode()


def _with_ports_of(guide: str) -> Callable[[str], str]:
    """Return a function that puts the demo's own ports in place of the README's, which may be in use."""
    service, gateway = re.findall(r"at +(http://127\.0\.0\.1:\d+)/(?:jsonrpc|mcp)$", guide, re.MULTILINE)
    return lambda text: text.replace("http://127.0.0.1:8000", service).replace("http://127.0.0.1:8080", gateway)
