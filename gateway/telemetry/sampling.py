"""Sample log lines that strangers can cause in any number."""

import time
from collections.abc import Callable
from typing import Final

_MOST_KINDS: Final = 16
"""Kinds that are told apart in one period: strangers may write some of them."""


class Sampler:
    """Admit ``most`` lines in each ``seconds``, and the first of each of 16 kinds; count the others. ``clock`` is
    monotonic seconds."""

    def __init__(self, most: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._ends = clock()
        self._written = 0
        self._left_out = 0
        self._kinds: set[str] = set()

    def admit(self, kind: str = "") -> dict[str, int] | None:
        """Return None for a line to leave out, else the fields to add to it: how many were left out before, if any.
        ``kind`` says what failed: of what a line says already, the next can be left out."""
        now = self._clock()
        if now >= self._ends:
            self._ends, self._written = now + self._seconds, 0
            self._kinds.clear()
        is_known = kind in self._kinds or len(self._kinds) == _MOST_KINDS
        if self._written >= self._most and is_known:
            self._left_out += 1
            return None
        if not is_known:
            self._kinds.add(kind)
        self._written += 1
        left_out, self._left_out = self._left_out, 0
        return {"more_since_last": left_out} if left_out else {}
