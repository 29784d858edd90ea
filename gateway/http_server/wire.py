"""The bytes that go to one client, and those of them that it does not take."""

from __future__ import annotations

import asyncio
from typing import cast

from gateway.http_server.held_bytes import HeldAnswers
from gateway.http_server.slow_clients import UntakenAnswer


class Wire(asyncio.BufferedProtocol):
    """Send the bytes of answers to one client, and bound those that it does not take: see :class:`UntakenAnswer`."""

    __slots__ = (
        "_drained", "_is_reading_paused", "_untaken", "counted", "held", "is_blocked", "is_draining", "owner",
        "remote", "transport",
    )  # fmt: skip

    def __init__(self, held: HeldAnswers, write_timeout: float) -> None:
        self.transport: asyncio.Transport  # from connection_made on, before anybody has a request of it
        self.held = held
        self.owner = ""
        """Whose response is sent, "" until that is known."""
        self.is_draining = False
        """True where this answer is the last one, since the port closes."""
        self.is_blocked = False
        """True while bytes wait for the client."""
        self.remote = ""
        """The address at the other end."""
        self.counted = 0
        """Bytes of what the client sent ahead that are counted, see :class:`gateway.http_server.handler.SentAhead`."""
        self._is_reading_paused = False
        self._drained: asyncio.Future[None] | None = None
        self._untaken = UntakenAnswer(held, write_timeout)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        address = transport.get_extra_info("peername")
        self.remote = str(address[0]) if address else ""
        self.transport.set_write_buffer_limits(high=0)  # pause_writing() is called for each byte that has to wait

    def connection_lost(self, exc: Exception | None) -> None:
        self._untaken.end()

    def pause_writing(self) -> None:
        self.is_blocked = True
        self._untaken.begin(self.owner, self.transport)
        self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        self._untaken.end()
        self.is_blocked = False
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    async def drain(self) -> None:
        """Return once the kernel has all bytes. Raise :class:`ConnectionResetError` where the client is gone."""
        if self._drained is not None:
            await self._drained
        if self.transport.is_closing():
            raise ConnectionResetError("the client is gone")

    def count_ahead(self) -> None:
        """Count anew what the client has sent and nobody has taken."""

    def pause_reading(self) -> None:
        """Let the client wait with what it sends."""
        if not self._is_reading_paused and not self.transport.is_closing():
            self._is_reading_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if self._is_reading_paused and not self.transport.is_closing():
            self._is_reading_paused = False
            self.transport.resume_reading()
