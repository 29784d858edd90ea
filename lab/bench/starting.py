"""What a start costs: processor seconds of a command, from its beginning to its end."""

from __future__ import annotations

import json
import subprocess
import sys
from resource import RUSAGE_CHILDREN, getrusage
from typing import Final

_RUNS: Final = 5
_INITIALIZE: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}


def seconds_of_stdio() -> list[float]:
    """``stdio`` until it has answered its first message: its input ends there."""
    return _seconds(
        "stdio", "http://127.0.0.1:1/jsonrpc", given=json.dumps(_INITIALIZE).encode() + b"\n", told=b'"id":1'
    )


def seconds_of_version() -> list[float]:
    return _seconds("--version", told=b"version")


def seconds_of_help() -> list[float]:
    return _seconds("--help", told=b"Usage")


def _seconds(*arguments: str, given: bytes = b"", told: bytes) -> list[float]:
    """Of some runs after a first one, which reads the files from the disk."""
    return [_run(arguments, given, told) for _ in range(_RUNS + 1)][1:]


def _run(arguments: tuple[str, ...], given: bytes, told: bytes) -> float:
    before = getrusage(RUSAGE_CHILDREN)
    ran = subprocess.run((sys.executable, "-m", "gateway", *arguments), input=given, capture_output=True, check=True)
    after = getrusage(RUSAGE_CHILDREN)
    assert told in ran.stdout, ran.stderr.decode()
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
