"""Bound the time that a client may take for what it sends, and for its answer."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

import structlog

from gateway.http_server.held_bytes import HeldAnswers

log = structlog.get_logger()


class Deadline:
    """Call ``passed`` once it is ``due``, by the clock of the loop; None is never. A timer that was started for an
    earlier time is left to run, and looks what is due when it ends: so most requests come and go without a timer of
    their own. Call :meth:`start_timer` where :attr:`timer_at` is later than what is due."""

    __slots__ = ("_loop", "_passed", "_timer", "due", "timer_at")

    def __init__(self, passed: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._passed = passed
        self._timer: asyncio.Handle | None = None
        self.due: float | None = None
        self.timer_at = math.inf

    def start_timer(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.due = self.timer_at = due
        self._timer = self._loop.call_at(due, self._look)

    def close(self) -> None:
        """End it. It forgets whom to call, so that reference counts alone free what has it."""
        self.due = None
        self.timer_at = -math.inf
        self._passed = _nobody
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self.timer_at = math.inf
        if self.due is None:
            return
        if self.due > self._loop.time():
            self.start_timer(self.due)
        else:
            # Later: after a pause of the whole process, what came is read in the turn that this timer is due in.
            self._timer = self._loop.call_soon(self._end, self.due)

    def _end(self, due: float) -> None:
        if self.due == due:
            self._passed()
        elif self.due is not None and self.timer_at > self.due:
            self.start_timer(self.due)


class UntakenAnswer:
    """Hold what the client of one connection has not taken yet, and cut the connection after ``timeout`` seconds."""

    __slots__ = ("_caller", "_held", "_size", "_timeout", "_timer")

    def __init__(self, held: HeldAnswers, timeout: float) -> None:
        self._held = held
        self._timeout = timeout
        self._caller = ""
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, caller: str, transport: asyncio.Transport) -> None:
        """Count what ``transport`` could not send at once. ``caller`` is whose it is, see :class:`HeldAnswers`."""
        self._caller, self._size = caller, transport.get_write_buffer_size()
        self._held.add(caller, self._size)
        self._timer = asyncio.get_running_loop().call_later(self._timeout, self._cut, transport)

    def end(self) -> None:
        """Note that nothing waits any more: all is sent, or the connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._held.remove(self._caller, self._size)

    def _cut(self, transport: asyncio.Transport) -> None:
        """End the connection and drop what waits. Closing it would wait for the client."""
        waiting = transport.get_write_buffer_size()
        log.info("connection cut", reason="the client did not take its answer", seconds=self._timeout, bytes=waiting)
        transport.abort()


def _nobody() -> None:
    """Do nothing."""
