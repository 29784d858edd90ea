"""Services whose connections are lost in silence: the kernel drops what comes, and acknowledges nothing.

A socket filter does that (socket(7), SO_ATTACH_FILTER), which needs no rights. The other side sees what it would see if
the network were gone: no answer, no acknowledgment, no end.
"""

from __future__ import annotations

import asyncio
import ctypes
import socket
import struct
from collections.abc import AsyncIterator
from typing import Final

from tests.contract.transports import SocketStand, StreamStand, WebSocketStand

_ATTACH, _DETACH = 26, 27  # SO_ATTACH_FILTER, SO_DETACH_FILTER
_DROP_ALL: Final = struct.pack("HBBI", 0x06, 0, 0, 0)  # BPF_RET | BPF_K: keep 0 bytes


class Lost(SocketStand):
    """A service on a socket that can lose its connections."""

    def __init__(self) -> None:
        super().__init__()
        self.loses_all = False
        """Says that new connections are lost from the start; a WebSocket once its handshake is over."""
        self._open: list[socket.socket] = []
        self._lost: list[socket.socket] = []

    def lose(self) -> None:
        """Drop all that comes on the connections that are open now."""
        for one in self._open:
            self._drop(one)

    def _drop(self, one: socket.socket) -> None:
        code = ctypes.create_string_buffer(_DROP_ALL)
        one.setsockopt(socket.SOL_SOCKET, _ATTACH, struct.pack("@HP", 1, ctypes.addressof(code)))
        self._lost.append(one)

    def find(self) -> None:
        """Take what comes again, also what was sent meanwhile."""
        for one in self._lost:
            one.setsockopt(socket.SOL_SOCKET, _DETACH, 0)
        self._lost.clear()

    async def take_all(self, messages: AsyncIterator[bytes], writer: asyncio.StreamWriter) -> None:
        ours = writer.get_extra_info("socket")
        self._open.append(ours)
        if self.loses_all:
            self._drop(ours)
        try:
            await super().take_all(messages, writer)
        finally:
            self._open.remove(ours)
            if ours in self._lost:
                self._lost.remove(ours)


class LostStream(Lost, StreamStand):
    """The same over TCP."""

    framing = "newline"


class LostWebSocket(Lost, WebSocketStand):
    """The same over WebSocket."""
