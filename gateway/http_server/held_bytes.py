"""Limit the memory held by bodies, by responses being read from backends, and by those that clients have not read."""

import asyncio
import ctypes
from collections import Counter
from typing import Final

import structlog

from gateway.concurrency.collector import COLLECTOR
from gateway.errors import Overloaded
from gateway.http_server.refusal_log import RefusalLog

_SHARE: Final = 4  # one caller may hold a quarter of the maximum, so that one alone makes no other wait (decision 30)
_FULL: Final = 7 / 8
"""The part of the maximum from which only callers that hold nothing are let in. The rest is for their responses."""
_OVER: Final = 17 / 16
"""How much of the maximum such callers may fill. Small responses need no room: they are read at once."""
_LARGE: Final = 5 / 8
"""The part of the maximum for the values of large bodies and results. So calls with small ones go on."""
_SMALL: Final = 32 * 1024  # bytes of one body or result for which there is always room, once a call is let in
_RETRY_AFTER: Final = 5
_UNSENT: Final = "; the call was not sent, so it is safe to repeat"
_OTHERS: Final = f"The gateway holds too many answers and bodies of slow clients{_UNSENT}"
_YOURS: Final = f"Too many of your answers and bodies are held: read or send faster{_UNSENT}"
_REMEDY: Final = "raise the knob if the memory allows it, or look whose clients are slow"
_MUCH: Final = 2 * 1024 * 1024  # bytes from which it is worth it: less is soon used again
_LITTLE: Final = 1 / 4  # the part of the highest number that was held, below which most of it is free
_DELAY: Final = 4.0  # seconds until memory is given back, so that collections take a hundredth of the time at most
_trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)  # function of glibc; it does nothing elsewhere

log = structlog.get_logger()


class HeldBytes:
    """Count bytes in memory: large responses while they are read from backends, bodies until they are whole, values of
    requests until these end, and response bytes that the kernel did not accept. ``most`` is ``server.max_buffered``,
    ``most_large`` the part of large bodies and results, ``share`` of one caller. Hot paths may change :attr:`bytes`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = 0
        self.most_large = int(most * _LARGE)
        self._full = int(most * _FULL)
        self.share = most // _SHARE
        self.by_owner: Counter[str] = Counter()  # bytes of callers' bodies, and of responses that wait for them
        self._log = RefusalLog("calls", "server.max_buffered")
        self._log_large = RefusalLog("large bodies and results", "server.max_buffered")
        self._freed = FreedMemory()

    def check(self, owner: str) -> None:
        """Raise :class:`Overloaded` if too much is held, by all or by this owner; never while it is below ``share``."""
        own = self.by_owner[owner]
        if self.bytes >= self._full and (own or self.is_over(0)):
            self._log.count("", self.most, _REMEDY)
            raise Overloaded(_OTHERS, retry_after=_RETRY_AFTER)
        if own >= self.share:
            raise Overloaded(_YOURS, retry_after=_RETRY_AFTER)

    def is_over(self, size: int) -> bool:
        """Return whether there is no room for a body, however small. Many may be let in before any is counted."""
        return self.bytes + size >= self.most * _OVER

    def take(self, owner: str, size: int, own: int, *, is_text: bool) -> bool:
        """Count ``size`` more bytes of a request that holds ``own``, or return False. One alone may exceed a share."""
        if is_text:
            if self.bytes + size > self.most:
                return False
        elif own + size > _SMALL:
            of_owner = self.by_owner[owner]
            if self.bytes + size > self.most_large or (of_owner != own and of_owner + size > self.share):
                return False
        self.add(owner, size)
        return True

    def no_room(self, owner: str) -> Overloaded:
        """Return the error for a body if there is no room for it."""
        if self.by_owner[owner] >= self.share // 2:
            return Overloaded(_YOURS, retry_after=_RETRY_AFTER)
        self._log_large.count("", self.most_large, _REMEDY)
        return Overloaded(f"The gateway holds too many large bodies and results{_UNSENT}", retry_after=_RETRY_AFTER)

    def reserve(self, size: int) -> bool:
        """Count bytes that were read, or, with a negative ``size``, passed on. Return whether there is room."""
        if size > 0 and self.bytes + size > self.most:
            self._log.count("", self.most, _REMEDY)
            return False
        self.bytes += size
        self._freed.note(self.bytes)
        if size < 0:
            self._log.note("", self.bytes, self._full)
        return True

    def reserve_listing(self, size: int) -> bool:
        """Like :meth:`reserve`, for a listing. It may exceed the maximum while little else is held: else no tools."""
        if size > 0 and self.bytes <= self.share:
            self.bytes += size
            return True
        return self.reserve(size)

    def add(self, owner: str, size: int) -> None:
        """Count ``size`` bytes that begin to wait for ``owner``."""
        self.bytes += size
        self._freed.note(self.bytes)
        self.by_owner[owner] += size

    def remove(self, owner: str, size: int) -> None:
        """Count the end of what :meth:`add` or :meth:`take` counted."""
        self.bytes -= size
        self._freed.note(self.bytes)
        self._log.note("", self.bytes, self._full)
        self._log_large.note("", self.bytes, self.most_large)
        self.by_owner[owner] -= size
        if not self.by_owner[owner]:
            del self.by_owner[owner]


class FreedMemory:
    """Give memory back to the system when most of what was held is free: the C library would keep it."""

    def __init__(self) -> None:
        self._most = 0
        self._timer: asyncio.TimerHandle | None = None

    def note(self, held: int) -> None:
        if held > self._most:
            self._most = held
        elif self._most > _MUCH and held < self._most * _LITTLE and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_DELAY, self._give_back)
            self._most = held

    def _give_back(self) -> None:
        self._timer = None
        COLLECTOR.collect()  # errors and tasks refer to each other in circles, and to bodies
        _trim(0)


class UnreadResponse:
    """Count the response bytes that one client has not read, and close its connection after ``timeout`` seconds."""

    __slots__ = ("_caller", "_held", "_size", "_timeout", "_timer", "drained", "since")

    def __init__(self, held: HeldBytes, timeout: float) -> None:
        self._held = held
        self._timeout = timeout
        self._caller = ""
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None
        self.since = 0.0  # when the client fell behind with responses that it asked for together, 0 if it did not
        self.drained: asyncio.Future[None] | None = None  # done once all bytes are sent; None while none wait

    def begin(self, caller: str, transport: asyncio.Transport) -> None:
        """Count what ``transport`` could not send at once. ``caller`` is whose it is, see :class:`HeldBytes`."""
        loop = asyncio.get_running_loop()
        self._caller, self._size = caller, transport.get_write_buffer_size()
        self._held.add(caller, self._size)
        self._timer = loop.call_later(self._timeout, self._abort, transport)
        self.drained = loop.create_future()
        self.since = self.since or loop.time()

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
