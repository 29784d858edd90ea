"""How messages are told apart on a stream."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.backend.framing import Framing, UnusableStream
from tests.each import each

MOST = 1000
NAMES = ("auto", "newline", "none", "etx", "content-length")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def read(name: str, *pieces: bytes, most: int = MOST) -> list[bytes]:
    framing = Framing(name, most)
    return [message for piece in pieces for message in framing.feed(piece) if message]


@given(
    st.sampled_from(NAMES),
    st.lists(st.dictionaries(st.text(), JSON) | st.lists(JSON), max_size=5),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_what_was_written_is_read_however_it_is_cut(
    name: str, values: list[object], is_ascii: bool, chance: random.Random
) -> None:
    framing = Framing(name, 0)
    texts = [json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass") for value in values]
    stream = b"".join(map(framing.wrap, texts))
    cuts = sorted({0, len(stream), *(chance.randint(0, len(stream)) for _ in range(4))})
    pieces = [stream[start:end] for start, end in pairwise(cuts)]
    assert read(name, *pieces, most=10**6) == texts
    assert read(name, *(bytes([byte]) for byte in stream), most=10**6) == texts


@each(
    ("name", "stream", "messages"),
    [
        ("newline", b'{"a":1}\r\n\r\n {"b":2} \n{"c"', [b'{"a":1}\r', b' {"b":2} ']),
        ("newline", b"hello\n[1]\n", [b"hello", b"[1]"]),
        ("etx", b'{"a":\n1}\x03\x03[2]\x03', [b'{"a":\n1}', b"[2]"]),
        ("none", b'{"a":"}\\"{"}[{}] {"b":{"c":[1,{}]}}{', [b'{"a":"}\\"{"}', b"[{}]", b'{"b":{"c":[1,{}]}}']),
        ("auto", b'{"a":1}\n{"b":2}\x03 hello 7 "x" {"c":3}', [b'{"a":1}', b'{"b":2}', b'{"c":3}']),
        ("auto", b'Content-Length: 7\r\n\r\n{"a":1}', [b'{"a":1}']),
        ("auto", b'{"a":\n [1,\n 2]\n}\n\n', [b'{"a":\n [1,\n 2]\n}']),
        (
            "content-length",
            b"content-length:2\r\nContent-Type: x\r\n\r\n{}Content-Length: 4\r\n\r\n[{}]",
            [b"{}", b"[{}]"],
        ),
    ],
)
def test_services_write_in_their_own_ways(name: str, stream: bytes, messages: list[bytes]) -> None:
    assert read(name, stream) == messages


@each("name", NAMES)
def test_a_message_that_is_too_large_is_refused_and_never_held(name: str) -> None:
    whole = Framing(name, 0).wrap(b'["' + b"x" * MOST + b'"]')
    with pytest.raises(UnusableStream, match="a message was too large"):
        read(name, *(whole[at : at + 100] for at in range(0, len(whole), 100)))
    small = Framing(name, 0).wrap(b'["' + b"x" * (MOST - 100) + b'"]')
    assert len(read(name, *([small] * 10))) == 10


@each(
    ("stream", "said"),
    [
        (b"Content-Type: x\r\n\r\n{}", "no Content-Length"),
        (b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", "no Content-Length"),
        (b"Content-Length: -1\r\n\r\n{}", "no Content-Length"),
        (b"X: " + b"x" * 9000, "a header was too large"),
        (b"X: " + b"x" * 9000 + b"\r\n\r\n", "a header was too large"),
    ],
)
def test_a_header_that_says_no_length_is_refused(stream: bytes, said: str) -> None:
    with pytest.raises(UnusableStream, match=said):
        read("content-length", stream, most=10**6)


@each("name", ["newline", "etx"])
def test_messages_of_nothing_are_steps_too(name: str) -> None:
    blank = Framing(name, MOST).wrap(b" ") * 500
    assert [*Framing(name, MOST).feed(blank)] == [b""] * 500


def test_blank_lines_without_end_are_refused() -> None:
    with pytest.raises(UnusableStream, match="too many empty messages"):
        read("newline", b"\n" * 10_001)


def test_to_count_many_brackets_takes_many_steps_and_each_may_be_the_last_of_a_turn() -> None:
    deep = b"[" * 20_000 + b"]" * 20_000
    steps = [*Framing("none", 10**6).feed(deep)]
    assert steps[-1] == deep
    assert len(steps) > 50
    assert not any(steps[:-1])


def test_what_stands_between_values_is_not_held() -> None:
    assert read("none", *([b"no value " * 100] * 100), b"{}") == [b"{}"]
