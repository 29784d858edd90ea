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
* A service that ends a connection behind its first answer, or reads no more on it, gets one for each message.
* Where answers have no ids, one message is under way at a time, and a connection ends with one that was given up.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any, Final

import structlog

from gateway.backend.http import handshake_reply
from gateway.backend.socket_link import MOST_UNASKED, SocketLink
from gateway.backend.transport import Outgoing, Reply
from gateway.backend.unfinished import UnfinishedMessages
from gateway.concurrency.single_flight import SingleFlight
from gateway.http_client import response
from gateway.http_client.response import CONNECT_TIMEOUT, HandshakeRefused
from gateway.http_client.streams import Stream

_MOST_LINKS: Final = 3
"""Connections that are kept: for calls, for listings with a credential of their own, and for a login."""
_MOST_ATTEMPTS: Final = 2
"""Connections that a message is tried on, while nothing of it was sent."""
_MOST_SILENT: Final = 2
"""Connections on which nothing is acknowledged, with which no other is opened."""

_QUIET: Final = 1.0
"""Seconds from the end of a connection that brought more to the opening of the next."""

log = structlog.get_logger()


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
        self._ends_after_one = asyncio.Event()

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
                    link = await self._link_for(outgoing, key)
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
            late = response.DeadlinePassed(f"no complete answer within {timeout:g} s")
            late.ignored_second = link.ignores_more
            raise late from None
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
        log.warning("a connection is ended on which the backend sends too much of its own", most=MOST_UNASKED)

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

    async def ends_after_one(self, patience: float) -> bool:
        """Return whether the service ends each connection behind one answer, or does so within ``patience`` seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ends_after_one.wait(), patience)
        return self._ends_after_one.is_set()

    def note_end_after_one(self) -> None:
        """Give each message a connection of its own from now on."""
        if not self._ends_after_one.is_set():
            self._ends_after_one.set()
            log.info("the backend ends each connection after one call; each call gets one of its own")

    async def _link_for(self, outgoing: Outgoing, key: str) -> SocketLink:
        if outgoing.form.alone or self._ends_after_one.is_set():
            return await self._open_link(outgoing, is_alone=True)
        return self._usable(outgoing, key) or await self._open(outgoing)

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

    async def _open_link(self, outgoing: Outgoing, *, is_alone: bool = False) -> SocketLink:
        link = SocketLink(self, outgoing, is_alone=is_alone)
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
        if is_alone:
            self._retired.add(link)
        else:
            self._links.insert(0, link)
        if self._is_closed:
            link.retire(at_once=True)
        for other in self._links[_MOST_LINKS:]:
            other.retire()
        return link
