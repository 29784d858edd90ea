"""Carry whole messages over a WebSocket (RFC 6455), each in one text message.

aiohttp makes the handshake, with its proxies, TLS and credentials, and follows no redirect: it would carry the headers
of a credential to another origin. From then on the connection is ours, and ``websockets`` reads and writes the frames:
aiohttp's reader tells nobody how much it holds of a message, and reads all that comes in one turn (decision 21).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import aiohttp
from websockets.exceptions import PayloadTooBig
from websockets.frames import DATA_OPCODES
from websockets.protocol import OPEN, Protocol, Side
from websockets.utils import accept_key, generate_key

from gateway.http_client.response import ConnectFailed, EndedUnsent, OutboundError
from gateway.http_client.streams import PerSecond, Stream

_PART: Final = 512
"""Bytes that are read in one step. A frame of the least size takes some microseconds."""
_SMALL: Final = 64
_MOST_SMALL: Final = 10_000
"""Control frames, empty ones and small pieces of a message that may come in a second."""
_NORMAL_CLOSURE: Final = 1000


class Handshake:
    """Open a WebSocket with these headers (RFC 6455 §4.1)."""

    def __init__(self) -> None:
        self._key = generate_key()
        self.headers: Final = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": self._key,
        }

    def is_accepted(self, status: int, headers: Mapping[str, str]) -> bool:
        """Return whether this answer opens one."""
        return (
            status == 101
            and headers.get("Upgrade", "").lower() == "websocket"
            and "upgrade" in headers.get("Connection", "").lower()
            and headers.get("Sec-WebSocket-Accept", "") == accept_key(self._key)
        )


class UnusableWebSocket(ValueError):
    """Raised where the other side closes the WebSocket, or breaks its rules."""


class WebSocketFrames:
    """Write and read the frames of one WebSocket. A message that comes has at most ``most`` bytes."""

    def __init__(self, most: int) -> None:
        self._protocol = Protocol(Side.CLIENT, max_size=most)
        self._begun = bytearray()
        """The payloads of the frames of an unfinished message."""
        self._small = PerSecond(_MOST_SMALL)
        self._owes = False
        self._since_frame = 0
        """Bytes that came after the last whole frame, and some of it."""

    @property
    def unfinished(self) -> int:
        return len(self._begun) + self._since_frame

    def wrap(self, message: bytes) -> bytes:
        """Return the bytes to send for a message, and what is :meth:`owed` before it. Raises :class:`EndedUnsent` where
        a close frame has come: what stands before it may not all be taken yet."""
        if self._protocol.state is not OPEN:
            raise EndedUnsent
        self._protocol.send_text(message)
        return b"".join(self._protocol.data_to_send())

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the messages that are complete with these bytes, and nothing after each few kilobytes. Raises
        :class:`UnusableWebSocket`."""
        protocol = self._protocol
        for at in range(0, len(data), _PART):
            part = data[at : at + _PART]
            protocol.receive_data(part)
            self._since_frame += len(part)
            for frame in protocol.events_received():
                self._since_frame = 0
                yield self._message_with(frame)
            if protocol.state is not OPEN:
                self._owes = True
                raise UnusableWebSocket(self._reason())
            if self._since_frame:
                yield b""

    def owed(self) -> bytes:
        """Return pongs, and the answer to a close frame (RFC 6455 §5.5)."""
        if not self._owes:
            return b""
        self._owes = False
        return b"".join(self._protocol.data_to_send())

    def farewell(self) -> bytes:
        if self._protocol.state is OPEN:
            self._protocol.send_close(_NORMAL_CLOSURE)
        return b"".join(self._protocol.data_to_send())

    def _message_with(self, frame: Any) -> bytes:
        """Return the message that a frame completes, or nothing."""
        if frame.opcode not in DATA_OPCODES:
            self._owes = True
            self._note_small()
            return b""
        if not frame.data or (len(frame.data) < _SMALL and not frame.fin):
            self._note_small()
        if frame.fin and not self._begun:
            return bytes(frame.data)
        self._begun += frame.data
        if not frame.fin:
            return b""
        message, self._begun = bytes(self._begun), bytearray()
        return message

    def _note_small(self) -> None:
        if self._small.is_over():
            raise UnusableWebSocket("it brought too many frames without messages")

    def _reason(self) -> str:
        fault = self._protocol.parser_exc
        if fault is None:
            return "the service closed it"
        return "a message was too large" if isinstance(fault, PayloadTooBig) else "its frames break RFC 6455"


class _Ahead:
    """Take what aiohttp has read behind the answer to the handshake. Its protocol hands it to its parser alone."""

    def __init__(self) -> None:
        self.data = bytearray()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self.data += data
        return False, b""

    def feed_eof(self) -> None:
        """Do nothing: the stream is told of the end."""


def take_over(
    answer: aiohttp.ClientResponse,
    most: int,
    on_message: Callable[[bytes], bytes | None],
    on_held: Callable[[int], None],
    on_end: Callable[[OutboundError], None],
    patience: float,
) -> Stream:
    """Return a stream of messages on the connection of the answer to a handshake, which aiohttp reads no more. For the
    arguments see :class:`Stream` and :class:`WebSocketFrames`. Raises :class:`ConnectFailed`."""
    connection = answer.connection
    transport = None if connection is None else connection.transport
    if connection is None or connection.protocol is None or transport is None:
        raise ConnectFailed("its connections end at once")
    handler, ahead = connection.protocol, _Ahead()

    def end(error: OutboundError) -> None:
        handler.connection_lost(None)  # aiohttp waits for that where it closes its session
        answer.close()
        on_end(error)

    stream = Stream(WebSocketFrames(most), on_message, on_held, end, patience)
    handler.set_parser(ahead, None)
    transport.set_protocol(stream)
    stream.connection_made(transport)
    if ahead.data:
        stream.data_received(bytes(ahead.data))
    return stream
