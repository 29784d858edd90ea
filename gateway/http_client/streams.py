"""Carry whole messages over a stream: TCP, TLS, or a Unix socket."""

import asyncio
from collections.abc import Callable, Iterable
from typing import cast

from gateway.http_client.response import EndedUnsent, Interrupted, OutboundError


class Stream(asyncio.Protocol):
    """Carry messages until one side ends. ``wrap`` makes bytes of a message, and ``feed`` messages of bytes, or raises
    :class:`ValueError`. ``on_message`` takes each that comes and returns what to send back at once, ``on_end`` takes
    the end, once."""

    _transport: asyncio.Transport

    def __init__(
        self,
        wrap: Callable[[bytes], bytes],
        feed: Callable[[bytes], Iterable[bytes]],
        on_message: Callable[[bytes], bytes | None],
        on_end: Callable[[OutboundError], None],
    ) -> None:
        self._wrap = wrap
        self._feed = feed
        self._on_message = on_message
        self._on_end = on_end
        self._reason = "the connection ended before the answer did"
        self._may_write = asyncio.Event()
        self._may_write.set()

    async def wait_for_room(self) -> None:
        """Return once the other side has read what was sent before."""
        await self._may_write.wait()

    async def send(self, message: bytes) -> None:
        """Give a message to the socket. Raises :class:`EndedUnsent`."""
        if self._transport.is_closing():
            raise EndedUnsent
        self._transport.write(self._wrap(message))

    def abort(self) -> None:
        """Close it now."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no instance

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._feed(data):
                answer = self._on_message(message)
                # Without room it is left out. To read no more until there is room could hold up both sides for ever.
                if answer is not None and self._may_write.is_set():
                    self._transport.write(self._wrap(answer))
        except ValueError as error:
            self._reason = f"the connection ended, {error}"
            self._transport.abort()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._may_write.set()
        self._on_end(Interrupted(self._reason))
