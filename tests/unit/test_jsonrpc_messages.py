"""JSON-RPC messages and responses: what is read strictly, and what is forgiven."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.errors import InvalidCursor, TooLarge
from gateway.jsonrpc import (
    NULL,
    BadMessage,
    ClientResponse,
    Notification,
    Raw,
    Request,
    decode,
    encode,
    error_bytes,
    joined_response,
    parse_message,
    request_bytes,
    response_bytes,
)
from gateway.jsonrpc.response import ResponseError, parse_large_response, parse_response
from tests.each import each
from tests.tables import each_row, each_row_and
from tests.unit.test_jsonrpc import HUGE

LONG = "x" * 100


def call(**members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "m"} | members


@each("id", ["", "a", 0, -1, HUGE, "x" * 256, "é" * 128])
def test_an_id_is_a_string_or_an_integer_and_comes_as_it_is(id: Any) -> None:
    message = parse_message(call(id=id, params={"a": 1}))
    assert message == Request(id, "m", {"a": 1})
    assert response_bytes(id, []) == b'{"jsonrpc":"2.0","id":%b,"result":[]}' % encode(id)


def test_what_is_serialized_already_goes_into_an_answer_as_it_is() -> None:
    result = {"tools": Raw(b'[{"b": 1, "a":2}]'), "next": None, "more": {"_meta": Raw(b"{}")}}
    assert response_bytes(NULL, result) == (
        b'{"jsonrpc":"2.0","id":null,"result":{"tools":[{"b": 1, "a":2}],"next":null,"more":{"_meta":{}}}}'
    )


@each("id", ["", 'a"b', -1, HUGE, NULL])
def test_a_joined_answer_is_the_same_as_one_that_is_serialized(id: Any) -> None:
    joined = joined_response(id, b'{"tools":', Raw(b"[1]"), b"", b',"more":{}}')
    assert joined == response_bytes(id, {"tools": [1], "more": {}})


def test_a_result_that_json_cannot_say_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        response_bytes(1, {"text": "\ud800"})


@each("id", [None, True, False, 1.0, 1.5, {}, [], ["a"], "x" * 257, "é" * 129, 10**256])
def test_other_ids_are_refused_and_not_given_back(id: Any) -> None:
    with pytest.raises(BadMessage) as caught:
        parse_message(call(id=id))
    assert caught.value.id is None


def test_params_may_be_an_object_an_array_or_absent() -> None:
    assert parse_message(call(params=[1])) == Request(1, "m", [1])
    assert parse_message(call(params={})) == Request(1, "m", {})
    assert parse_message(call()) == Request(1, "m", None)


@each(
    "broken",
    [
        {"jsonrpc": "1.0"},
        {"jsonrpc": 2.0},
        {"jsonrpc": None},
        {"method": ""},
        {"method": 5},
        {"method": None},
        {"params": None},
        {"params": "x"},
        {"params": 5},
    ],
)
def test_a_broken_message_is_refused_with_its_id(broken: dict[str, Any]) -> None:
    with pytest.raises(BadMessage) as caught:
        parse_message(call(id="mine", **broken))
    assert caught.value.id == "mine"


@each("value", [None, 1, "x", True, [], [call()], [[]]])
def test_what_is_not_one_object_is_refused(value: Any) -> None:
    with pytest.raises(BadMessage, match="one JSON-RPC message"):
        parse_message(value)


def test_a_message_without_an_id_is_a_notification() -> None:
    assert parse_message({"jsonrpc": "2.0", "method": "n", "params": [1]}) == Notification("n", [1])


@each("member", [{"result": None}, {"result": {}}, {"error": {"code": 1}}])
def test_an_answer_posted_by_a_client_is_told_from_a_call(member: dict[str, Any]) -> None:
    response = ClientResponse(1, member.get("result"), member.get("error"))
    assert parse_message({"jsonrpc": "2.0", "id": 1} | member) == response
    assert isinstance(parse_message(call() | member), Request)


def test_a_request_to_a_backend_has_only_the_members_it_needs() -> None:
    assert request_bytes("c1", "m", None) == b'{"jsonrpc":"2.0","id":"c1","method":"m"}'
    assert request_bytes(None, "m", []) == b'{"jsonrpc":"2.0","method":"m","params":[]}'
    assert decode(request_bytes("c1", "m", {"n": HUGE}))["params"] == {"n": HUGE}


def test_an_error_has_no_id_where_none_could_be_read_and_data_where_there_is_some() -> None:
    assert error_bytes(None, TooLarge("big")) == b'{"jsonrpc":"2.0","error":{"code":413,"message":"big"}}'
    answer = decode(error_bytes("i", InvalidCursor("no", data={"x": 1})))
    assert answer == {"jsonrpc": "2.0", "id": "i", "error": {"code": -32602, "message": "no", "data": {"x": 1}}}


# --- responses ------------------------------------------------------------------------------------------------

FORGIVEN = {
    "ids within the result, behind the id": (
        f'{{"jsonrpc": "2.0", "id": "7", "result": [{{"id": 1}}, "{LONG}"]}}',
        [{"id": 1}, LONG],
        None,
    ),
}


@each_row_and(FORGIVEN)
def test_what_is_harmless_in_a_response_is_forgiven(raw: str, result: Any, fault: ResponseError | None) -> None:
    assert parse_response(raw.encode(), "7") == (result, fault)


@each_row
def test_what_is_no_response_is_the_result_where_results_are_bare(
    raw: str, result: Any, fault: ResponseError | None
) -> None:
    assert parse_response(raw.encode(), "7", bare=True) == (result, fault)


def test_a_response_without_an_outcome_is_no_bare_result() -> None:
    with pytest.raises(ValueError, match="neither"):
        parse_response(b'{"jsonrpc":"2.0","id":"7"}', "7", bare=True)


def test_a_message_of_1_0_has_id_method_and_params_and_no_version() -> None:
    assert decode(request_bytes("7", "m", None, "1.0")) == {"id": "7", "method": "m", "params": []}
    assert decode(request_bytes(None, "m", [1], "1.0")) == {"id": None, "method": "m", "params": [1]}


VIOLATIONS = {
    "two ids around a long result": (f'{{"jsonrpc":"2.0","id":"7","result":"{LONG}","id":"7"}}', "two members"),
    "another id behind a long result": (f'{{"jsonrpc":"2.0","id":"7","result":"{LONG}","id":"8"}}', "two members"),
    "two ids before a long result": (f'{{"jsonrpc":"2.0","id":"8","id":"7","result":"{LONG}"}}', "two members"),
    "another id before a long result": (f'{{"jsonrpc":"2.0","id":"7","id":"8","result":"{LONG}"}}', "another call"),
    "a result nested too deeply": ('{"id":"7","result":' + "[" * 257 + "]" * 257 + "}", "nested too deeply"),
}


@each_row_and(VIOLATIONS)
def test_anything_else_is_a_violation_that_is_named(raw: str, violation: str) -> None:
    with pytest.raises(ValueError, match=violation):
        parse_response(raw.encode(), "7")


@each("result", {"a text": LONG, "a list": [LONG]})
@each("read", [parse_response, parse_large_response])
def test_an_integer_that_begins_with_ours_is_another_id(read: Callable[..., Any], result: Any) -> None:
    with pytest.raises(ValueError, match="two members"):
        read(b'{"jsonrpc":"2.0","id":70,"id":7,"result":%b}' % encode(result), 7)


def test_a_wide_result_is_not_a_deep_one() -> None:
    wide = [[{}] for _ in range(1000)]
    assert parse_response(encode({"result": wide}), "7") == (wide, None)
