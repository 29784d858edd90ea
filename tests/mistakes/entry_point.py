"""Make mistakes that are rows of files, a command line and an environment."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.mistakes.commands import Command, run_all
from tests.mistakes.mistake import Told
from tests.mistakes.row import Row


def told(rows: Sequence[Row]) -> dict[str, Told]:
    """Return what each row came to, by the name of its mistake."""
    with tempfile.TemporaryDirectory() as folder:
        commands = {row.mistake.name: _prepared(row, Path(folder) / str(number)) for number, row in enumerate(rows)}
        return asyncio.run(run_all(commands))


def _prepared(row: Row, folder: Path) -> Command:
    folder.mkdir()
    for name, text in row.files.items():
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return Command(row.arguments, folder=str(folder), environ=row.environ)
