"""Numbers that the JSON engine is slow at hold up nobody, and are read as any others are."""

from __future__ import annotations

import json

import pytest

from gateway import jsonrpc
from gateway.errors import ParseError
from gateway.jsonrpc.bounds import has_slow_numbers
from tests.each import each
from tests.pace import quickly

SLOW = ["1e300", "-1E+300", "5e-324", "1.7976931348623157e308", "2.2250738585072011e-308", "0.5e-0300"]


def many(number: str, size: int = 1024**2) -> bytes:
    """A list of one number that fills ``size`` bytes."""
    return b"[" + ",".join([number] * (size // (len(number) + 1))).encode() + b"]"


@each("number", SLOW)
def test_a_mebibyte_of_slow_numbers_is_read_in_time_and_exactly(number: str) -> None:
    raw = many(number)
    with quickly(0.8):
        values = jsonrpc.decode_strictly(raw)
    assert values == json.loads(raw)
    assert jsonrpc.decode(raw) == values


def test_a_number_beyond_all_is_refused_among_slow_ones_too() -> None:
    for number in (b"1e400", b"-1e400"):
        with pytest.raises(ParseError, match="out of range"):
            jsonrpc.decode_strictly(many("1e300")[:-1] + b"," + number + b"]")


@each("broken", [b"NaN", b"Infinity", b"01e300", b"1e", b".5e300", b"+1e300", b"1_0e300"])
def test_what_is_no_number_is_refused_among_slow_ones_too(broken: bytes) -> None:
    with pytest.raises(ParseError):
        jsonrpc.decode_strictly(many("1e300")[:-1] + b"," + broken + b"]")


@each("usual", [b'{"price":125.25,"size":1200}', b'["page 125, line1000"]', b'{"e":100}', b"[1e9,2.5e-12]", b'["1e3"]'])
def test_usual_documents_are_read_by_the_engine_alone(usual: bytes) -> None:
    assert not has_slow_numbers(b"[" + b",".join([usual] * 2000) + b"]")
