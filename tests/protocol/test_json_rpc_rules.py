"""JSON-RPC 2.0 to the letter on ``/jsonrpc`` and ``/mcp/tools/{name}``, where MCP's own narrower rules do not hold.

§4: an id is a string, a number or null; a request without one is a notification. §5: a response has an id, null where
the request's cannot be read.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, Final

import pytest

from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Connect
from tests.protocol.talk import Answer, Client, request
from tests.tables import each_row

pytestmark = pytest.mark.usefixtures("both_servers")


ROUTES: Final = ("/jsonrpc", "/mcp/tools/add")
TWO_AND_THREE: Final = {"a": 2, "b": 3}
ADDING: Final = request("add", TWO_AND_THREE)
NOTICE: Final = {name: value for name, value in ADDING.items() if name != "id"}

on_both = each("route", ROUTES)


def with_id(id: str, params: str = '{"a":2,"b":3}') -> bytes:
    """A call of ``add`` with this text as its id."""
    return f'{{"jsonrpc":"2.0","method":"add","id":{id},"params":{params}}}'.encode()


def id_of(answer: Answer) -> Any:
    """The id with all of its digits."""
    message = json.loads(answer.body, parse_float=Decimal)
    return message["id"]


FRACTIONS: Final = (
    "1.5", "-0.5", "0.1", "1.0", "1e3", "-2.5E-7", "12345678901234567890.25", "1e-400",
    "0.1000000000000000055511151231257827", "1." + "0" * 200 + "1",
)  # fmt: skip


@on_both
@each("id", FRACTIONS)
async def test_a_fractional_id_comes_back_equal_to_the_last_digit(client: Client, route: str, id: str) -> None:
    for params in ('{"a":2,"b":3}', '{"a":2}'):
        answer = await client.post(route, with_id(id, params))
        assert Decimal(id_of(answer)) == Decimal(id)
        assert ("result" in answer.json) == (params == '{"a":2,"b":3}')


@on_both
@each("id", ["1e400", "-1e400", "1." + "0" * 300, "9" * 4301])
async def test_an_id_beyond_all_bounds_is_refused(
    client: Client, backend: ScriptedBackend, route: str, id: str
) -> None:
    answer = await client.post(route, with_id(id))
    assert answer.status == 400
    assert (answer.error["code"] in (-32700, -32600), answer.json["id"]) == (True, None)
    assert backend.requests == []


@each_row
async def test_what_is_no_id_is_told_what_an_id_is_there(client: Client, route: str, id: str, kinds: str) -> None:
    answer = await client.post(route, with_id(id))
    assert answer.fault == (400, -32600)
    assert answer.error["message"].endswith(f'"id" must be {kinds}')


@on_both
async def test_an_id_of_null_is_a_request(client: Client, backend: ScriptedBackend, route: str) -> None:
    answer = await client.post(route, with_id("null"))
    assert (answer.status, answer.json) == (200, {"jsonrpc": "2.0", "id": None, "result": {"sum": 5}})
    failed = await client.post(route, with_id("null", "{}"))
    assert (failed.error["code"], failed.json["id"]) == (-32602, None)
    assert backend.calls("add") == 1


@on_both
async def test_a_message_without_an_id_is_made_and_not_answered(
    client: Client, backend: ScriptedBackend, route: str
) -> None:
    answer = await client.post(route, NOTICE)
    assert (answer.status, answer.body) == (204, b"")
    assert [sent.params for sent in backend.requests] == [TWO_AND_THREE]


@on_both
async def test_nobody_hears_what_came_of_a_notification(client: Client, backend: ScriptedBackend, route: str) -> None:
    """§4.1: the client would not be aware of any errors."""
    answer = await client.post(route, {**NOTICE, "params": {"a": 1}})
    assert (answer.status, answer.body) == (204, b"")
    assert backend.requests == []


async def test_a_notification_by_get_is_made_for_a_tool_that_is_marked_read_only(
    connect: Connect, backend: ScriptedBackend
) -> None:
    client = await connect("catalog.tools.numbers.annotations.readOnlyHint=true")
    answer = await client.get('/mcp/tools/numbers?query={"jsonrpc":"2.0","method":"numbers"}')
    assert (answer.status, answer.body, backend.calls("numbers")) == (204, b"", 1)


@on_both
@each("body", [b"{", b"7", b'{"jsonrpc":"1.0","method":"add"}', b'{"jsonrpc":"2.0","id":{}}'])
async def test_an_error_has_a_null_id_where_none_can_be_read(client: Client, route: str, body: bytes) -> None:
    answer = await client.post(route, body)
    assert (answer.status, answer.json["id"], answer.json["jsonrpc"]) == (400, None, "2.0")


@on_both
@each("id", [7, "mine", 1.5, "", 0])
async def test_an_error_has_the_id_of_its_request(client: Client, route: str, id: Any) -> None:
    broken = ({**ADDING, "params": {}}, {**ADDING, "jsonrpc": "1.0"}, {**ADDING, "method": 5}, {**ADDING, "params": 5})
    for message in broken:
        answer = await client.post(route, {**message, "id": id})
        assert ("error" in answer.json, answer.json["id"]) == (True, id)


@on_both
async def test_an_exchange_that_is_refused_early_has_an_error_with_a_null_id(connect_once: Connect, route: str) -> None:
    client = await connect_once("server.max_body=1KiB")
    too_large = await client.post(route, {**ADDING, "params": {"a": "x" * 2000}})
    assert (too_large.fault, too_large.json["id"]) == ((413, 413), None)
    of_another_type = await client.post(route, ADDING, {"Content-Type": "text/plain"})
    assert (of_another_type.fault, of_another_type.json["id"]) == ((415, 415), None)
    foreign = await client.post(route, ADDING, {"Origin": "https://evil.example.com"})
    assert (foreign.fault, foreign.json["id"]) == ((403, 403), None)


async def test_each_item_of_a_batch_has_its_id_and_a_broken_one_null(client: Client) -> None:
    raw = b"[%b,%b,7,%b,%b]" % (with_id("1.50"), with_id("null"), with_id("true"), with_id("2e0", "{}"))
    answers = json.loads((await client.post("/jsonrpc", raw)).body, parse_float=Decimal)
    assert [(answer["id"], "result" in answer) for answer in answers] == [
        (Decimal("1.50"), True), (None, True), (None, False), (None, False), (Decimal(2), False)
    ]  # fmt: skip


@on_both
@each("kind", ["application/json-rpc", "application/jsonrequest", "application/json-rpc; charset=utf-8"])
async def test_json_rpc_has_content_types_of_its_own(client: Client, route: str, kind: str) -> None:
    assert (await client.post(route, ADDING, {"Content-Type": kind})).json["result"] == {"sum": 5}
    latin = await client.post(route, ADDING, {"Content-Type": f"{kind.partition(';')[0]}; charset=latin-1"})
    assert latin.status == 415


@each("path", ["/mcp", "/mcp/tools/invoke"])
async def test_other_surfaces_take_json_alone(client: Client, path: str) -> None:
    assert (await client.post(path, ADDING, {"Content-Type": "application/json-rpc"})).status == 415


@on_both
async def test_a_method_that_is_no_tool_is_not_found(client: Client, route: str) -> None:
    path = route.replace("add", "nope")
    answer = await client.post(path, request("nope", {}, 3))
    assert (answer.error["code"], answer.json["id"]) == (-32601, 3)
    assert answer.status == (200 if route == "/jsonrpc" else 404)


async def test_mcp_keeps_its_own_rules(client: Client, backend: ScriptedBackend) -> None:
    for id in ("null", "1.5"):
        answer = await client.mcp(b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % id.encode())
        assert (answer.fault, "id" in answer.json) == ((400, -32600), False)
    assert backend.requests == []
