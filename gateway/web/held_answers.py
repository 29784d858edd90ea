"""Bound the bytes of answers in this process: those that it reads, and those that clients do not take."""

from __future__ import annotations

from collections import Counter
from typing import Final

from gateway.errors import Overloaded
from gateway.limits import rate_limit_key
from gateway.model import Caller
from gateway.web.refusal_log import RefusalLog

_SHARE: Final = 4
"""One caller's answers may have a quarter of the bound, so that one alone makes nobody else wait (decision 31)."""
_FULL: Final = 7 / 8
"""The part of the bound from which no new call is let in. The rest is for the answers of those that are running."""
_RETRY_AFTER: Final = 5
_REMEDY: Final = "raise the knob if the memory allows it, or look whose clients are slow"


class HeldAnswers:
    """Count the bytes of large answers while they are read, of bodies that do not come with their heads until they are
    whole, and what the kernel does not take of an answer, until its client has it or is cut off. ``most`` is
    ``server.max_buffered``."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = 0
        self._full = int(most * _FULL)
        self._share = most // _SHARE
        self._by_caller: Counter[str] = Counter()
        self._log = RefusalLog("calls", "server.max_buffered")

    def __repr__(self) -> str:
        return f"<HeldAnswers {self.bytes} of {self.most} bytes, {len(self._by_caller)} callers>"

    @property
    def waiting(self) -> int:
        """Return the bytes that wait for clients, and those of their bodies."""
        return self._by_caller.total()

    def check(self, caller: Caller) -> None:
        """Raise :class:`Overloaded` where too much is held, or waits for this caller."""
        if self.bytes < self._share:
            return
        if self.bytes >= self._full:
            self._log.count("", self.most, _REMEDY)
            raise Overloaded("The gateway holds too many answers and bodies of slow clients", retry_after=_RETRY_AFTER)
        if self._by_caller[rate_limit_key(caller)] >= self._share:
            raise Overloaded(
                "Too many of your answers and bodies are held: read or send faster", retry_after=_RETRY_AFTER
            )

    def reserve(self, size: int) -> bool:
        """Count bytes that were read, or with a negative ``size`` are passed on. Return whether there is room."""
        if size > 0 and self.bytes + size > self.most:
            self._log.count("", self.most, _REMEDY)
            return False
        self.bytes += size
        if size < 0:
            self._log.note("", self.bytes, self._full)
        return True

    def add(self, caller: str, size: int) -> None:
        """Count ``size`` bytes that begin to wait for a caller, as :func:`rate_limit_key` names it."""
        self.bytes += size
        self._by_caller[caller] += size

    def remove(self, caller: str, size: int) -> None:
        """Count the end of what :meth:`add` counted."""
        self.bytes -= size
        self._log.note("", self.bytes, self._full)
        self._by_caller[caller] -= size
        if not self._by_caller[caller]:
            del self._by_caller[caller]
