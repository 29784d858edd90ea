"""Lines of the log that strangers can cause at will: of many, some are written."""

from __future__ import annotations

import time
from collections.abc import Callable


class Sampler:
    """Lets ``most`` lines through in each ``seconds``, and counts the others. ``clock`` is monotonic seconds."""

    def __init__(self, most: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._ends = clock()
        self._written = 0
        self._left_out = 0

    def admit(self) -> dict[str, int] | None:
        """What to add to a line that is to be written: how many were left out before it, where any were. None for a
        line that is left out itself."""
        now = self._clock()
        if now >= self._ends:
            self._ends, self._written = now + self._seconds, 0
        if self._written == self._most:
            self._left_out += 1
            return None
        self._written += 1
        left_out, self._left_out = self._left_out, 0
        return {"more_since_last": left_out} if left_out else {}
