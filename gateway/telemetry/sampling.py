"""Sample log lines that strangers can cause in any number."""

import time
from collections.abc import Callable


class Sampler:
    """Admit ``most`` lines in each ``seconds``, and count the others. ``clock`` is monotonic seconds."""

    def __init__(self, most: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._ends = clock()
        self._written = 0
        self._left_out = 0

    def admit(self) -> dict[str, int] | None:
        """Return None for a line to leave out, else the fields to add to it: how many were left out before, if any."""
        now = self._clock()
        if now >= self._ends:
            self._ends, self._written = now + self._seconds, 0
        if self._written == self._most:
            self._left_out += 1
            return None
        self._written += 1
        left_out, self._left_out = self._left_out, 0
        return {"more_since_last": left_out} if left_out else {}
