"""Bound the time that a client may take for the head of a request, and for its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from gateway.web.held_answers import HeldAnswers

HEAD_TIMEOUT: Final = 10.0
"""Seconds for the head of a request to arrive, from the connection or from its first byte on."""

MAX_HEAD: Final = 64 * 1024
"""Bytes of a head that is not complete. The parser bounds lines and their number, which allow a megabyte together."""
MAX_AHEAD: Final = 512 * 1024
"""Bytes of requests that are sent before the answer to an earlier one."""

log = structlog.get_logger()


class HeadDeadline:
    """Call ``passed`` where a head does not arrive in time. ``since`` is when it was awaited first, by the clock of the
    loop; None while none is awaited. A timer that was started for an earlier head is left to run, and looks what is due
    when it ends: so most requests come and go without a timer of their own."""

    def __init__(self, passed: Callable[[], None]) -> None:
        self.since: float | None = None
        self.has_timer = False
        self._loop = asyncio.get_running_loop()
        self._passed = passed
        self._timer: asyncio.Handle | None = None

    def start_timer(self, seconds: float = HEAD_TIMEOUT) -> None:
        self.has_timer = True
        self._timer = self._loop.call_later(seconds, self._look)

    def close(self) -> None:
        self.since = None
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self.has_timer = False
        if self.since is None:
            return
        left = self.since + HEAD_TIMEOUT - self._loop.time()
        if left > 0:
            self.start_timer(left)
        else:
            # Later: after a pause of the whole process, the head is read in the turn that this timer is due in.
            self._timer = self._loop.call_soon(self._end)

    def _end(self) -> None:
        if self.since is not None:
            self._passed()


class UntakenAnswer:
    """Hold what the client of one connection has not taken yet, and cut the connection after ``timeout`` seconds."""

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
