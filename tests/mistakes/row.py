"""A mistake with what makes it: a command line, the files of its folder, the environment, and what it meets."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import field

from tests.mistakes.commands import Command
from tests.mistakes.contact.vocabulary import stand_in
from tests.mistakes.mistake import Mistake, filled


class Row(Mistake, frozen=True, kw_only=True):
    """Hold a mistake and how it is made.

    ``command`` is typed as in a shell, and has a --set more for each of ``knobs``. ``files`` are texts by name in the
    working directory, which is <here>; those of ``read_only`` cannot be written. ``typed`` and ``until`` are as
    :class:`Command` has them. ``there`` is what the URL leads to, at <host>: a stand-in of
    :mod:`tests.mistakes.contact.vocabulary`. Names such as <host> stand for what differs from run to run.
    """

    command: str
    knobs: dict[str, str | None] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    encoding: str = "utf-8"
    read_only: list[str] = field(default_factory=list)
    environ: dict[str, str] = field(default_factory=dict)
    typed: str = ""
    until: str = ""
    there: Any = None

    def __post_init__(self) -> None:
        """Raise ValueError, which names it, where ``there`` is no stand-in."""
        if self.there is not None:
            stand_in(self.there)

    def arguments(self, names: Mapping[str, str]) -> list[str]:
        """Return the command line."""
        knobs = [f"{knob}={value}" for knob, value in self.knobs.items() if value is not None]
        options = [part for knob in knobs for part in ("--set", knob)]
        return [filled(part, names) for part in (*shlex.split(self.command), *options)]

    def prepared(self, here: Path, names: Mapping[str, str]) -> Command:
        """Write the files, and return the command."""
        for name, text in self.files.items():
            path = here / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(filled(text, names).encode(self.encoding))
            # A secret that others may read is a mistake of its own.
            path.chmod(0o400 if name in self.read_only else 0o600)
        environ = {name: filled(value, names) for name, value in self.environ.items()}
        return Command(tuple(self.arguments(names)), self.typed, self.until, str(here), environ)
