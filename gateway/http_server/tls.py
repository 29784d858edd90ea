"""TLS below a connection: decrypt what the client sends, encrypt what it is sent.

OpenSSL works on two buffers in memory (:class:`ssl.SSLObject`), and the socket's transport moves the bytes. asyncio has
the same, but without the bounds of this server: it holds 300 KiB for each client that sends nothing, takes a response
of any size for sent although nobody reads it, and ends a response where the client has sent its last byte.
"""

import asyncio
import ssl
from contextlib import suppress
from typing import Any, Final, cast

from gateway.errors import MalformedHttp
from gateway.http_server.connection import Connection
from gateway.http_server.handler import Serving

_RECORD: Final = 16 * 1024
"""Bytes that are encrypted at a time, the most in a record (RFC 8446 §5.1): OpenSSL never shrinks a buffer."""
_NOT_TLS: Final = "This port speaks HTTP over TLS: write https:// in place of http://"


class TlsTransport(asyncio.Transport, asyncio.BufferedProtocol):
    """Be the transport of a :class:`Connection`, and the protocol of the socket's transport. The connection begins with
    the socket, before the handshake: so its time for the first head, its place in the limits and its end hold for the
    handshake too."""

    __slots__ = (
        "_connection", "_decrypt", "_has_eof", "_incoming", "_is_closed", "_is_open", "_is_paused", "_loop",
        "_outgoing", "_serving", "_socket", "_tls",
    )  # fmt: skip

    def __init__(self, context: ssl.SSLContext, connection: Connection, serving: Serving) -> None:
        super().__init__()
        self._socket: asyncio.Transport  # from connection_made on
        self._connection = connection
        self._serving = serving
        self._loop = asyncio.get_running_loop()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._decrypt: Any = self._tls.read  # typeshed knows no memoryview here
        self._is_open = False  # the handshake is over
        self._is_closed = False  # nothing more is sent, and what comes is dropped
        self._is_paused = self._has_eof = False

    # The socket's transport calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        self._connection.connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._serving.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_closed:
            self._connection.buffer_updated(nbytes)  # which counts, and drops it
            return
        self._incoming.write(self._serving.buffer[:nbytes])
        # A handshake takes a millisecond: those of thousands must delay no request.
        if self._is_open or self._serving.ahead.has_turn():
            self._go_on()
        else:
            self._serving.ahead.wait_for_turn(self)

    def eof_received(self) -> bool:
        if self._is_closed or not self._is_open:
            return self._connection.eof_received()
        self._incoming.write_eof()
        self._go_on()
        return True

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    # The connection calls these.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._socket.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._socket.is_closing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._socket.get_write_buffer_size()

    def abort(self) -> None:
        self._socket.abort()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_open or self._is_closed:
            return
        parts = (memoryview(data)[start : start + _RECORD] for start in range(0, len(data), _RECORD))
        self._socket.write(b"".join(map(self._encrypt, parts)))  # at once: what waits is counted at its first byte

    def pause_reading(self) -> None:
        self._is_paused = True
        if not self.is_closing():
            self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        if not (self._has_eof or self.is_closing()):
            self._socket.resume_reading()
            self._loop.call_soon(self._go_on)  # with what OpenSSL still holds

    read_on = resume_reading  # its turn for the handshake has come

    def write_eof(self) -> None:
        self._say_end()
        self._socket.write_eof()

    def close(self) -> None:
        self._say_end()
        self._socket.close()

    def _go_on(self) -> None:
        """Shake hands, then give the connection what has arrived."""
        try:
            if not self._is_open and not self.is_closing():
                self._tls.do_handshake()
                self._is_open = True
            while not (self._is_paused or self._is_closed or self._has_eof or self.is_closing()):
                self._has_eof = self._read()
                if self._has_eof:
                    self.pause_reading()  # what follows the end would be kept for nobody
                    self._connection.eof_received()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._fail(error)
        self._flush()

    def _read(self) -> bool:
        """Give the connection all that fits into its buffer: records may be of one byte each. Return whether the client
        sends no more: it may say so (RFC 8446 §6.1), or just end the connection. Raises :class:`ssl.SSLError`."""
        buffer, filled = self._connection.get_buffer(-1), 0
        try:
            while filled < len(buffer) and (count := self._decrypt(len(buffer) - filled, buffer[filled:])):
                filled += count
        except ssl.SSLEOFError:
            pass
        finally:
            if filled:
                self._connection.buffer_updated(filled)
        return filled < len(buffer)

    def _encrypt(self, part: memoryview) -> bytes:
        self._tls.write(part)
        return self._outgoing.read()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._socket.write(self._outgoing.read())

    def _say_end(self) -> None:
        """Tell the client that nothing follows, so that a response that was cut is seen to be."""
        if self._is_open and not self._is_closed:
            with suppress(ssl.SSLError):  # the client has not said the same yet
                self._tls.unwrap()
            self._flush()
        self._is_closed = True

    def _fail(self, error: ssl.SSLError) -> None:
        self._flush()  # why, as an alert
        if error.reason == "HTTP_REQUEST":
            self._socket.write(self._serving.handler.raw_refusal(MalformedHttp(_NOT_TLS)))
        self._serving.log_malformed((error.reason or "none given").replace("_", " ").lower())
        self._is_closed = True
        self._socket.close()
