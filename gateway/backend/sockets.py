"""Send JSON-RPC messages over connections that carry many of them, both ways: WebSocket, Unix and TCP sockets.

* A reply belongs to the call with its id, compared as text. An error without an id, and what is no message at all,
  belong to the call under way, if there is only one.
* What the service asks is answered, and what it tells is dropped and counted: no caller of ours knows of it.
* A message that was given to the socket counts as sent, whether the service read it or not.
* After a time-out in which nothing came, the connection gets no new calls: the other side may be gone without a word.
* Where answers have no ids, one message is under way at a time, and a connection ends with one that was given up.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

import structlog
from msgspec import Struct

from gateway.backend.http import handshake_reply
from gateway.backend.transport import Outgoing, Reply
from gateway.concurrency.single_flight import SingleFlight
from gateway.http_client import response
from gateway.http_client.response import CONNECT_TIMEOUT, HandshakeRefused, OutboundError
from gateway.http_client.streams import Stream
from gateway.http_client.websocket import WebSocket
from gateway.jsonrpc import NULL
from gateway.jsonrpc.response import answer_to_service, parse_head

_MOST_LINKS: Final = 3
"""Connections that are kept: for calls, for listings with a credential of their own, and for a login."""
_MOST_ATTEMPTS: Final = 2
"""Connections that a message is tried on, while nothing of it was sent."""

log = structlog.get_logger()


class _Awaited(Struct, eq=False):
    reply: asyncio.Future[Reply]
    max_bytes: int


class SocketTransport(ABC):
    """Send messages over connections that subclasses open. An unfinished message may hold ``room`` bytes of memory,
    which ``reserve`` counts while a connection has calls under way."""

    has_documents = False

    def __init__(self, room: int, reserve: Callable[[int], bool]) -> None:
        self.room = room
        self.reserve = reserve
        self._links: list[SocketLink] = []
        self._openings: SingleFlight[tuple[Any, ...], SocketLink] = SingleFlight()
        self._turn = asyncio.Lock()
        self._is_closed = False
        self.dropped = 0

    def __repr__(self) -> str:
        return f"<SocketTransport: {len(self._links)} connections, {self.dropped} messages dropped>"

    async def send(self, outgoing: Outgoing, *, timeout: float, max_bytes: int) -> Reply:
        """Send a message. Of a notification the reply is empty."""
        key = "" if outgoing.id is None else str(outgoing.id)
        link: SocketLink | None = None
        is_sent = has_turn = False
        try:
            async with asyncio.timeout(timeout):
                if outgoing.form.in_order:
                    await self._turn.acquire()
                    has_turn = True
                for _ in range(_MOST_ATTEMPTS):
                    link = self._usable(outgoing, key) or await self._open(outgoing)
                    try:
                        is_sent = True
                        return await link.exchange(key, outgoing, max_bytes)
                    except response.EndedUnsent:
                        is_sent = False
                raise response.ConnectFailed("its connections end at once")
        except TimeoutError:
            if link is None or not is_sent:
                raise response.NoConnection(f"no connection within {timeout:g} s") from None
            link.note_time_out(timeout)
            raise response.DeadlinePassed(f"no complete answer within {timeout:g} s") from None
        except HandshakeRefused as refused:
            return handshake_reply(refused, outgoing.parts)
        finally:
            if has_turn:
                self._turn.release()

    @abstractmethod
    async def connect(self, outgoing: Outgoing, link: SocketLink) -> WebSocket | Stream:
        """Return a connection for messages like this one, which tells ``link`` what comes. Raises
        :class:`~gateway.http_client.response.ConnectFailed` and
        :class:`~gateway.http_client.response.HandshakeRefused`."""

    async def close(self) -> None:
        """Close all connections. Calls under way end with :class:`~gateway.http_client.response.Interrupted`."""
        self._is_closed = True
        for link in [*self._links]:
            link.retire(at_once=True)

    def forget(self, link: SocketLink) -> None:
        if link in self._links:
            self._links.remove(link)

    def drop(self) -> None:
        """Count a message that belongs to no call."""
        self.dropped += 1
        if self.dropped == 1:
            log.info("the backend sends messages that belong to no call; they are dropped")

    def _usable(self, outgoing: Outgoing, key: str) -> SocketLink | None:
        """Return a connection with this credential, and without a message of the same id under way."""
        for link in self._links:
            if link.is_for(outgoing) and key not in link.waiters:
                return link
        return None

    async def _open(self, outgoing: Outgoing) -> SocketLink:
        if self._is_closed:
            raise response.ConnectFailed("the gateway has closed its connections")
        parts, framing = outgoing.parts, outgoing.form.framing
        key = (framing, *sorted(parts.headers.items()), None, *sorted(parts.query.items()))
        return await self._openings.join(key, lambda: self._open_link(outgoing))

    async def _open_link(self, outgoing: Outgoing) -> SocketLink:
        link = SocketLink(self, outgoing)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                link.connection = await self.connect(outgoing, link)
        except TimeoutError:
            raise response.ConnectFailed("no connection in time") from None
        if link.has_ended:
            raise response.ConnectFailed("its connections end at once")
        self._links.insert(0, link)
        if self._is_closed:
            link.retire(at_once=True)
        for other in self._links[_MOST_LINKS:]:
            other.retire()
        return link


class SocketLink:
    """Hold one connection, and who waits for what on it. ``waiters`` are by the id of their message."""

    connection: WebSocket | Stream

    def __init__(self, transport: SocketTransport, first: Outgoing) -> None:
        self._parts, self._framing = first.parts, first.form.framing
        self._is_in_order = False
        self.waiters: dict[str, _Awaited] = {}
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._received_at = self._loop.time()
        self._is_retired = False
        self.has_ended = False

    def is_for(self, outgoing: Outgoing) -> bool:
        """Return whether for another message the handshake and the framing would have been the same."""
        ours, theirs = self._parts, outgoing.parts
        is_known = ours is theirs or (ours.headers == theirs.headers and ours.query == theirs.query)
        return is_known and self._framing == outgoing.form.framing

    async def exchange(self, key: str, outgoing: Outgoing, max_bytes: int) -> Reply:
        """Send a message and return its reply, at once where ``key`` is "". Raises :class:`OutboundError`."""
        if self.has_ended or key in self.waiters:  # another waited for this connection, too
            raise response.EndedUnsent
        self._is_in_order = outgoing.form.in_order is True
        if not key:
            await self._give(outgoing.body)
            return Reply(b"")
        if not self.waiters and not self._transport.reserve(self._transport.room):
            raise response.NoRoomToSend("too much is held to read an answer")
        waiter = self.waiters[key] = _Awaited(self._loop.create_future(), max_bytes)
        try:
            await self._give(outgoing.body)
            return await waiter.reply
        except BaseException:
            if outgoing.form.in_order:  # its answer would be taken for that of the next
                self._is_in_order = False
                self.retire()
            raise
        finally:
            del self.waiters[key]
            if not self.waiters:
                self._transport.reserve(-self._transport.room)
                if self._is_retired:
                    self.connection.abort()

    async def _give(self, body: bytes) -> None:
        try:
            await self.connection.send(body)
        except response.EndedUnsent:
            self.retire(at_once=True)
            raise

    def note_time_out(self, timeout: float) -> None:
        """Retire the connection if nothing came on it meanwhile, or if what came may be half a message of nobody."""
        if not self.waiters or self._loop.time() - self._received_at >= timeout:
            self.retire()

    def retire(self, *, at_once: bool = False) -> None:
        """Take no more calls, and close the connection after the last one that is under way."""
        self._is_retired = True
        self._transport.forget(self)
        if at_once or not self.waiters:
            self.connection.abort()

    def message_received(self, raw: bytes) -> bytes | None:
        self._received_at = self._loop.time()
        try:
            head = parse_head(raw)
        except ValueError:
            waiter = self._only_waiter()
        else:
            if head.method is not None and head.id is not None:
                return answer_to_service(head)
            waiter = self.waiters.get(str(head.id))
            if head.id is None and head.method is None and (head.error != NULL or self._is_in_order):
                waiter = self._only_waiter()
        if waiter is None or waiter.reply.done():
            self._transport.drop()
        elif len(raw) > waiter.max_bytes:
            waiter.reply.set_exception(response.AnswerTooLarge(f"larger than {waiter.max_bytes} bytes"))
        else:
            waiter.reply.set_result(Reply(raw))
        return None

    def _only_waiter(self) -> _Awaited | None:
        return next(iter(self.waiters.values())) if len(self.waiters) == 1 else None

    def connection_lost(self, error: OutboundError) -> None:
        self.has_ended = True
        self._transport.forget(self)
        for waiter in self.waiters.values():
            if not waiter.reply.done():
                waiter.reply.set_exception(type(error)(*error.args))
