"""Each command, started for real, says and returns what it does in a fork, where the other tests start it."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from typing import Final

from gateway.cli import COMMANDS
from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.program import Program, run, settings
from tests.services.process import free_port
from tests.starts import ForkServer, starting_by

ADD: Final = ("--args", '{"a": 2, "b": 3}')
Line = Callable[[str, str], tuple[str, ...]]
ENDING: Final[dict[str, tuple[int, Line]]] = {
    "call": (0, lambda url, _: ("call", url, "add", *ADD)),
    "check": (0, lambda url, _: ("check", url)),
    "completion": (0, lambda _, __: ("completion", "bash")),
    "config": (0, lambda url, _: ("config", "show", *settings(url))),
    "connect": (0, lambda url, _: ("connect", url)),
    "healthcheck": (1, lambda _, refused: ("healthcheck", "--url", refused)),
    "keys": (2, lambda _, __: ("keys", "list", "--file", "/nowhere/keys")),
    "methods": (0, lambda url, _: ("methods", url)),
    "schema": (0, lambda _, __: ("schema", "--format", "json")),
    "status": (1, lambda _, refused: ("status", refused)),
    "stdio": (0, lambda url, _: ("stdio", url)),
    "tools": (0, lambda url, _: ("tools", url)),
}
"""The exit code and the command line before a backend, and an address where nobody listens."""
SERVING: Final[dict[str, tuple[str, Line]]] = {
    "demo": ("Ctrl-C ends it.", lambda _, __: ("demo", "--port", str(free_port()))),
    "serve": ("listing refreshed", lambda url, _: ("serve", *settings(url))),
}
"""What a command that goes on says last, and the command line."""


def test_each_command_is_here() -> None:
    assert ENDING.keys() | SERVING.keys() == COMMANDS.keys()


@each("command", [*ENDING])
async def test_a_command_says_the_same_after_either_start(
    backend: ScriptedBackend, forks: ForkServer, command: str
) -> None:
    code, line = ENDING[command]
    told = []
    for server in (None, forks):
        with starting_by(server):
            told.append(await run(*line(backend.url, backend.refused_url)))
    assert [ran.code for ran in told] == [code, code], told
    assert [_same(ran.out) for ran in told[1:]] == [_same(told[0].out)]
    assert [_same(ran.err) for ran in told[1:]] == [_same(told[0].err)]


@each("command", [*SERVING])
async def test_a_command_that_goes_on_says_the_same_after_either_start(
    backend: ScriptedBackend, forks: ForkServer, command: str
) -> None:
    last, line = SERVING[command]
    told = []
    for server in (None, forks):
        with starting_by(server):
            async with Program(*line(backend.url, backend.refused_url)) as program:
                await program.said(last)
                await program.said("gateway started")
                program.signal(signal.SIGTERM)
                assert await program.ended() == 0
                told.append(sorted(map(_same, program.lines)))
    assert told[1] == told[0]


def _same(text: str) -> str:
    """Leave out what differs from start to start: times, ports, and all of a log line but its event."""
    if text.startswith("{") and '"event"' in text:
        return str([json.loads(line)["event"] for line in text.splitlines()])
    return re.sub(r"\d+(\.\d+)?", "0", text)
