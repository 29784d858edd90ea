"""Large documents are read in parts, to the same value as at once."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import jsonrpc
from gateway.backend.source import decode_in_steps
from gateway.concurrency.collector import COLLECTOR
from tests.each import each
from tests.orders import openrpc
from tests.pace import slowness


def in_parts(raw: bytes) -> tuple[Any, list[float]]:
    """The value, and how many seconds of processor time each part took."""
    reading = decode_in_steps(raw)
    took: list[float] = []
    while True:
        started = time.process_time()
        try:
            next(reading)
        except StopIteration as done:
            return done.value, took
        took.append(time.process_time() - started)


LARGE = {"methods": [{"name": f"m{n}", "text": 'é\\"]}' * 30, "n": [n, 2**70, 1.5, None]} for n in range(3000)]}


@each("spaced", {"compact": False, "with white space": True})
def test_a_large_document_is_read_in_many_parts_to_the_same_value(spaced: bool) -> None:
    raw = jsonrpc.pretty(LARGE).encode() if spaced else jsonrpc.encode(LARGE)
    value, took = in_parts(raw)
    assert value == LARGE
    assert list(value["methods"][0]) == ["name", "text", "n"]
    assert len(took) > 1000


def test_no_part_of_a_listing_takes_long() -> None:
    raw = jsonrpc.encode({"result": openrpc(5000)})
    before = slowness()
    with COLLECTOR.gc_paused():
        _, took = in_parts(raw)
    assert max(took) < 0.015 * max(before, slowness())


def test_a_small_document_is_read_at_once() -> None:
    assert len(in_parts(b'{"a": [1, 2]}')[1]) == 1


@each("raw", [b"", b"{", b"nul", b'{"a":1}x', b"\xff", b"[" * 200_000])
def test_what_is_no_json_is_a_value_error(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        in_parts(raw)


@each("spoiled", [b'"text":nope', b'"text":"\xff"', b'"text" 1', b'"text":"\\ud800"'])
def test_a_fault_deep_in_a_large_document_is_a_value_error(spoiled: bytes) -> None:
    raw = jsonrpc.encode(LARGE)
    middle = raw.index(b'"text"', len(raw) // 2)
    end = raw.index(b',"n"', middle)
    with pytest.raises(ValueError, match=r"."):
        in_parts(raw[:middle] + spoiled + raw[end:])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5) | st.just("x" * 40_000),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=4),
        max_leaves=20,
    )
)
def test_any_json_is_read_in_parts_as_at_once(value: Any) -> None:
    raw = jsonrpc.encode(value)
    assert in_parts(raw)[0] == jsonrpc.decode(raw) == value
