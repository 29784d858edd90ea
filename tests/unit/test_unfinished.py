"""What unfinished messages on sockets hold, and whose connection ends where there is no room."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.backend.unfinished import UnfinishedMessages

KIB, MIB = 1024, 1024 * 1024
MOST = 80 * MIB


@dataclass(eq=False)
class Connection:
    """One of the service ``owner``."""

    counting: UnfinishedMessages
    owner: str = "a service"
    largest: int = MIB
    size: int = 0
    ended: list[str] = field(default_factory=list)

    def hold(self, size: int) -> Connection:
        self.size = size
        self.counting.count(self, size)
        return self

    def give_up(self, reason: str) -> None:
        self.ended.append(reason)


class Process:
    """What a process holds."""

    def __init__(self, most: int = MOST) -> None:
        self.most, self.held = most, 0
        self.unfinished = UnfinishedMessages(self.reserve, MOST)

    def reserve(self, size: int) -> bool:
        if self.held + size > self.most:
            return False
        self.held += size
        return True

    def connection(self, owner: str, largest: int = MIB) -> Connection:
        return Connection(self.unfinished, owner, largest)


def test_small_ones_are_not_counted_and_large_ones_until_they_are_whole() -> None:
    process = Process()
    one = process.connection("a").hold(64 * KIB)
    assert process.held == 0
    for size in (65 * KIB, 5 * MIB, 2 * MIB):
        one.hold(size)
        assert process.held == size
    one.hold(0)
    assert process.held == 0
    assert not one.ended


def test_of_one_service_the_connection_with_most_ends_at_an_eighth() -> None:
    process = Process()
    largest, other = process.connection("a").hold(6 * MIB), process.connection("a").hold(3 * MIB)
    stranger = process.connection("b").hold(9 * MIB)
    other.hold(5 * MIB)
    assert largest.ended == ["there was no room for more of its unfinished messages"]
    assert (other.ended, stranger.ended, process.held) == ([], [], 14 * MIB)
    other.hold(11 * MIB)
    assert (len(other.ended), stranger.ended, process.held) == (1, [], 9 * MIB)


def test_one_message_of_the_size_that_is_awaited_is_never_too_much() -> None:
    process = Process()
    listing = process.connection("a", largest=16 * MIB).hold(16 * MIB)
    process.connection("a").hold(200 * KIB)
    assert not listing.ended
    assert Process(most=2**40).connection("a", largest=70 * MIB).hold(70 * MIB).ended == []


def test_all_together_have_half_and_the_newcomer_stays() -> None:
    process = Process()
    many = [process.connection(f"service {number}").hold(10 * MIB - number) for number in range(4)]
    newcomer = process.connection("new").hold(MIB)
    assert [len(one.ended) for one in (*many, newcomer)] == [1, 0, 0, 0, 0]


def test_where_others_hold_all_there_is_the_largest_ends() -> None:
    process = Process(most=10 * MIB)
    process.held = 6 * MIB
    largest, newcomer = process.connection("a").hold(3 * MIB), process.connection("b").hold(2 * MIB)
    assert (len(largest.ended), newcomer.ended, process.held) == (1, [], 8 * MIB)
    process.held = 10 * MIB
    newcomer.hold(3 * MIB)
    assert (len(newcomer.ended), process.held) == (1, 8 * MIB)
