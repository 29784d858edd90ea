"""What JSON takes of the memory is estimated from its text, high enough and cheaply."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

import pytest

from gateway import jsonrpc
from gateway.errors import Overloaded
from gateway.http_server.held_bytes import HeldBytes
from gateway.jsonrpc.bounds import memory_cost
from gateway.telemetry.exchange_memory import ExchangeMemory
from tests.each import each

SIZE: Final = 200_000
PARTS: Final = (
    '"a"', '"ab"', '"abcdefgh"', '"é"', '"\U0001f600"', "1000", "1.5", "null", "{}", "[]", "[1]", "[[]]", "[1,2,3,4,5]",
    '{"a":1}', '{"a":"b"}', '{"a":{}}', '{"id":12345,"name":"abcdef"}', '{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6}',
)  # fmt: skip
TEXTS: Final = {part: f"[{','.join([part] * (SIZE // (len(part) + 1)))}]" for part in PARTS} | {
    "text": f'"{"x" * SIZE}"',
    "text with an emoji": f'"{"x" * SIZE}\U0001f600"',
    "text with an escaped emoji": f'"{"x" * SIZE}\\ud83d\\ude00"',
    "distinct names": json.dumps({f"{n:05x}": 1 for n in range(SIZE // 10)}, separators=(",", ":")),
    "objects of distinct names": json.dumps([{f"{n:05x}": "b"} for n in range(SIZE // 14)], separators=(",", ":")),
}


def taken_by(value: Any) -> int:
    """The bytes of a value and all in it. Only one of each number and text that CPython has once is counted."""
    inner = [*value.keys(), *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sys.getsizeof(value) + sum(taken_by(one) for one in inner if not (one is None or one == 1 or one == ""))


@each("name", [*TEXTS])
def test_the_estimate_is_at_least_what_text_and_value_take(name: str) -> None:
    raw = TEXTS[name].encode()
    assert memory_cost(raw) >= taken_by(jsonrpc.decode(raw)) + len(raw)


def test_a_megabyte_of_small_objects_counts_as_twenty_and_one_of_text_as_four() -> None:
    objects = jsonrpc.encode([{"id": number, "name": "abcdef"} for number in range(36_000)])
    assert 9 <= memory_cost(objects) / len(objects) <= 20
    assert memory_cost(b'"' + b"x" * 1_000_000 + b'"') == 4 * 1_000_002


def test_an_exchange_is_counted_until_the_last_who_uses_it_has_ended() -> None:
    held = HeldBytes(2**20)
    memory = ExchangeMemory(held, "")
    assert memory.take(100_000)
    memory.users += 1
    memory.end()
    assert held.bytes == 100_000
    memory.shrink(40_000)
    assert held.bytes == held.by_owner.total() == 40_000
    memory.end()
    assert (held.bytes, len(held.by_owner)) == (0, 0)
    assert memory.take(100_000)
    assert held.bytes == 0, "nobody would count it down"


def test_one_exchange_alone_may_take_more_than_a_share_and_two_may_not() -> None:
    held = HeldBytes(2**20)
    first, second = ExchangeMemory(held, ""), ExchangeMemory(held, "")
    assert first.take(300_000)
    assert first.take(100_000)
    assert not second.take(100_000)
    assert second.take(1_000), "what is small always has room"
    assert not first.take(300_000), "five eighths are for all"
    assert first.take(300_000, is_text=True), "a result that was read has more room"


def test_who_holds_nothing_is_let_in_while_others_are_refused_until_a_sixteenth_more_is_held() -> None:
    held, hoarder, newcomer = HeldBytes(2**20), "hoarder", "newcomer"
    held.add(hoarder, 7 * 2**17)
    held.check(newcomer)
    with pytest.raises(Overloaded, match="too many answers and bodies of slow clients"):
        held.check(hoarder)
    held.add("others", 3 * 2**16)
    with pytest.raises(Overloaded, match="too many answers and bodies of slow clients"):
        held.check(newcomer)
