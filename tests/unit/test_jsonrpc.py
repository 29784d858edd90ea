"""JSON-RPC messages, in and out: what is read strictly, what is forgiven, what stays exact."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.errors import ParseError
from gateway.jsonrpc import MAX_CONTAINERS, MAX_DEPTH, BadMessage, decode, decode_strictly, encode, encode_canonical
from gateway.jsonrpc.bounds import SMALL
from tests.each import each
from tests.pace import quickly

HUGE = 2**64 + 1

NOT_JSON = {
    "nothing": b"",
    "an open brace": b"{",
    "trailing garbage": b"{} x",
    "two documents": b"{}{}",
    "a comment": b"{} // why",
    "a trailing comma": b"[1,]",
    "single quotes": b"{'a':1}",
    "a byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "UTF-32": '{"a":1}'.encode("utf-32-le"),
    "Latin-1": '{"a":"é"}'.encode("latin-1"),
    "an overlong encoding": b'"\xc0\xaf"',
    "an encoded surrogate": b'"\xed\xa0\x80"',
    "a lone high surrogate": rb'"\ud800"',
    "a lone low surrogate": rb'"\udc00x"',
    "NaN": b'{"a":NaN}',
    "Infinity": b"-Infinity",
    "a float beyond all floats": b"1e400",
    "a raw tab in a string": b'"\t"',
    "a raw NUL in a string": b'"\x00"',
    "a leading zero": b"01",
    "a plus sign": b"+1",
    "a hexadecimal number": b"0x1f",
    "more digits than the engine reads": b"1" * 4301,
}


@each("raw", NOT_JSON)
def test_what_is_not_json_in_utf_8_is_a_parse_error(raw: bytes) -> None:
    with pytest.raises(ParseError):
        decode_strictly(raw)


@each("opening", [b'{"a":"', b'{"pad":"%b","a":"' % (b" " * SMALL)])
def test_half_of_a_surrogate_pair_is_not_said_to_be_a_cut(opening: bytes) -> None:
    with pytest.raises(ParseError, match="surrogate pair"):
        decode_strictly(opening + rb'\ud800"}')
    with pytest.raises(ParseError, match="truncated"):
        decode_strictly(opening)


@each("raw", NOT_JSON)
def test_a_backend_that_sends_it_raises_a_value_error_and_nothing_else(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(raw)


@each("opening", [b"[", b'{"a":'])
def test_nesting_is_allowed_up_to_the_cap_exactly(opening: bytes) -> None:
    closing = b"]" if opening == b"[" else b"}"

    def nested(levels: int) -> bytes:
        return opening * levels + b"1" + closing * levels

    assert decode_strictly(nested(MAX_DEPTH)) == json.loads(nested(MAX_DEPTH))
    with pytest.raises(BadMessage, match="64 levels"):
        decode_strictly(nested(MAX_DEPTH + 1))


BOMBS = {
    "one that is not closed": b"[" * 2**20,
    "a whole one": b"[" * 2**19 + b"]" * 2**19,
    "empty lists": b"[" + b"[]," * 300_000 + b"[]]",
    "empty objects": b"[" + b"{}," * MAX_CONTAINERS + b"1]",
    "many as deep as is allowed": b"[" + (b"[" * 60 + b"]" * 60 + b",") * 8_000 + b"[]]",
}


@each("raw", BOMBS)
def test_objects_and_arrays_beyond_a_number_are_refused_before_they_are_made(raw: bytes) -> None:
    with quickly(), pytest.raises(BadMessage, match="More than 50000 objects and arrays"):
        decode_strictly(raw)


@each("end", [b"", b"\\"])
def test_a_text_that_is_not_closed_is_looked_through_once(end: bytes) -> None:
    with quickly(), pytest.raises(ParseError):
        decode_strictly(b"[" * (MAX_DEPTH // 2) + b"[]," * MAX_DEPTH + b'"' + b'\\"' * 500_000 + end)


def test_brackets_within_texts_are_no_objects_and_arrays() -> None:
    value = {"a": "[" * 60_000 + '\\"{', "b": [[]] * (MAX_CONTAINERS - 2)}
    assert decode_strictly(json.dumps(value).encode()) == value


def test_a_document_deeper_than_any_is_refused_alike_by_every_interpreter() -> None:
    for raw in (b"[" * 513 + b"]" * 513, b'{"a":' * 600 + b"1" + b"}" * 600, b"[" * 100_000 + b"]" * 100_000):
        with pytest.raises(ValueError, match="nested too deeply"):
            decode(raw)
    assert decode(b"[" * 512 + b"]" * 512)


def test_what_nests_deeper_than_clients_read_has_no_canonical_form() -> None:
    deep: list[Any] = []
    for _ in range(255):
        deep = [deep]
    assert encode_canonical(deep) == b"[" * 256 + b"]" * 256
    with pytest.raises(ValueError, match="nested too deeply"):
        encode_canonical([deep])


def test_many_shallow_brackets_are_not_deep() -> None:
    assert decode_strictly(b"[" + b"[]," * 500 + b"{}]") == [[]] * 500 + [{}]


@each(
    "raw",
    [
        b'{"a":1,"a":2}',
        b'{"a":1,"a":1}',
        b'{"a":1,"a" :2}',
        b'{"a" :1,"a"\n:2}',
        rb'{"a":1,"\u0061":2}',
        rb'{"\u0061":1,"a":2}',
        rb'{"\"":1,"\u0022":2}',
        b'{"params":{"name":"x","name":"y"}}',
        b'[[{"deep":{"k":[],"k":{}}}]]',
        rb'{"":1,"":2}',
        b'{"a":1,"a":"x\\":"}',
        b'{"a":":","a":"\\":","b":"\\":"}',
        rb'{"a":1,"a":2,"b":"\u0022:"}',
        rb'{"a":1,"a":2,"b":"\"\u003a"}',
        rb'{"a":1,"a":2,"b":"\"\u003A"}',
        rb'{"a":1,"a":2,"b":"\u003A"}',
        rb'{"a":":","a":2,"\u003a":"\u003A"}',
        '{"é":1,"\\u00e9":2}'.encode(),
    ],
)
def test_duplicate_member_names_are_refused_however_they_are_spelt(raw: bytes) -> None:
    with pytest.raises(BadMessage, match="Duplicate"):
        decode_strictly(raw)


@each(
    "value",
    [
        {"a:b": ":", "c": "::"},
        {'"': 1, "\\": 2, '\\"': 3, ":": {"{": "}"}},
        {"[": ["]", "[[[["], "x": "{" * 200},
        {"a": {"a": {"a": []}}, "b": [{"a": 1}, {"a": 2}]},
        {"": {"": None}},
        {'":': '":', '": ': '" :'},
        {"text": 'a "quoted": word', "é☃😀": "\u2028"},
        {f"k{n}": [{"k": n}] for n in range(100)},
    ],
)
@each("style", [{}, {"indent": 2}, {"separators": (" , ", " : ")}, {"ensure_ascii": False}])
def test_colons_and_brackets_inside_strings_confuse_nobody(value: Any, style: dict[str, Any]) -> None:
    assert decode_strictly(json.dumps(value, **style).encode()) == value


@each("number", [2**53 + 1, 2**63, HUGE, -(2**63) - 1, -HUGE, 10**300, 10**4299])
def test_integers_are_exact_in_both_directions_at_any_size(number: int) -> None:
    for read in (decode, decode_strictly):
        assert read(str(number).encode()) == number
    assert encode({"n": number}) == b'{"n":%b}' % str(number).encode()
    assert encode_canonical(number) == str(number).encode()
    assert type(decode(encode(number))) is int


def test_surrogate_pairs_become_one_character() -> None:
    assert decode_strictly(rb'"\ud83d\ude00"') == "😀"


def test_what_json_cannot_say_is_a_value_error() -> None:
    for value in ("\ud800", {"x": object()}, 10**5000):
        with pytest.raises(ValueError, match=r"."):
            encode(value)


def test_canonical_bytes_do_not_depend_on_the_order_of_members() -> None:
    assert encode_canonical({"b": [1, {"d": 1, "c": 2}], "a": 0}) == b'{"a":0,"b":[1,{"c":2,"d":1}]}'
