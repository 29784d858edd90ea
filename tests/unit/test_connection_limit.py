"""How many connections each network may have, and whose makes room when all are taken."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, cast

import pytest

from gateway.errors import Overloaded
from gateway.http_server.connection_limit import AdminLimit, ConnectionLimit, Place
from tests.each import each

PROXY = "10.0.0.1"


class Idle:
    """Stands for a connection, which is busy with a ``task`` or not."""

    def __init__(self, task: object = None) -> None:
        self.task = task
        self.is_closed = False

    @property
    def is_waiting(self) -> bool:
        return self.task is None

    is_idle = is_waiting

    @property
    def transport(self) -> Idle:
        return self

    def abort(self) -> None:
        assert self.is_waiting
        self.is_closed = True


def limit(most: int) -> ConnectionLimit:
    return ConnectionLimit(most, lambda address: address == PROXY)


def entered(port: ConnectionLimit, address: str, task: object = None) -> Place:
    place = port.enter(address)
    place.connection = cast("Any", Idle(task))
    return place


def fill(port: ConnectionLimit, address: str, task: object = None) -> list[Idle]:
    """Take all that an address may have."""
    taken = []
    try:
        while port.open < port.most:
            taken.append(cast("Idle", entered(port, address, task).connection))
    except Overloaded:
        pass
    return taken


@each(
    "most, first, second, third",
    [(1, 1, 0, 0), (3, 1, 1, 1), (16, 4, 4, 1), (100, 25, 25, 6), (10_000, 2500, 2500, 625)],
)
def test_up_to_half_an_address_has_a_quarter_then_a_sixteenth_and_at_least_one(
    most: int, first: int, second: int, third: int
) -> None:
    port = limit(most)
    assert [len(fill(port, f"10.1.0.{number}")) for number in range(3)] == [first, second, third]


def test_an_address_of_ipv6_has_what_its_64_has_and_a_mapped_one_what_that_of_ipv4_has() -> None:
    port = limit(64)
    assert len(fill(port, "2001:db8::1")) == 16
    with pytest.raises(Overloaded, match="from this address"):
        port.enter("2001:db8::ffff:2")
    assert len(fill(port, "::ffff:10.0.0.9")) == 16
    with pytest.raises(Overloaded, match="from this address"):
        port.enter("10.0.0.9")
    assert len(fill(port, "2001:db8:0:1::1")) == 4


def test_where_all_are_taken_the_largest_holders_idle_ones_make_room_until_all_have_about_the_same() -> None:
    port = limit(160)
    held = {number: fill(port, f"10.1.0.{number}") for number in range(12)}
    assert [len(taken) for taken in held.values()][:3] == [40, 40, 10]
    assert port.open == 160
    for number in range(40):
        entered(port, f"10.2.0.{number}")
    closed = {number: sum(one.is_closed for one in taken) for number, taken in held.items()}
    assert (closed[0] + closed[1], sum(closed.values())) == (40, 40)
    assert abs(closed[0] - closed[1]) <= 1
    assert port.open == 160


def test_busy_connections_and_those_of_a_trusted_proxy_make_no_room() -> None:
    port = limit(32)
    proxied = [entered(port, PROXY) for _ in range(16)]
    held = [fill(port, f"10.1.0.{number}", task="busy") for number in range(8)]
    assert port.open == 32
    with pytest.raises(Overloaded, match=r"Too many connections$"):
        port.enter("10.2.0.1")
    held[3][1].task = None
    entered(port, "10.2.0.1")
    assert held[3][1].is_closed
    with pytest.raises(Overloaded, match=r"Too many connections$"):
        port.enter("10.2.0.2")
    assert not any(cast("Any", place.connection).is_closed for place in proxied)


def test_nobody_gets_in_by_closing_a_connection_of_somebody_who_has_no_more() -> None:
    port = limit(16)
    for number in range(16):
        entered(port, f"10.1.0.{number}")
    with pytest.raises(Overloaded):
        port.enter("10.2.0.1")


def of_operators(most: int = 16) -> AdminLimit:
    return AdminLimit(most, 8, (b"GET /livez ",))


def test_at_the_admin_port_whoever_is_idle_for_longest_makes_room_also_for_its_own_network() -> None:
    port = of_operators()
    held = [cast("Idle", entered(port, "10.1.0.1", task).connection) for task in ("busy", None, None, None)]
    entered(port, "10.1.0.1")
    assert [one.is_closed for one in held] == [False, True, False, False]
    ones = [entered(port, f"10.2.0.{number}") for number in range(12)]
    assert port.open == 16
    entered(port, "10.3.0.1")  # of the largest network first
    entered(port, "10.2.0.1")  # which has its share by now
    assert [one.is_closed for one in held] == [False, True, True, False]
    assert [cast("Any", place.connection) is None for place in ones] == [False, True, *[False] * 10]
    for number in range(40):  # of 16 networks with one each, too
        entered(port, f"10.4.0.{number}")
    assert port.open == 16
    assert not held[0].is_closed


def test_at_the_admin_port_a_request_that_has_come_already_needs_no_room_and_a_probe_least() -> None:
    port = of_operators(4)
    for number in range(4):
        entered(port, f"10.1.0.{number}", "busy")
    probe, scrape = (partial(bytes, head) for head in (b"GET /livez HTTP/1.1", b"GET /metrics HTTP/1.1"))

    def let_in(head: Callable[[], bytes], times: int, address: str = "10.1.0.1") -> list[Place]:
        places = []
        with suppress(Overloaded):
            for _ in range(times):
                places.append(port.enter(address, head))
                places[-1].connection = cast("Any", Idle("busy"))
        return places

    assert len(let_in(bytes, 1)) == 0
    scrapes = let_in(scrape, 9)
    probes = let_in(probe, 9, "10.9.0.1")
    assert (len(scrapes), len(probes), port.open) == (4, 4, 12)
    for place in scrapes:
        port.leave(place)
        port.leave(place)
    assert len(let_in(scrape, 9)) == 0
    assert len(let_in(probe, 9)) == 4


def test_at_the_admin_port_one_network_never_has_more_than_its_share_and_those_beyond() -> None:
    port = of_operators(64)
    head = partial(bytes, b"GET /metrics HTTP/1.1")
    for _ in range(20):
        with suppress(Overloaded):
            while True:
                place = port.enter("10.1.0.1", head)
                place.connection = cast("Any", Idle("busy"))
        assert port.open == 16 + 4
        cast("Any", place.connection).task = None  # one of those beyond is the next to make room
    port.enter("10.2.0.1", head)


def test_an_idle_connection_among_thousands_of_busy_ones_is_found_after_a_few_attempts_each_of_which_is_short() -> None:
    port = limit(10_000)
    looks = 0

    class Counted(Idle):
        def __getattribute__(self, name: str) -> Any:
            nonlocal looks
            looks += name == "is_waiting"
            return super().__getattribute__(name)

    for number in range(16):
        for _ in range(625):
            port.enter(f"10.1.0.{number}").connection = cast("Any", Counted("busy"))
    one = cast("Idle", next(reversed(port._places["10.1.0.7"])).connection)
    one.task = None
    for _ in range(625 // 16):
        with pytest.raises(Overloaded):
            port.enter("10.2.0.1")
    assert looks == 625 // 16 * 256
    entered(port, "10.2.0.1")
    assert one.is_closed


def test_whatever_comes_and_goes_the_counts_are_those_of_the_open_connections() -> None:
    """Also where a connection ends that has made room before."""
    chance = random.Random(21)
    port = limit(48)
    places: list[Place] = []
    for _ in range(5000):
        if places and chance.random() < 0.45:
            port.leave(places.pop(chance.randrange(len(places))))
        else:
            address = chance.choice((PROXY, *(f"10.1.0.{number}" for number in range(20))))
            try:
                places.append(entered(port, address, chance.choice((None, "busy"))))
            except Overloaded:
                continue
        open_ones = [place for place in places if place.connection is not None]
        by_network = Counter(place.network for place in open_ones if place.network)
        assert port.open == len(open_ones) <= 48
        assert {network: len(held) for network, held in port._places.items()} == by_network
        assert {n: count for count, those in port._by_count.items() for n in those} == by_network
    for place in places:
        port.leave(place)
    assert (port.open, port._places, port._by_count) == (0, {}, {})
