"""Limit the time that a client may take to send a request, and to read its response."""

import asyncio
import math
from collections.abc import Callable

import structlog

from gateway.http_server.held_bytes import HeldBytes

log = structlog.get_logger()


class Deadline:
    """Call ``on_expiry`` when the loop's clock reaches :attr:`due`, which may be set to None at any time. A timer for
    an earlier time keeps running, and looks at ``due`` when it ends: so most requests need no timer of their own."""

    __slots__ = ("_loop", "_on_expiry", "_timer", "_timer_at", "due")

    def __init__(self, on_expiry: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_expiry = on_expiry
        self._timer: asyncio.Handle | None = None
        self._timer_at = math.inf
        self.due: float | None = None

    def expire_in(self, seconds: float) -> None:
        due = self.due = self._loop.time() + seconds
        if self._timer_at > due:
            self._start_timer(due)

    def close(self) -> None:
        """Stop the timer, and drop the reference to the owner, so that reference counts alone free it."""
        self.due = None
        self._timer_at = -math.inf
        self._on_expiry = lambda: None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start_timer(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = self._loop.call_at(due, self._look)

    def _look(self) -> None:
        self._timer_at = math.inf
        if self.due is None:
            return
        if self.due > self._loop.time():
            self._start_timer(self.due)
        else:
            # Later: after a pause of the whole process, what came is read in the turn that this timer is due in.
            self._timer = self._loop.call_soon(self._expire, self.due)

    def _expire(self, due: float) -> None:
        if self.due == due:
            self._on_expiry()
        elif self.due is not None and self._timer_at > self.due:
            self._start_timer(self.due)


class UnreadResponse:
    """Count the response bytes that one client has not read, and close its connection after ``timeout`` seconds."""

    __slots__ = ("_caller", "_held", "_size", "_timeout", "_timer", "drained")

    def __init__(self, held: HeldBytes, timeout: float) -> None:
        self._held = held
        self._timeout = timeout
        self._caller = ""
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None
        self.drained: asyncio.Future[None] | None = None  # done once all bytes are sent; None while none wait

    def begin(self, caller: str, transport: asyncio.Transport) -> None:
        """Count what ``transport`` could not send at once. ``caller`` is whose it is, see :class:`HeldBytes`."""
        loop = asyncio.get_running_loop()
        self._caller, self._size = caller, transport.get_write_buffer_size()
        self._held.add(caller, self._size)
        self._timer = loop.call_later(self._timeout, self._abort, transport)
        self.drained = loop.create_future()

    def end(self) -> None:
        """Note that all bytes are sent, or that the connection is gone."""
        drained, self.drained = self.drained, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._held.remove(self._caller, self._size)
        if drained is not None and not drained.done():
            drained.set_result(None)

    def _abort(self, transport: asyncio.Transport) -> None:
        """End the connection and drop what waits. Closing it would wait for the client."""
        waiting = transport.get_write_buffer_size()
        log.info("connection cut", reason="the client did not read its response", seconds=self._timeout, bytes=waiting)
        transport.abort()
