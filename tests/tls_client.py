"""A client of TLS that a test drives byte by byte. It can say its last word and still read, which asyncio's cannot.

async with TlsClient(gateway.port, authority.file) as client:
    await client.shake_hands()
    client.write(b"GET / HTTP/1.1\\r\\n...")
    client.write_eof()
    await client.reader.read()
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Self


class TlsClient:
    """A connection to a port of this machine. ``raw`` are the bytes below TLS. What the server sends is in ``reader``,
    which ends with the server's last word (``said_end``) or, without that, with the connection."""

    def __init__(
        self, port: int, authority: Path, address: str = "127.0.0.1", context: ssl.SSLContext | None = None
    ) -> None:
        self.reader = asyncio.StreamReader(limit=2**24)
        self.said_end = False
        self._port, self._address = port, address
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = context or ssl.create_default_context(cafile=str(authority))
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")
        self._pumping: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        bare = socket.socket()
        bare.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        bare.setblocking(False)
        bare.bind((self._address, 0))
        await asyncio.get_running_loop().sock_connect(bare, ("127.0.0.1", self._port))
        self.raw, self.raw_writer = await asyncio.open_connection(sock=bare)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._pumping is not None:
            self._pumping.cancel()
        self.raw_writer.transport.abort()

    def hello(self) -> bytes:
        """The first bytes of the handshake, unsent."""
        with suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self._outgoing.read()

    async def shake_hands(self) -> None:
        """Raise ssl.SSLError, or ConnectionError where the server ends it without a word."""
        self.raw_writer.write(self.hello())
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.flush()
                if not (data := await self.raw.read(2**16)):
                    raise ConnectionResetError("the server ended the handshake") from None
                self._incoming.write(data)
        self.flush()
        self._pumping = asyncio.create_task(self._pump())

    def encrypted(self, data: bytes) -> bytes:
        """What stands for these bytes on the wire."""
        self.tls.write(data)
        return self._outgoing.read()

    def write(self, data: bytes) -> None:
        self.raw_writer.write(self.encrypted(data))

    def say_end(self) -> None:
        """Send close_notify alone: nothing follows, and the connection stays."""
        with suppress(ssl.SSLError):
            self.tls.unwrap()
        self.flush()

    def write_eof(self) -> None:
        self.say_end()
        self.raw_writer.write_eof()

    def flush(self) -> None:
        self.raw_writer.write(self._outgoing.read())

    def stop_reading(self) -> None:
        self.raw_writer.transport.pause_reading()  # type: ignore[attr-defined]

    def read_on(self) -> None:
        self.raw_writer.transport.resume_reading()  # type: ignore[attr-defined]

    async def _pump(self) -> None:
        with suppress(ConnectionError, ssl.SSLError):  # an alert is an end, too
            while data := await self.raw.read(2**16):
                self._incoming.write(data)
                with suppress(ssl.SSLWantReadError):
                    self._take()
        self.reader.feed_eof()

    def _take(self) -> None:
        try:
            while data := self.tls.read(2**16):
                self.reader.feed_data(data)
        except ssl.SSLZeroReturnError:
            data = b""
        if not data:
            self.said_end = True
