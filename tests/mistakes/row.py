"""A mistake with what makes it: the files of a folder, the command line, and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tests.mistakes.mistake import Mistake

URL: Final = "http://127.0.0.1:8000/jsonrpc"
"""Nothing is asked there: the mistake is found before."""
BACKEND: Final = f"backend: {{url: {URL}}}\n"
OFF: Final = "auth: {mode: off}\n"
START: Final = BACKEND + OFF
"""The file that a first try begins with."""


@dataclass(frozen=True)
class Row:
    """Hold a mistake and how it is made.

    ``files`` are the texts by name in the working directory, where ``gateway.yaml`` is found without an option. In
    ``arguments`` and in what is expected, @URL@ is the address of a real service, @PORT@ its port.
    """

    mistake: Mistake
    arguments: tuple[str, ...]
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)

    def at(self, url: str, port: int) -> Row:
        """Return the row before this service."""

        def filled(text: str) -> str:
            return text.replace("@URL@", url).replace("@PORT@", str(port))

        mistake = replace(self.mistake, thing=filled(self.mistake.thing), remedy=filled(self.mistake.remedy))
        return replace(self, mistake=mistake, arguments=tuple(map(filled, self.arguments)))


def written(name: str, thing: str, remedy: str, text: str | bytes, **environ: str) -> Row:
    """Return the row of a mistake in ``gateway.yaml``, which ``serve`` refuses."""
    return Row(Mistake(name, thing, remedy, 2), ("serve",), {"gateway.yaml": text}, environ)


def exported(name: str, thing: str, remedy: str, **environ: str) -> Row:
    """Return the row of a mistake in the environment, beside a sound file."""
    return written(name, thing, remedy, START, **environ)


def knob(name: str, thing: str, remedy: str, *knobs: str, **files: str | bytes) -> Row:
    """Return the row of a mistake in knobs of ``--set``, beside a sound file."""
    options = [option for one in knobs for option in ("--set", one)]
    return Row(Mistake(name, thing, remedy, 2), ("serve", *options), {"gateway.yaml": START, **files})


def typed(name: str, thing: str, remedy: str, *arguments: str, code: int = 2, **files: str) -> Row:
    """Return the row of a mistake of the command line. A name in ``files`` has __ for its dot."""
    texts = {name.replace("__", "."): text for name, text in files.items()}
    return Row(Mistake(name, thing, remedy, code), arguments, texts)
