"""Run command lines, each in a process of its own. JSON on standard input and output.

The processes are forked from one that has imported the gateway: to import it anew takes longer than what is tested.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from gateway.cli import COMMAND, COMMANDS, main
from tests.mistakes.mistake import Told
from tests.mistakes.row import Row
from tests.waiting import PATIENCE

_AT_ONCE: Final = 6
# Where a program should have ended with a code, and goes on.
_GOES_ON: Final = 30


def told(rows: Sequence[Row]) -> dict[str, Told]:
    """Return what each row came to, by the name of its mistake."""
    with tempfile.TemporaryDirectory() as folder:
        lines = [_prepared(row, Path(folder) / str(number)) for number, row in enumerate(rows)]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
        ran = subprocess.run(
            [sys.executable, "-m", "tests.mistakes.entry_point"],
            input=json.dumps(lines).encode(), capture_output=True, check=False, timeout=PATIENCE, env=environ,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr.decode()
    return {row.mistake.name: Told(*one) for row, one in zip(rows, json.loads(ran.stdout), strict=True)}


def _prepared(row: Row, folder: Path) -> dict[str, Any]:
    folder.mkdir()
    for name, text in row.files.items():
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return {"folder": str(folder), "arguments": row.arguments, "environ": dict(row.environ)}


def _run(lines: Sequence[dict[str, Any]]) -> Iterator[tuple[int | None, str]]:
    for command in COMMANDS.values():
        import_module(f"gateway.cli.{command[0]}")
    for first in range(0, len(lines), _AT_ONCE):
        some = lines[first : first + _AT_ONCE]
        with ExitStack() as stack:
            outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in some]
            children = [_forked(line, output.fileno()) for line, output in zip(some, outputs, strict=True)]
            for child, output in zip(children, outputs, strict=True):
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                output.seek(0)
                yield None if code == -signal.SIGALRM else code, output.read().decode()


def _forked(line: dict[str, Any], output: int) -> int:
    pid = os.fork()
    if not pid:
        signal.alarm(_GOES_ON)
        os.chdir(line["folder"])
        os.environ.update(line["environ"])
        for stream, number in ((os.open(os.devnull, os.O_RDONLY), 0), (output, 1), (output, 2)):
            os.dup2(stream, number)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115, to the end
        main(line["arguments"], prog_name=COMMAND)
    return pid


if __name__ == "__main__":
    json.dump(list(_run(json.load(sys.stdin))), sys.stdout)
