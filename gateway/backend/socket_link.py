"""Hold one connection that carries many messages both ways, and give each answer to the call that it belongs to."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

import structlog
from msgspec import Struct

from gateway.backend.transport import Outgoing, Reply
from gateway.backend.unfinished import UnfinishedMessages
from gateway.http_client import response
from gateway.http_client.response import CHUNK, OutboundError
from gateway.http_client.streams import PerSecond, Stream
from gateway.jsonrpc import NULL
from gateway.jsonrpc.response import Head, answer_to_service, id_in_broken, parse_head

_MOST_GIVEN_UP: Final = 256
"""Calls that were given up on one connection and not answered, with which it gets no new ones."""
MOST_UNASKED: Final = 10_000
"""Messages of nobody that one connection may bring in a second."""
_LARGE_UNASKED: Final = 8 * 1024
"""Bytes from which such a message counts as two, and so on: it is read in one step, however large it is."""
_LOOK: Final = 0.5
"""Seconds from one look to the next at whether what was sent is acknowledged."""
_AT_ONCE: Final = 0.5
"""Seconds from the answer to the end of a connection within which a service ends it because of the answer."""

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


class Links(Protocol):
    """Own the connections to one service."""

    usual: int
    patience: float
    unfinished: UnfinishedMessages

    def forget(self, link: SocketLink) -> None: ...
    def open_later(self) -> None: ...
    def drop(self) -> None: ...
    def withhold(self) -> None: ...
    def note_end_after_one(self) -> None: ...


class SocketLink:
    """Hold one connection, and who waits for what on it. ``waiters`` are by the id of their message. One that
    ``is_alone`` is for one message, and is closed behind its answer."""

    connection: Stream

    def __init__(self, transport: Links, first: Outgoing, *, is_alone: bool = False) -> None:
        self._parts, self._framing = first.parts, first.form.framing
        self.waiters: dict[str, _Awaited] = {}
        self._given_up: dict[str, float] = {}
        """When each call was given up, by its id, that was sent and not answered. The oldest is first."""
        self._is_in_doubt = False
        """Says that a message without an id may come that answers neither one of these nor a waiter."""
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._received_at = self._loop.time()
        self._is_retired = is_alone
        self.has_ended = False
        self.given_up = ""
        """Why it was ended, if it was. Then it holds nothing any more."""
        self.is_silent = False
        self._look: asyncio.TimerHandle | None = None
        self._held = self._sent = self._answered = 0
        self._unasked = PerSecond(MOST_UNASKED)

    @property
    def ignores_more(self) -> bool:
        """Return whether the first call was answered, and what came after it was not."""
        return self._answered == 1 < self._sent

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
            if self._is_retired and not self.waiters:
                self.connection.close()
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
            self._sent += 1
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
            self._answered += 1
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
            self.give_up(f"it brought more than {MOST_UNASKED} messages a second that belong to no call")

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
        is_at_once = self._loop.time() - self._received_at < _AT_ONCE
        if self._sent == self._answered == 1 and is_at_once and not (self._is_retired or self.given_up):
            self._transport.note_end_after_one()
        for waiter in self.waiters.values():
            if not waiter.reply.done():
                waiter.reply.set_exception(type(error)(*error.args))
