"""Frames of WebSocket (RFC 6455 §5.2), as a server writes and reads them."""

import asyncio
import struct

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def frame(content: bytes, kind: int = TEXT, *, final: bool = True) -> bytes:
    """A frame as servers send it, without a mask (RFC 6455 §5.2)."""
    size = len(content)
    if size < 126:
        length = bytes([size])
    else:
        length = struct.pack("!BH", 126, size) if size < 2**16 else struct.pack("!BQ", 127, size)
    return bytes([(0x80 if final else 0) | kind]) + length + content


async def read_frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The kind and the content of a client's frame."""
    kind, size = await reader.readexactly(2)
    size &= 0x7F
    if size > 125:
        width = 2 if size == 126 else 8
        size = int.from_bytes(await reader.readexactly(width))
    mask = await reader.readexactly(4)
    content = await reader.readexactly(size)
    return kind & 0x0F, bytes(byte ^ mask[at % 4] for at, byte in enumerate(content))
