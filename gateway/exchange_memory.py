"""Count the memory that one exchange with a client takes: its body, what is made of it, and the service's response."""

from __future__ import annotations

from typing import Final, Protocol


class Room(Protocol):
    """Count what all exchanges take: :class:`gateway.web.held_answers.HeldAnswers`."""

    def has_room(self, caller: str, size: int, own: int) -> bool: ...

    def add(self, caller: str, size: int) -> None: ...

    def remove(self, caller: str, size: int) -> None: ...


class ExchangeMemory:
    """Count the bytes of one exchange of a ``caller``, as :func:`gateway.limits.rate_limit_key` names it, until the
    exchange and all tasks that outlive it have ended. Without a ``room`` nothing is counted."""

    __slots__ = ("_caller", "_room", "_users", "size")

    def __init__(self, room: Room | None, caller: str) -> None:
        self._room = room
        self._caller = caller
        self._users = 1
        self.size = 0

    def __repr__(self) -> str:
        return f"<ExchangeMemory {self.size} bytes>"

    def take(self, size: int) -> bool:
        """Count bytes that are taken from now on. Return False where there is no room: they must not be taken."""
        room = self._room
        if room is not None:
            if not room.has_room(self._caller, size, self.size):
                return False
            room.add(self._caller, size)
            self.size += size
        return True

    def shrink(self, size: int) -> None:
        """Note that only ``size`` bytes are taken now, if that is less than before."""
        if self._room is not None and size < self.size:
            self._room.remove(self._caller, self.size - size)
            self.size = size

    def share(self) -> None:
        """Note that a task begins that may outlive the exchange. It calls :meth:`end`."""
        self._users += 1

    def end(self, _: object = None) -> None:
        """Note that the exchange has ended, or such a task."""
        self._users -= 1
        if not self._users and self._room is not None:
            self._room.remove(self._caller, self.size)
            self._room = None  # a task of nobody, which counts no more


UNCOUNTED: Final = ExchangeMemory(None, "")
"""The memory of work that belongs to no exchange."""
