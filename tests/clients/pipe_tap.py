"""Between a client and ``stdio``: a program that passes every byte on and records it, as :mod:`tests.clients.tap` does.

``python -m tests.clients.pipe_tap FOLDER COMMAND [ARGUMENT ...]``; the client starts it in place of the command.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

_ASKED: Final = "asked"
_ANSWERED: Final = "answered"
_VERSION: Final = "io.modelcontextprotocol/protocolVersion"


class PipeTap:
    """What passed, for a check that reads either transport. ``url`` is the command that the client starts."""

    def __init__(self, folder: Path, *command: str) -> None:
        folder.mkdir()
        self.url = [sys.executable, str(Path(__file__)), str(folder), *command]
        self._folder = folder

    @property
    def requests(self) -> list[dict[str, Any]]:
        return self._messages(_ASKED)

    @property
    def responses(self) -> list[dict[str, Any]]:
        return self._messages(_ANSWERED)

    @property
    def versions(self) -> set[str]:
        """The protocol versions that requests named, and that an answer to ``initialize`` agreed to."""
        named = [message.get("params", {}).get("_meta", {}).get(_VERSION) for message in self.requests]
        agreed = [message.get("result", {}).get("protocolVersion") for message in self.responses]
        return {version for version in (*named, *agreed) if version}

    def transcript(self, most: int = 12_000) -> str:
        parts = [f"--- {name}\n{self._read(name).decode(errors='replace')}" for name in (_ASKED, _ANSWERED)]
        return "\n".join(parts)[-most:]

    def _messages(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._read(name).splitlines()]

    def _read(self, name: str) -> bytes:
        file = self._folder / name
        return file.read_bytes() if file.exists() else b""


def main(folder: str, *command: str) -> int:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    asked = threading.Thread(
        target=_pump, args=(0, process.stdin.fileno(), Path(folder, _ASKED), process.stdin.close), daemon=True
    )
    asked.start()
    _pump(process.stdout.fileno(), 1, Path(folder, _ANSWERED), lambda: None)
    return process.wait()


def _pump(source: int, drain: int, record: Path, close: Any) -> None:
    with record.open("ab", buffering=0) as file:
        while data := os.read(source, 65536):
            file.write(data)
            os.write(drain, data)
    close()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
