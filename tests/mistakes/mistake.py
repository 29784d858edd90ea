"""One mistake, and what the person who makes it must be told. The expectation is written before the mistake is run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from msgspec import Struct

# What tells about our insides, and nothing about the mistake.
INSIDES: Final = re.compile(r"Traceback|Input should|<class|\bpydantic\b|\bNoneType\b|\bValidationError\b|object at 0x")


@dataclass(frozen=True)
class Told:
    """Hold what a mistake came to: the exit code (None while it still runs) and all that was printed or answered."""

    code: int | None
    text: str


class Mistake(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"name": "mistake"}):
    """Hold what is expected of one mistake.

    ``name`` says the mistake in a sentence. ``thing`` is the text that names what is wrong, ``remedy`` the text that
    says what to do; it is empty where only the thing can be named. ``code`` is the exit code, None where the program
    goes on.
    """

    name: str
    thing: str
    remedy: str
    code: int | None

    def judge(self, told: Told) -> None:
        """Assert that ``told`` names the thing and the remedy, and nothing of our insides."""
        assert told.code == self.code, told.text
        assert self.thing in told.text, told.text
        assert self.remedy in told.text, told.text
        assert not INSIDES.search(told.text), told.text
