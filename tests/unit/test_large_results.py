"""A large result is passed on as it is written, and judged as a decoded one is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import jsonrpc
from gateway.jsonrpc import Raw
from gateway.jsonrpc.bounds import value_cost
from gateway.jsonrpc.response import ResponseError, parse_large_response, parse_response
from tests.each import each
from tests.unit.test_jsonrpc import NOT_JSON

PAD = "x" * 20_000
GOOD = {
    "an object": b'{"a":1}',
    "an empty array": b"[]",
    "characters": '"é☃😀"'.encode(),
    "huge integers": b"[%d,1e99,%d]" % (2**70, 10**198),
    "escapes": rb'"a\n\t\"\\ ["',
    "brackets in texts": b'["[","[","[{"]',
    "levels": b"[" * 200 + b"]" * 200,
    "members of one name": b'{"a":1,"a":2}',
}
BAD = {
    **{name: raw for name, raw in NOT_JSON.items() if name not in ("nothing", "UTF-16", "UTF-32")},
    "a level too many": b"[" * 256 + b"]" * 256,
    "levels without end": b"[" * 100_000 + b"]" * 100_000,
    "a level too many among texts": b'["]",' * 256 + b"1" + b',"["]' * 256,
    "a level too many among quotes": b'["]\\"",' * 256 + b"1" + b',"\\"["]' * 256,
    "a level too many among backslashes": b'["\\\\","]\\\\",' * 256 + b"1" + b',"[\\\\","\\\\"]' * 256,
    "a fraction beyond all floats": b"1" * 310 + b".5",
    "many digits and an exponent": b"1" * 260 + b"e99",
}
SOME = {
    "an escaped letter": b'"caf\\u00e9"',
    "a slash": rb'"a\/b"',
    "a slow number": b"1e300",
    "many digits": b"1" * 300,
}


def response(part: bytes, envelope: bytes = b'{"jsonrpc":"2.0","id":"7","result":%s}') -> bytes:
    return envelope.replace(b"%s", b'{"pad":"%b","part":%b}' % (PAD.encode(), part))


def parsed(raw: bytes) -> tuple[Any, ResponseError | None]:
    """As :func:`parse_response` gives it."""
    result, fault = parse_large_response(raw, "7")
    return jsonrpc.decode(result) if type(result) is Raw else result, fault


@each("part", GOOD)
@each("error", [b"", b',"error":null'])
@each("id", [b'"id":"7",', b""])
def test_sound_json_is_not_decoded(part: bytes, error: bytes, id: bytes) -> None:
    raw = response(part, b"{" + id + b'"result":%s' + error + b"}")
    result, fault = parse_large_response(raw, "7")
    assert fault is None
    assert type(result) is Raw
    assert jsonrpc.decode(result) == parse_response(raw, "7")[0]


@each("part", BAD)
@each("beside", {"within the result": False, "beside the result": True})
def test_what_no_decoded_response_may_have_is_refused(part: bytes, beside: bool) -> None:
    raw = response(part)
    if beside:
        if b"[[" in part or b'["' in part:
            return  # only the levels of results count
        raw = response(b"1", b'{"id":"7","result":%s,"more":' + part + b"}")
    with pytest.raises(ValueError, match=r"."):
        parse_large_response(raw, "7")


@each("part", SOME)
def test_what_bytes_do_not_decide_is_decoded_and_serialized_again(part: bytes) -> None:
    raw, taken = response(part), list[int]()
    assert parse_large_response(raw, "7", take=taken.append) == (Raw(jsonrpc.encode(parse_response(raw, "7")[0])), None)
    assert taken == [value_cost(raw)]


@each(
    ("envelope", "expected"),
    [
        (b'{"id":7,"result":%s}', None),
        (b'{"id":"7","result":%s,"error":{}}', None),
        (b'{"id":"7","result":null,"error":{"code":1,"message":"no","data":%s}}', ResponseError),
        (b'{"jsonrpc":"2.0","id":"7","result":%s,"error":{"code":1}}', ValueError),
        (b'{"id":"8","result":%s}', ValueError),
        (b'{"id":true,"result":%s}', ValueError),
        (b'{"id":null,"result":%s}', ValueError),
        (b'{"id":"8","id":"7","result":%s}', ValueError),
        (b'{"id":"7","result":%s,"id":"7"}', ValueError),
        (b'{"id":"7","more":%s}', ValueError),
        (b'[{"id":"7","result":%s}]', ValueError),
        (b'{"id":"7","result":%s} x', ValueError),
    ],
)
def test_envelopes_are_judged_as_those_of_small_results(envelope: bytes, expected: Any) -> None:
    raw = response(b"1", envelope)
    if expected is ValueError:
        with pytest.raises(ValueError, match=r".") as small:
            parse_response(raw, "7")
        with pytest.raises(ValueError, match=str(small.value).replace("(", r"\(").replace(")", r"\)")):
            parse_large_response(raw, "7")
    else:
        assert parsed(raw) == parse_response(raw, "7")
        assert expected is None or type(parsed(raw)[1]) is expected


def test_a_text_is_decoded_and_json_that_is_no_response_too() -> None:
    text = json.dumps({"id": "7", "result": PAD}).encode()
    assert parse_large_response(text, "7") == (PAD, None)
    bare = json.dumps({"pad": PAD}).encode()
    assert parse_large_response(bare, "7", bare=True) == (Raw(jsonrpc.encode({"pad": PAD})), None)


@each("style", [{"indent": 2}, {}, {"indent": 1, "separators": (",", ":")}])
def test_white_space_of_the_service_is_left_out(style: dict[str, Any]) -> None:
    value = {"pad": PAD, "text": "a, b: c", "numbers": [1, 2.5]}
    raw = json.dumps({"id": "7", "result": value}, **style).replace("\n", "\r\n").encode()
    assert bytes(parse_large_response(raw, "7")[0]) == jsonrpc.encode(value)


@given(st.binary(max_size=40) | st.text('[]{}",:\\u0dD8eE+-.19', max_size=40).map(str.encode))
def test_any_bytes_are_judged_alike(part: bytes) -> None:
    raw = response(part)
    try:
        expected = parse_response(raw, "7")
    except ValueError:
        with pytest.raises(ValueError, match=r"."):
            parse_large_response(raw, "7")
        return
    assert parsed(raw) == expected
