"""Send JSON-RPC messages over connections that carry many of them, both ways: WebSocket, Unix and TCP sockets.

* A reply belongs to the call with its id, compared as text. Broken JSON counts with the one id that is certainly in it.
* An error without an id, and what is no message at all, belong to the call under way, if no other can be meant. While
  there are calls that were given up and not answered yet, and behind a notification, another can be: then they belong
  to nobody. A connection on which that lasts gets no new calls.
* What the service asks is answered, and what it tells is dropped and counted: no caller of ours knows of it.
* A message that was given to the socket counts as sent, whether the service read it or not.
* After a time-out in which nothing came, the connection gets no new calls: the other side may be gone without a word.
  While the system says that nothing is acknowledged, it gets none either, and another is opened. It may come back.
* A service that sends too much of what belongs to no call loses the connection, and has a second of quiet.
* What an unfinished message holds counts for the service (:mod:`gateway.backend.unfinished`).
* Where answers have no ids, one message is under way at a time, and a connection ends with one that was given up.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any, Final

import structlog
from msgspec import Struct

from gateway.backend.http import handshake_reply
from gateway.backend.transport import Outgoing, Reply
from gateway.backend.unfinished import UnfinishedMessages
from gateway.concurrency.single_flight import SingleFlight
from gateway.http_client import response
from gateway.http_client.response import CHUNK, CONNECT_TIMEOUT, HandshakeRefused, OutboundError
from gateway.http_client.streams import PerSecond, Stream
from gateway.jsonrpc import NULL
from gateway.jsonrpc.response import Head, answer_to_service, id_in_broken, parse_head

_MOST_LINKS: Final = 3
"""Connections that are kept: for calls, for listings with a credential of their own, and for a login."""
_MOST_ATTEMPTS: Final = 2
"""Connections that a message is tried on, while nothing of it was sent."""
_MOST_SILENT: Final = 2
"""Connections on which nothing is acknowledged, with which no other is opened."""
_MOST_GIVEN_UP: Final = 256
"""Calls that were given up on one connection and not answered, with which it gets no new ones."""

_MOST_UNASKED: Final = 10_000
"""Messages of nobody that one connection may bring in a second."""
_LARGE_UNASKED: Final = 8 * 1024
"""Bytes from which such a message counts as two, and so on: it is read in one step, however large it is."""
_QUIET: Final = 1.0
"""Seconds from the end of a connection that brought more to the opening of the next."""
_LOOK: Final = 0.5
"""Seconds from one look to the next at whether what was sent is acknowledged."""

log = structlog.get_logger()


class _Awaited(Struct, eq=False):
    reply: asyncio.Future[Reply]
    max_bytes: int
    is_in_order: bool
    """Says that its answer may be without an id."""
    is_sent: bool = False
    size: int = 0
    """Bytes of its answer."""

    @property
    def is_answered(self) -> bool:
        return self.reply.done() and not self.reply.cancelled()


class SocketTransport(ABC):
    """Send messages over connections that subclasses open. A message that comes has at most ``room`` bytes, and counts
    in ``unfinished`` until it is whole and taken; an answer has mostly at most ``usual`` bytes. A connection gets no
    new calls once one on it was given up for ``patience`` seconds and has no answer yet."""

    has_documents = False

    def __init__(self, room: int, usual: int, unfinished: UnfinishedMessages, patience: float) -> None:
        self.room = room
        self.usual = usual
        self.unfinished = unfinished
        self.patience = patience
        self._links: list[SocketLink] = []
        self._retired: set[SocketLink] = set()
        self._openings: SingleFlight[tuple[Any, ...], SocketLink] = SingleFlight()
        self._turn = asyncio.Lock()
        self._opens_at = 0.0
        self._is_closed = False
        self.dropped = self.unowned = 0

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
    async def connect(self, outgoing: Outgoing, link: SocketLink) -> Stream:
        """Return a connection for messages like this one, which tells ``link`` what comes. Raises
        :class:`~gateway.http_client.response.ConnectFailed` and
        :class:`~gateway.http_client.response.HandshakeRefused`."""

    async def close(self) -> None:
        """Close all connections. Calls under way end with :class:`~gateway.http_client.response.Interrupted`."""
        self._is_closed = True
        for link in [*self._links, *self._retired]:
            link.retire(at_once=True)

    def forget(self, link: SocketLink) -> None:
        """Give a connection no new calls. It is retired, if it has not ended."""
        if link in self._links:
            self._links.remove(link)
        if link.has_ended:
            self._retired.discard(link)
        else:
            self._retired.add(link)

    def open_later(self) -> None:
        """Open no connection for a while."""
        self._opens_at = asyncio.get_running_loop().time() + _QUIET
        log.warning("a connection is ended on which the backend sends too much of its own", most=_MOST_UNASKED)

    def drop(self) -> None:
        """Count a message that belongs to no call."""
        self.dropped += 1
        if self.dropped == 1:
            log.info("the backend sends messages that belong to no call; they are dropped")

    def withhold(self) -> None:
        """Count a message without an id that nobody gets."""
        self.unowned += 1
        if self.unowned == 1:
            log.warning("the backend sends messages without an id that nobody can be given")

    def _usable(self, outgoing: Outgoing, key: str) -> SocketLink | None:
        """Return a connection with this credential on which the answer can be told from any other."""
        for link in tuple(self._links):
            if link.has_waited(self.patience):
                link.retire()
            elif link.is_for(outgoing) and not link.expects(key) and not link.is_silent:
                return link
        return None

    async def _open(self, outgoing: Outgoing) -> SocketLink:
        if self._is_closed:
            raise response.ConnectFailed("the gateway has closed its connections")
        if sum(link.is_silent for link in self._links) >= _MOST_SILENT:
            raise response.ConnectFailed("nothing is acknowledged on its connections")
        parts, framing = outgoing.parts, outgoing.form.framing
        key = (framing, *sorted(parts.headers.items()), None, *sorted(parts.query.items()))
        return await self._openings.join(key, lambda: self._open_link(outgoing))

    async def _open_link(self, outgoing: Outgoing) -> SocketLink:
        link = SocketLink(self, outgoing)
        await asyncio.sleep(max(0.0, self._opens_at - asyncio.get_running_loop().time()))
        if self._is_closed:
            raise response.ConnectFailed("the gateway has closed its connections")
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                link.connection = await self.connect(outgoing, link)
        except TimeoutError:
            raise response.ConnectFailed("no connection in time") from None
        if link.given_up:  # for what it brought before it was ours
            link.connection.end(link.given_up)
        if link.has_ended or link.given_up:
            raise response.ConnectFailed("its connections end at once")
        self._links.insert(0, link)
        if self._is_closed:
            link.retire(at_once=True)
        for other in self._links[_MOST_LINKS:]:
            other.retire()
        return link


class SocketLink:
    """Hold one connection, and who waits for what on it. ``waiters`` are by the id of their message."""

    connection: Stream

    def __init__(self, transport: SocketTransport, first: Outgoing) -> None:
        self._parts, self._framing = first.parts, first.form.framing
        self.waiters: dict[str, _Awaited] = {}
        self._given_up: dict[str, float] = {}
        """When each call was given up, by its id, that was sent and not answered. The oldest is first."""
        self._is_in_doubt = False
        """Says that a message without an id may come that answers neither one of these nor a waiter."""
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._received_at = self._loop.time()
        self._is_retired = False
        self.has_ended = False
        self.given_up = ""
        """Why it was ended, if it was. Then it holds nothing any more."""
        self.is_silent = False
        self._look: asyncio.TimerHandle | None = None
        self._held = 0
        self._unasked = PerSecond(_MOST_UNASKED)

    @property
    def owner(self) -> object:
        return self._transport

    @property
    def largest(self) -> int:
        return max((waiter.max_bytes for waiter in self.waiters.values()), default=self._transport.usual)

    def is_for(self, outgoing: Outgoing) -> bool:
        """Return whether for another message the handshake and the framing would have been the same, and whether its
        answer is told from others where it has no id."""
        ours, theirs = self._parts, outgoing.parts
        is_known = ours is theirs or (ours.headers == theirs.headers and ours.query == theirs.query)
        form = outgoing.form
        is_certain = not form.in_order or outgoing.id is None or not (self._given_up or self._is_in_doubt)
        return is_known and self._framing == form.framing and is_certain

    def expects(self, key: str) -> bool:
        """Return whether an answer with this id may come already."""
        return key in self.waiters or key in self._given_up

    def has_waited(self, patience: float) -> bool:
        """Return whether the oldest call that was given up has had no answer for so many seconds."""
        return bool(self._given_up) and next(iter(self._given_up.values())) < self._loop.time() - patience

    async def exchange(self, key: str, outgoing: Outgoing, max_bytes: int) -> Reply:
        """Send a message and return its reply, at once where ``key`` is "". Raises :class:`OutboundError`."""
        if self.has_ended or self.expects(key):  # another waited for this connection, too
            raise response.EndedUnsent
        if not key:
            self._is_in_doubt = True  # services answer with null for the id where they cannot read a notification
            await self._give(outgoing.body)
            return Reply(b"")
        is_in_order = outgoing.form.in_order is True
        waiter = self.waiters[key] = _Awaited(self._loop.create_future(), max_bytes, is_in_order)
        try:
            await self._give(outgoing.body, waiter)
            return await waiter.reply
        except BaseException:
            if waiter.is_sent and not waiter.is_answered:
                self._give_up(key)
            if is_in_order:  # its answer would be taken for that of the next
                self.retire()
            raise
        finally:
            del self.waiters[key]
            if waiter.size:
                self._count()
            if not self.waiters and self._is_retired:
                self.connection.close()

    def _give_up(self, key: str) -> None:
        self._given_up[key] = self._loop.time()
        if len(self._given_up) >= _MOST_GIVEN_UP:
            self.retire()

    async def _give(self, body: bytes, waiter: _Awaited | None = None) -> None:
        try:
            await self.connection.wait_for_room()
            if waiter is not None:
                waiter.is_sent = True
            self.connection.send(body)
        except response.EndedUnsent:
            self.retire()  # answers to other calls may have come before the end
            raise
        self._look_soon()

    def _look_soon(self) -> None:
        if self._look is None and not self.has_ended:
            self._look = self._loop.call_later(_LOOK, self._look_at_it)

    def _look_at_it(self) -> None:
        """Look whether what was sent is acknowledged, and whether what came ends, while there is any of that."""
        self._look = None
        was_silent, self.is_silent = self.is_silent, self.connection.is_silent()
        if self.is_silent and not was_silent:
            log.warning("nothing is acknowledged on a connection; it gets no new calls until something is")
        patience = self._transport.patience
        if self._held and not self.waiters and self._loop.time() - self._received_at >= patience:
            self.give_up(f"it brought no end of a message for {patience:g} s")
        elif self.waiters or self.is_silent or self._held:
            self._look_soon()

    def note_time_out(self, timeout: float) -> None:
        """Retire the connection if nothing came on it meanwhile, or if what came may be half a message of nobody."""
        if not self.waiters or self._loop.time() - self._received_at >= timeout:
            self.retire()

    def retire(self, *, at_once: bool = False) -> None:
        """Take no more calls, and close the connection after the last one that is under way."""
        self._is_retired = True
        self._transport.forget(self)
        if at_once or not self.waiters:
            self.connection.close()

    def give_up(self, reason: str) -> None:
        """End the connection now, and tell the calls on it why."""
        self.given_up = reason
        self._transport.forget(self)
        if hasattr(self, "connection"):  # it may bring too much before it is ours
            self.connection.end(reason)

    def note_held(self, size: int) -> None:
        """Note how many bytes of unfinished messages the connection holds."""
        self._held = size
        self._count()
        if size:
            self._look_soon()

    def _count(self) -> None:
        taken = sum(waiter.size for waiter in self.waiters.values())
        self._transport.unfinished.count(self, 0 if self.given_up else self._held + taken)

    def message_received(self, raw: bytes) -> bytes | None:
        self._received_at = self._loop.time()
        is_fault = True
        try:
            head = parse_head(raw)
        except ValueError:
            key = id_in_broken(raw) if self.waiters or self._given_up else None
        else:
            if head.method is not None:
                self._note_unasked(raw)
                return self._asked_or_told(head)
            key = None if head.id is None else str(head.id)
            is_fault = head.error != NULL
        if key is None:
            waiter = self._waiter_without_id(is_fault=is_fault)
        else:
            self._given_up.pop(key, None)
            waiter = self.waiters.get(key)
        if waiter is None or waiter.reply.done():
            self._transport.drop()
            self._note_unasked(raw)
        elif len(raw) > waiter.max_bytes:
            waiter.reply.set_exception(response.AnswerTooLarge(f"larger than {waiter.max_bytes} bytes"))
        else:
            waiter.size = len(raw) if len(raw) > CHUNK else 0
            waiter.reply.set_result(Reply(raw))
        return None

    def _asked_or_told(self, head: Head) -> bytes | None:
        if head.id is not None:
            return answer_to_service(head)
        self._transport.drop()
        return None

    def _note_unasked(self, raw: bytes) -> None:
        """Count what belongs to no call, a large message as many. End the connection if that is too much."""
        if self._unasked.is_over(1 + len(raw) // _LARGE_UNASKED) and not self.has_ended:
            self.has_ended = True
            self._transport.open_later()
            self.give_up(f"it brought more than {_MOST_UNASKED} messages a second that belong to no call")

    def _waiter_without_id(self, *, is_fault: bool) -> _Awaited | None:
        """Return whose a message without an id is: that of the only call under way, if no other can be meant."""
        if not self.waiters and not self._given_up:
            self._is_in_doubt = True  # there was no call that it answers, and another such may come at any time
        if len(self.waiters) == 1 and not self._given_up and not self._is_in_doubt:
            (waiter,) = self.waiters.values()
            if waiter.is_sent and (is_fault or waiter.is_in_order):
                return waiter
        self._transport.withhold()
        return None

    def connection_lost(self, error: OutboundError) -> None:
        self.has_ended = True
        if self._look is not None:
            self._look.cancel()
        self._transport.forget(self)
        for waiter in self.waiters.values():
            if not waiter.reply.done():
                waiter.reply.set_exception(type(error)(*error.args))
