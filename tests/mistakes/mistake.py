"""One mistake, and what the person who makes it must be told. The expectation is written before the mistake is run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

# What tells about our insides, and nothing about the mistake.
INSIDES: Final = re.compile(r"Traceback|Input should|<class|\bpydantic\b|\bNoneType\b|\bValidationError\b|object at 0x")
_NAME: Final = re.compile(r"<[a-z][a-z.:-]*>")


@dataclass(frozen=True)
class Told:
    """Hold what a mistake came to: the exit code (None while it still runs) and all that was printed or answered.

    ``names`` have what names such as <host> stood for in this run.
    """

    code: int | None
    text: str
    names: Mapping[str, str] = field(default_factory=dict)


def filled(text: str, names: Mapping[str, str]) -> str:
    """Put what they are in this run in place of names. Raise KeyError for one that is not known."""
    return _NAME.sub(lambda found: names[found[0]], text)


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
        assert filled(self.thing, told.names) in told.text, told.text
        assert filled(self.remedy, told.names) in told.text, told.text
        assert not INSIDES.search(told.text), told.text
