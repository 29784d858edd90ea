"""Carry whole messages over a WebSocket (RFC 6455), each in one text message.

The handshake follows no redirect: aiohttp would carry the headers of a credential to another origin.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Literal

import aiohttp

from gateway.http_client.response import EndedUnsent, Interrupted, OutboundError

_DATA: Final = (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY)


async def refuse_redirects(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Return the answer to a handshake, a middleware of aiohttp's. Raise what any other than 101 raises."""
    answer = await handler(request)
    if answer.status == 101:
        return answer
    answer.close()
    raise aiohttp.WSServerHandshakeError(
        answer.request_info, (), message="refused", status=answer.status, headers=answer.headers
    )


class WebSocket:
    """Carry messages until one side ends. ``on_message`` takes each that comes and returns what to send back at once,
    ``on_end`` takes the end, once."""

    def __init__(
        self,
        socket: aiohttp.ClientWebSocketResponse[Literal[False]],
        on_message: Callable[[bytes], bytes | None],
        on_end: Callable[[OutboundError], None],
    ) -> None:
        self._socket = socket
        self._on_message = on_message
        self._on_end = on_end
        self._is_over = False
        self._reading = asyncio.create_task(self._read())

    async def wait_for_room(self) -> None:
        """Return at once: aiohttp waits for room behind a message, which the socket has then."""

    async def send(self, message: bytes) -> None:
        """Give a message to the socket. Raises :class:`EndedUnsent`, and :class:`Interrupted` if it ends meanwhile."""
        if self._is_over or self._socket.closed:
            raise EndedUnsent
        try:
            await self._socket.send_frame(message, aiohttp.WSMsgType.TEXT)
        except (aiohttp.ClientError, OSError) as error:
            raise Interrupted("the connection ended before the answer did") from error

    def abort(self) -> None:
        """Read no more, and close the WebSocket in the background, within a second."""
        self._is_over = True
        self._reading.cancel()

    async def _read(self) -> None:
        reason = "the gateway closed the connection"
        try:
            while (message := await self._socket.receive()).type in _DATA:
                if (answer := self._on_message(message.data)) is not None:
                    await self.send(answer)
            too_large = self._socket.close_code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG
            reason = f"the connection ended{', a message was too large' if too_large else ' before the answer did'}"
        except OutboundError as error:
            reason = str(error)
        finally:
            self._is_over = True
            self._on_end(Interrupted(reason))
            await self._socket.close()
