"""Debian's slowhttptest: many clients that are slow with a head, with a body, or with reading, on this machine alone.

report = await attack("heads", gateway.base, connections=50, seconds=4)
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

Kind: TypeAlias = Literal["heads", "bodies", "reads"]
KINDS: Final[tuple[Kind, ...]] = ("heads", "bodies", "reads")
_OPTIONS: Final[dict[Kind, tuple[str, ...]]] = {
    "heads": ("-H", "-t", "GET", "-i", "1"),
    "bodies": ("-B", "-t", "POST", "-i", "1", "-s", "8192", "-f", "application/json"),
    "reads": ("-X", "-t", "GET", "-n", "1", "-z", "5", "-w", "1", "-y", "512", "-k", "3"),
}
_PATHS: Final[dict[Kind, str]] = {
    "heads": "/mcp",
    "bodies": "/mcp/tools/invoke",
    "reads": "/mcp/tools/list",
}
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_COUNT: Final = re.compile(r"^(connected|closed|error):\s+(\d+)$", re.MULTILINE)
_AVAILABLE: Final = re.compile(r"^service available:\s+(\w+)$", re.MULTILINE)
_PATIENCE: Final = 2
"""Seconds in which an honest request has to be answered meanwhile, or the service counts as unavailable."""
_GRACE: Final = 20.0


@dataclass(frozen=True)
class Attack:
    """What slowhttptest saw: its connections at the end, and whether its honest requests were answered, every second.

    ``ended`` says why it did: ``Hit test time limit``, or ``No open connections left`` where all were closed before.
    """

    connected: int
    closed: int
    error: int
    was_available: bool
    ended: str
    output: str


async def attack(kind: Kind, base: str, *, connections: int, seconds: int) -> Attack:
    """Run one attack on the gateway at ``base`` (``http://127.0.0.1:8080``) for so many seconds at most."""
    if urlsplit(base).hostname != "127.0.0.1":
        raise ValueError("slowhttptest is for this machine alone")
    # It spins while its answers trickle in: it must not take the core from those whose waits are measured.
    process = await asyncio.create_subprocess_exec(
        *("nice", "-n", "19", "slowhttptest", *_OPTIONS[kind]),
        *("-c", str(connections), "-r", str(connections), "-l", str(seconds)),
        *("-p", str(_PATIENCE), "-u", base + _PATHS[kind]),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(seconds + _GRACE):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return _read(said.decode("utf-8", "replace"))


def _read(said: str) -> Attack:
    output = _COLOUR.sub("", said)
    counts = {name: int(number) for name, number in _COUNT.findall(output)}  # the last report wins
    verdicts = _AVAILABLE.findall(output)
    ended = re.search(r"Exit status:\s*(.+)", output)
    assert counts, output
    assert verdicts, output
    assert ended, output
    available = set(verdicts) == {"YES"}
    return Attack(counts["connected"], counts["closed"], counts["error"], available, ended[1].strip(), output)
