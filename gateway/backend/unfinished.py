"""Limit what unfinished messages on sockets hold, of one service and of all (decision 21).

Nothing is reserved for what might come: bytes count once they are held. Where there is no room for more, the connection
ends that holds most, and not the one that asks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import structlog

from gateway.http_client.response import CHUNK

_PART: Final = 8
"""One service may hold an eighth of ``server.max_buffered``."""
_PART_OF_ALL: Final = 2
"""All together half of it: the rest is for bodies, and for answers over HTTP."""
_READ: Final = 512 * 1024
"""Bytes that may stand behind a message of the largest size: what is read at once, before it and after it."""

log = structlog.get_logger()


class Holder(Protocol):
    """Hold the bytes of one connection."""

    @property
    def owner(self) -> object:
        """Return whose connection it is, one object for all connections of a service."""
        ...

    @property
    def largest(self) -> int:
        """Return the size of the largest message that it waits for."""
        ...

    def give_up(self, reason: str) -> None:
        """End the connection."""
        ...


class UnfinishedMessages:
    """Count the bytes that the connections of one process hold. ``reserve`` counts them among all that is held, and
    returns whether there is room; ``most`` is ``server.max_buffered``."""

    def __init__(self, reserve: Callable[[int], bool], most: int) -> None:
        self._reserve = reserve
        self._most_of_one = most // _PART
        self._most_of_all = most // _PART_OF_ALL
        self._held: dict[Holder, int] = {}

    def count(self, holder: Holder, size: int) -> None:
        """Note how many bytes a connection holds now. End those that hold most while that is too much, if need be this
        one."""
        before = self._held.get(holder, 0)
        if size <= CHUNK:  # nearly all messages are smaller
            if before:
                del self._held[holder]
                self._reserve(-before)
            return
        more = size - before
        if more > 0 and not self._make_room(holder, more):
            return
        if more < 0:
            self._reserve(more)
        self._held[holder] = size

    def _make_room(self, holder: Holder, more: int) -> bool:
        """Return whether so many bytes more are reserved; the connection has ended if they are not."""
        while True:
            everybody = {**self._held, holder: self._held.get(holder, 0) + more}
            ours = {other: size for other, size in everybody.items() if other.owner is holder.owner}
            if sum(ours.values()) > _allowed(ours, self._most_of_one):
                ended = self._end_largest(ours)
            elif sum(everybody.values()) > _allowed(everybody, self._most_of_all) or not self._reserve(more):
                ended = self._end_largest(everybody)
            else:
                return True
            if ended is holder:
                return False

    def _end_largest(self, sizes: dict[Holder, int]) -> Holder:
        largest = max(sizes, key=sizes.__getitem__)
        log.warning("a connection is ended that holds most of an unfinished message", bytes=sizes[largest])
        if (held := self._held.pop(largest, 0)) > 0:
            self._reserve(-held)
        largest.give_up("there was no room for more of its unfinished messages")
        return largest


def _allowed(sizes: dict[Holder, int], share: int) -> int:
    """Return how much these connections may hold together: a share, and always one message that one waits for."""
    return max(share, _READ + max(holder.largest for holder in sizes))
