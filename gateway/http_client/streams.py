"""Carry whole messages over a stream: TCP, TLS, a Unix socket, and the WebSockets on them.

* A service that sends without pause takes a small part of each turn of the event loop: a connection whose part is over
  reads no more until it is the next of all those that wait.
* What the other side's kernel has not acknowledged for two seconds makes a connection silent: the network may have lost
  it. It may come back, too.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, Protocol, cast
from weakref import WeakKeyDictionary

from gateway.concurrency.turns import OneEachTurn
from gateway.http_client.response import CHUNK, EndedUnsent, Interrupted, OutboundError

_SLICE: Final = 0.002
"""Seconds of one turn of the event loop that one connection may have."""
_MOST_AT_ONCE: Final = 256_000
"""Bytes that are read of one connection in one turn. As much is read at once, by either event loop: by uvloop up to 32
times in one turn, and its clock goes on meanwhile."""
_FEW: Final = 4 * 1024
"""Bytes at once that take less time than that in any case. Behind so few there are no others in this turn."""
_SILENCE: Final = 2.0
"""Seconds for which nothing was acknowledged, with which a connection is silent."""
_CLOSING: Final = 1.0
"""Seconds for the other side to read the last bytes."""
_KEEP_ALIVE: Final = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
_UNACKED, _LAST_ACK, _INFO_SIZE = 24, 56, 60  # offsets in Linux's struct tcp_info
_READING: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, OneEachTurn]] = WeakKeyDictionary()


class PerSecond:
    """Count what comes in each second, of which at most ``most`` may."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._since, self._count = 0.0, 0

    def is_over(self, count: int = 1) -> bool:
        """Return whether so many more are too many."""
        now = time.monotonic()
        if now - self._since > 1.0:
            self._since, self._count = now, 0
        self._count += count
        return self._count > self._most


class Codec(Protocol):
    """Make bytes of messages, and messages of bytes, on one connection."""

    @property
    def unfinished(self) -> int:
        """Return how many bytes are held of messages that are not complete."""
        ...

    def wrap(self, message: bytes, /) -> bytes:
        """Return the bytes to send. Raises :class:`EndedUnsent` where the other side reads no more."""
        ...

    def feed(self, data: bytes, /) -> Iterator[bytes]:
        """Yield messages, and nothing where the work was long. Raises :class:`ValueError`."""
        ...

    def owed(self) -> bytes:
        """Return what is to be sent back for what came, besides messages."""
        ...

    def farewell(self) -> bytes:
        """Return what is to be sent before the connection ends."""
        ...


class Stream(asyncio.Protocol):
    """Carry messages until one side ends. ``on_message`` takes each that comes and returns what to send back at once,
    ``on_held`` how many bytes are held of unfinished ones where they are many, ``on_end`` the end, once. The system
    ends a TCP connection on which nothing was acknowledged for ``patience`` seconds."""

    def __init__(
        self,
        codec: Codec,
        on_message: Callable[[bytes], bytes | None],
        on_held: Callable[[int], None],
        on_end: Callable[[OutboundError], None],
        patience: float,
    ) -> None:
        self._codec = codec
        self._on_message = on_message
        self._on_held = on_held
        self._on_end = on_end
        self._patience = patience
        self._reason = "the connection ended before the answer did"
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._socket: socket.socket | None = None
        self._quiet_since: float | None = None
        """Since when something was not acknowledged, and nothing else was either."""
        self._steps: Iterator[bytes] | None = None
        """The rest of what is being read."""
        self._later = bytearray()
        """Bytes that came behind these."""
        self._is_paused = self._waits = False
        self._is_left = self._is_lost = self._is_told = False
        """Say that we ended it, that the transport has, and that ``on_end`` knows."""
        self._held = 0
        # What this connection had of the present turn.
        self._has_begun = False
        self._spent = 0.0
        self._read_bytes = 0

    async def wait_for_room(self) -> None:
        """Return once the other side has read what was sent before."""
        await self._may_write.wait()

    def send(self, message: bytes) -> None:
        """Give a message to the socket. Raises :class:`EndedUnsent`."""
        if self._is_lost or self._transport.is_closing():
            raise EndedUnsent
        self._transport.write(self._codec.wrap(message))

    def close(self) -> None:
        """Read no more, and close the connection: now, or once the other side has read a farewell."""
        self._leave(b"" if self._transport.is_closing() else self._codec.farewell())

    def end(self, reason: str) -> None:
        """Close the connection now. Calls on it are told this reason."""
        self._reason = f"the connection ended, {reason}"
        self._leave(b"")

    def _leave(self, last: bytes) -> None:
        self._is_left = True
        if not last:
            self._transport.abort()
            return
        self._transport.write(last)
        self._transport.close()
        self._loop.call_later(_CLOSING, self._transport.abort)

    def is_silent(self) -> bool:
        """Return whether what was sent has not been acknowledged for a while, as far as the system tells. To be called
        more often than that."""
        if self._socket is None or self._transport.is_closing():
            return False
        info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_SIZE)
        unacked, last_ack = (int.from_bytes(info[at : at + 4], sys.byteorder) for at in (_UNACKED, _LAST_ACK))
        now = time.monotonic()
        if not unacked:
            self._quiet_since = None
        elif self._quiet_since is None or now - last_ack / 1000 > self._quiet_since:
            self._quiet_since = now
        return self._quiet_since is not None and now - self._quiet_since >= _SILENCE

    # asyncio calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no instance
        ours = transport.get_extra_info("socket")
        if ours is None or ours.family not in (socket.AF_INET, socket.AF_INET6):
            return
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEP_ALIVE.items():
            if hasattr(socket, name):
                ours.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        if sys.platform == "linux":
            ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(self._patience * 1000))
            self._socket = ours

    def data_received(self, data: bytes) -> None:
        is_timed = len(data) > _FEW
        if is_timed:
            if not self._has_begun:
                self._has_begun = True
                self._loop.call_soon(self._end_turn)
            self._read_bytes += len(data)
        if self._is_paused:  # some event loops give what they had read before
            self._later += data
            return
        self._steps = self._codec.feed(data)
        self._read(is_timed=is_timed)

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._may_write.set()
        self._socket, self._is_lost = None, True
        if self._is_left or not self._waits:
            self._tell_end()  # else what had come before the end is read first: TLS tells of the end before that

    def _tell_end(self) -> None:
        self._steps, self._later = None, bytearray()
        if not self._is_told:
            self._is_told = True
            self._on_held(0)
            self._on_end(Interrupted(self._reason))

    def _end_turn(self) -> None:
        self._has_begun, self._spent, self._read_bytes = False, 0.0, 0

    def _read(self, *, is_timed: bool) -> None:
        """Take the messages that have come, as far as there is time in this turn. A few need no look at the time."""
        began = time.monotonic() if is_timed else 0.0
        try:
            is_over = self._take_messages(began + _SLICE - self._spent if is_timed else None)
        except ValueError as error:
            self._reason = f"the connection ended, {error}"
            self._leave(self._codec.owed())
            return
        if self._is_left:
            self._steps = None
            return
        if is_timed:
            self._spent += time.monotonic() - began
        if (owed := self._codec.owed()) and self._may_write.is_set() and not self._transport.is_closing():
            self._transport.write(owed)
        if is_over:
            self._steps = None
        held = self._codec.unfinished + len(self._later)
        if held > CHUNK or self._held:
            self._held = held
            self._on_held(held)
        if not is_over or self._read_bytes >= _MOST_AT_ONCE:
            self._wait_for_turn()

    def _take_messages(self, until: float | None) -> bool:
        """Return whether there are no more."""
        for message in self._steps or ():
            answer = self._on_message(message) if message else None
            # Without room it is left out. To read no more until there is room could hold up both sides for ever.
            if answer is not None and self._may_write.is_set():
                with suppress(EndedUnsent):
                    self.send(answer)
            if self._is_left or (until is not None and time.monotonic() >= until):
                return False
        return True

    def _wait_for_turn(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            if not self._transport.is_closing():
                self._transport.pause_reading()
        self._waits = True
        OneEachTurn.of(_READING).add(self._go_on)

    def _go_on(self) -> None:
        """Read on: it is the turn of this connection."""
        self._waits = False
        self._spent, self._read_bytes = 0.0, 0
        if self._steps is None and self._later:
            self._steps, self._later = self._codec.feed(bytes(self._later)), bytearray()
        if self._steps is not None and not self._is_left:
            self._read(is_timed=True)
        if self._is_left:
            if self._is_lost:
                self._tell_end()
        elif self._later and not self._waits:
            self._wait_for_turn()
        elif self._is_lost and not self._waits:
            self._tell_end()
        elif not self._waits:
            self._is_paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()
