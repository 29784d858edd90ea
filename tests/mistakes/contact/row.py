"""A first contact that fails: where the URL leads, and what `check` must say of it."""

from __future__ import annotations

import re
from typing import Final

from tests.mistakes.mistake import INSIDES, Told, filled
from tests.mistakes.row import Row

_PART: Final = re.compile(r"^(cause|next) +(.*)$", re.MULTILINE)


class Contact(Row, frozen=True, kw_only=True):
    """Hold a row. ``thing`` is what the printed cause must have, ``remedy`` what the next step must have; for an exit
    code of 2 both are looked for in all that is printed.

    ``code`` 0 is a first contact that works. All of it was written before the gateway was made to say it.
    """

    def verdict(self, told: Told) -> str:
        """Return "remedy" where cause and next step are right, "thing" where the cause alone is, else "misleads"."""
        said = dict(_PART.findall(told.text))
        if told.code != self.code or INSIDES.search(told.text):
            return "misleads"
        if self.code in (0, 2):
            said = {"cause": told.text, "next": told.text}
        thing, remedy = (filled(part, told.names) for part in (self.thing, self.remedy))
        if thing not in said.get("cause", ""):
            return "misleads"
        return "remedy" if remedy in said.get("next", "") else "thing"
