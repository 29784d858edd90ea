"""Hold what is wrong with one thing, for the admin port."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime

from gateway.text import excerpt


@dataclass(slots=True)
class Problem:
    """Hold what is wrong, "" for nothing, since when, and when it is tried again, None where nothing does that by
    itself. Times are as in RFC 3339."""

    cause: str = ""
    since: str = ""
    next_try: str | None = None

    def set(self, cause: str, wait: float | None = None) -> None:
        """Note what is wrong. It is tried again after ``wait`` seconds."""
        self.since = self.since if self.cause else time_after()
        # A stranger may have written the cause.
        self.cause, self.next_try = excerpt(cause, 500), None if wait is None else time_after(wait)


def time_after(seconds: float = 0.0) -> str:
    """Return the time so many seconds from now."""
    return datetime.fromtimestamp(time.time() + max(0.0, seconds), UTC).isoformat(timespec="seconds")
