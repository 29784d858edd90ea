"""A first contact that fails: where the URL leads, and what `check` must say of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.mistakes.commands import Command
from tests.mistakes.contact.stand_ins import StandIn
from tests.mistakes.mistake import INSIDES, Told

_PART: Final = re.compile(r"^(cause|next) +(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Contact:
    """Hold a row. ``cause`` is what the printed cause must have, ``remedy`` what the next step must have; for an exit
    code of 2 both are looked for in all that is printed. <host> and <port> in them are those of ``stand_in``.

    ``code`` 0 is a first contact that works. All of it was written before the gateway was made to say it.
    """

    name: str
    stand_in: StandIn
    cause: str
    remedy: str
    url: str = "http://<host>/jsonrpc"
    knobs: tuple[str, ...] = ()
    code: int = 3
    environ: Mapping[str, str] = field(default_factory=dict)

    def command(self, host: str, folder: str) -> Command:
        """Return the command line: ``host`` is where the stand-in is, ``folder`` has the authority's ca.pem."""

        def filled(text: str) -> str:
            return text.replace("<host>", host).replace("<port>", host.rpartition(":")[2]).replace("<dir>", folder)

        options = [part for knob in self.knobs for part in ("--set", filled(knob))]
        environ = {name: filled(value) for name, value in self.environ.items()}
        return Command(("check", filled(self.url), *options), environ=environ)

    def verdict(self, told: Told, host: str) -> str:
        """Return "remedy" where cause and next step are right, "thing" where the cause alone is, else "misleads"."""
        said = dict(_PART.findall(told.text))
        cause, remedy = (part.replace("<host>", host) for part in (self.cause, self.remedy))
        if told.code != self.code or INSIDES.search(told.text):
            return "misleads"
        if self.code in (0, 2):
            said = {"cause": told.text, "next": told.text}
        if cause not in said.get("cause", ""):
            return "misleads"
        return "remedy" if remedy in said.get("next", "") else "thing"
