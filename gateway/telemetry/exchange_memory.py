"""Count the memory that one exchange with a client takes: its body, what is made of it, and the service's response."""

from typing import Protocol

from msgspec import Struct


class Room(Protocol):
    """Count what all exchanges take: :class:`gateway.http_server.held_bytes.HeldBytes`."""

    def take(self, owner: str, size: int, own: int, *, is_text: bool) -> bool: ...

    def remove(self, owner: str, size: int) -> None: ...


class ExchangeMemory(Struct, eq=False, gc=False):
    """Count ``size`` bytes of one exchange, until its ``users`` have ended: itself, and tasks that may outlive it.
    Without a ``room`` nothing is counted."""

    room: Room | None = None
    owner: str = ""
    size: int = 0
    users: int = 1

    def take(self, size: int, *, is_text: bool = False) -> bool:
        """Count bytes that are taken from now on. Return False where there is no room: they must not be taken. There is
        more room for a response that ``is_text``: its call was made, and its bytes were counted while they came."""
        if size and self.room is not None and self.users:
            if not self.room.take(self.owner, size, self.size, is_text=is_text):
                return False
            self.size += size
        return True

    def shrink(self, size: int) -> None:
        """Note that only ``size`` bytes are taken now, if that is less than before."""
        if self.room is not None and size < self.size:
            self.room.remove(self.owner, self.size - size)
            self.size = size

    def end(self, _: object = None) -> None:
        """Note that one of the users has ended."""
        self.users -= 1
        if not self.users:
            self.shrink(0)
