"""``POST /jsonrpc``: the guarded way through, for clients that speak JSON-RPC 2.0 already (design §3).

Who may call is in tests/authorization/test_jsonrpc_access.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Final

import pytest

from tests.each import each
from tests.fault.behaviours import Body, error
from tests.fault.methods import ADD, ECHO, FAIL, VOID, Rpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Connect
from tests.protocol.talk import Answer, Client, request
from tests.protocol.watched import Watched
from tests.tables import each_row, each_row_and
from tests.waiting import PATIENCE

pytestmark = pytest.mark.usefixtures("both_servers")


ROUTE: Final = "/jsonrpc"
TWO_AND_THREE: Final = {"a": 2, "b": 3}
PLACE: Final = Rpc("place", {"x": {"type": "integer"}, "y": {"type": "integer"}}, {}, "Place", lambda x, y: [x, y])
SECRET: Final = Rpc("internal.wipe", {}, {}, "Wipe", lambda: "wiped")


@pytest.fixture
def methods() -> Sequence[Rpc]:
    return (ADD, ECHO, FAIL, VOID, PLACE, SECRET)


@pytest.fixture
async def client(connect: Connect) -> Client:
    return await connect("catalog.exclude=['internal.*', 'rpc.*']")


async def ask(client: Client, method: str, params: Any = None, id: Any = 1) -> Answer:
    return await client.post(ROUTE, request(method, params, id))


def item(method: str, params: Any = None, id: Any = 1) -> dict[str, Any]:
    return request(method, params, id)


def notification(method: str, params: Any = None) -> dict[str, Any]:
    return {name: value for name, value in request(method, params).items() if name != "id"}


# --- one message ------------------------------------------------------------------------------------------------


async def test_a_call_goes_through_and_its_result_comes_back(client: Client, backend: ScriptedBackend) -> None:
    answer = await ask(client, "add", TWO_AND_THREE)
    assert (answer.status, answer.json) == (200, {"jsonrpc": "2.0", "id": 1, "result": {"sum": 5}})
    (sent,) = backend.requests
    assert (sent.verb, sent.method, sent.params) == ("POST", "add", TWO_AND_THREE)


@each("id", ["", "a", "1", "ü☃", 0, 1, -1, 2**53 + 1, 10**60, -(10**60), "x" * 256])
async def test_the_id_comes_back_as_it_went_and_the_backend_has_one_of_ours(
    client: Client, backend: ScriptedBackend, id: Any
) -> None:
    backend.requests.clear()
    answer = await ask(client, "add", TWO_AND_THREE, id)
    assert json.loads(answer.body)["id"] == id
    assert type(answer.json["id"]) is type(id)
    assert backend.requests[0].json["id"] != id


@each("id", [True, [], {}, "x" * 257, 10**256])
async def test_an_id_that_is_none_is_refused(client: Client, backend: ScriptedBackend, id: Any) -> None:
    answer = await ask(client, "add", TWO_AND_THREE, id)
    assert (answer.fault, answer.json["id"]) == ((400, -32600), None)
    assert backend.requests == []


VALUES: Final = (
    "0", "-0", "9007199254740993", str(10**80), "1e300", "0.1", "true", "null", '""', '"\\u0000\\u2028\\"\\\\"',
    "[]", "{}", '{"isError":true}', '{"jsonrpc":"2.0","error":{}}', '{"content":[{"type":"text"}]}',
    "[" * 200 + "]" * 200, '{"resultType":"complete"}',
)  # fmt: skip


@each("value", VALUES)
async def test_the_result_is_the_backends_own(client: Client, backend: ScriptedBackend, value: str) -> None:
    backend.on("echo", Body(b'{"jsonrpc":"2.0","id":@ID@,"result":%b}' % value.encode()))
    answer = await ask(client, "echo", {"value": 1})
    assert answer.status == 200
    found = answer.body.removeprefix(b'{"jsonrpc":"2.0","id":1,"result":').removesuffix(b"}")
    assert repr(json.loads(found)) == repr(json.loads(value))


@each("value", ["9007199254740993", str(10**80), "[[[[[[[[[[1]]]]]]]]]]", '{"a":{"b":[1,null]}}'])
async def test_arguments_reach_the_backend_as_they_came(client: Client, backend: ScriptedBackend, value: str) -> None:
    backend.requests.clear()
    body = b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"value":%b}}' % value.encode()
    assert (await client.post(ROUTE, body)).json["result"] == json.loads(value)
    assert value.encode() in backend.requests[0].body


async def test_params_by_position_become_names_before_they_are_checked(
    client: Client, backend: ScriptedBackend
) -> None:
    assert (await ask(client, "place", [1, 2])).json["result"] == [1, 2]
    assert backend.requests[0].params == {"x": 1, "y": 2}
    assert (await ask(client, "place", [1, "2"])).fault == (200, -32602)
    assert (await ask(client, "place", [1])).fault == (200, -32602)
    assert (await ask(client, "place", [1, 2, 3])).fault == (200, -32602)
    assert len(backend.requests) == 1


async def test_a_backend_that_wants_positions_gets_positions_either_way(
    connect: Connect, backend: ScriptedBackend
) -> None:
    client = await connect("backend.params.structure=by-position")
    for params in ([1, 2], {"y": 2, "x": 1}):
        assert (await ask(client, "place", params)).json["result"] == [1, 2]
    assert [sent.params for sent in backend.requests] == [[1, 2], [1, 2]]


@each_row
async def test_arguments_that_break_the_schema_are_refused(
    client: Client, backend: ScriptedBackend, params: Any
) -> None:
    answer = await ask(client, "add", params)
    assert answer.fault == (200, -32602)
    assert answer.json["id"] == 1
    assert backend.requests == []


@each("method", ["internal.wipe", "rpc.discover", "no_such", "Add", "tools/list", "initialize"])
async def test_what_the_catalog_does_not_offer_never_reaches_the_backend(
    client: Client, backend: ScriptedBackend, method: str
) -> None:
    answer = await ask(client, method)
    assert answer.fault == (200, -32601)
    assert (await client.post(ROUTE, notification(method))).status == 204
    assert backend.requests == []


async def test_a_method_may_be_called_by_the_tools_name(connect: Connect, backend: ScriptedBackend) -> None:
    client = await connect("catalog.tools.add.name=sum_up")
    for name in ("sum_up", "add"):
        assert (await ask(client, name, TWO_AND_THREE)).json["result"] == {"sum": 5}
    assert [sent.method for sent in backend.requests] == ["add", "add"]


async def test_a_backends_error_comes_cleaned_and_without_its_code(client: Client, backend: ScriptedBackend) -> None:
    backend.on("fail", error(-32099, "At http://127.0.0.1:1/x: no", {"trace": "secret.py:1"}))
    answer = await ask(client, "fail")
    assert answer.status == 200
    assert answer.error["code"] != -32099
    assert "127.0.0.1" not in answer.error["message"]
    assert b"secret" not in answer.body


async def test_a_notification_has_no_answer(client: Client, backend: ScriptedBackend) -> None:
    answer = await client.post(ROUTE, notification("void", {}))
    assert (answer.status, answer.body) == (204, b"")
    answer = await client.post(ROUTE, notification("add", TWO_AND_THREE))
    assert (answer.status, answer.body) == (204, b"")
    assert [sent.method for sent in backend.requests] == ["void", "add"]


@each(("method", "params"), [("add", {}), ("no_such", {}), ("fail", {})])
async def test_a_notification_that_fails_has_no_answer_either(client: Client, method: str, params: Any) -> None:
    """JSON-RPC 2.0 §4.1: the client would not be aware of any errors."""
    answer = await client.post(ROUTE, notification(method, params))
    assert (answer.status, answer.body) == (204, b"")


async def test_a_tool_that_a_person_has_to_agree_to_is_refused(connect: Connect, backend: ScriptedBackend) -> None:
    client = await connect("catalog.tools.add.confirm=true")
    answer = await ask(client, "add", TWO_AND_THREE)
    assert answer.fault == (200, 403)
    assert "consent" in answer.error["message"]
    (in_batch,) = (await client.post(ROUTE, [item("add", TWO_AND_THREE)])).json
    assert in_batch["error"]["code"] == 403
    assert backend.requests == []


CALL_WITH = '{"jsonrpc":"2.0","id":1,"method":"echo","params":{"value":%s}}'


@each_row_and(
    {
        "no UTF-8": ("\udcff", (400, -32700)),
        "65 arrays": (CALL_WITH % ("[" * 65 + "]" * 65), (400, -32600)),
    }
)
async def test_what_is_no_message_is_refused(
    client: Client, backend: ScriptedBackend, body: str, fault: tuple[int, int]
) -> None:
    assert (await client.post(ROUTE, body.encode(errors="surrogateescape"))).fault == fault
    assert backend.requests == []


async def test_a_body_that_is_too_large_or_of_another_type_is_refused(connect: Connect) -> None:
    client = await connect("server.max_body=1KiB")
    assert (await ask(client, "echo", {"value": "x" * 2000})).fault == (413, 413)
    answer = await client.post(ROUTE, request("add", TWO_AND_THREE), {"Content-Type": "text/plain"})
    assert answer.fault == (415, 415)


@each("verb", ["GET", "PUT", "DELETE"])
async def test_only_post_is_served(client: Client, verb: str) -> None:
    answer = await client.send(verb, ROUTE)
    assert (answer.fault, answer.headers["Allow"]) == ((405, 405), "POST")


async def test_a_foreign_page_may_not_call(client: Client, backend: ScriptedBackend) -> None:
    answer = await client.post(ROUTE, request("add", TWO_AND_THREE), {"Origin": "https://evil.example.com"})
    assert answer.status == 403
    assert backend.requests == []


# --- batches ----------------------------------------------------------------------------------------------------


async def test_a_batch_is_answered_item_by_item_in_order(client: Client, backend: ScriptedBackend) -> None:
    batch = [
        item("add", TWO_AND_THREE, "one"),
        notification("void", {}),
        item("no_such", {}, 2),
        item("add", {"a": 1}, 2**60),
        {"jsonrpc": "2.0", "id": 4},
        7,
        [],
        {"jsonrpc": "2.0", "id": 5, "result": {}},
        item("fail", {}, 6),
        item("place", [1, 2], "one"),
    ]
    answer = await client.post(ROUTE, batch)
    assert answer.status == 200
    found = [(reply.get("id"), reply.get("result", reply.get("error", {}).get("code"))) for reply in answer.json]
    assert found[:3] == [("one", {"sum": 5}), (2, -32601), (2**60, -32602)]
    assert found[3:6] == [(4, -32600), (None, -32600), (None, -32600)]
    assert found[6][1] == -32600
    assert found[7][0] == 6
    assert found[8:] == [("one", [1, 2])]
    assert [sent.method for sent in backend.requests] == ["add", "void", "fail", "place"]


async def test_the_backend_gets_one_call_of_a_batch_at_a_time(client: Client, backend: ScriptedBackend) -> None:
    first = Watched()
    backend.on("add", first)
    pending = asyncio.create_task(client.post(ROUTE, [item("add", TWO_AND_THREE), item("echo", {"value": 1}, 2)]))
    await first.begun()
    assert [sent.method for sent in backend.requests] == ["add"]
    assert all(not isinstance(sent.json, list) for sent in backend.requests)
    first.release()
    async with asyncio.timeout(PATIENCE):
        answer = await pending
    assert [reply["id"] for reply in answer.json] == [1, 2]
    assert [sent.method for sent in backend.requests] == ["add", "echo"]


async def test_a_batch_whose_client_hangs_up_goes_no_further(client: Client, backend: ScriptedBackend) -> None:
    first = Watched()
    backend.on("add", first)
    pending = asyncio.create_task(client.post(ROUTE, [item("add", TWO_AND_THREE), item("echo", {"value": 1}, 2)]))
    await first.begun()
    pending.cancel()
    assert await first.over() == "abandoned"
    assert [sent.method for sent in backend.requests] == ["add"]


async def test_a_batch_of_notifications_has_no_answer(client: Client, backend: ScriptedBackend) -> None:
    answer = await client.post(ROUTE, [notification("void", {}), notification("no_such", {})])
    assert (answer.status, answer.body) == (204, b"")
    assert [sent.method for sent in backend.requests] == ["void"]


async def test_a_batch_has_at_most_fifty_messages(client: Client, backend: ScriptedBackend) -> None:
    fifty = [item("add", TWO_AND_THREE, number) for number in range(50)]
    assert [reply["id"] for reply in (await client.post(ROUTE, fifty)).json] == list(range(50))
    backend.requests.clear()
    assert (await client.post(ROUTE, [*fifty, item("add", TWO_AND_THREE)])).fault == (400, -32600)
    assert backend.requests == []


async def test_an_empty_batch_is_no_message(client: Client) -> None:
    assert (await client.post(ROUTE, [])).fault == (400, -32600)


async def test_while_there_is_no_listing_a_call_is_503(connect: Connect, backend: ScriptedBackend) -> None:
    client = await connect(url=backend.refused_url)
    answer = await ask(client, "add", TWO_AND_THREE)
    assert (answer.fault, "Retry-After" in answer.headers) == ((503, 503), True)
    (in_batch,) = (await client.post(ROUTE, [item("add", TWO_AND_THREE)])).json
    assert in_batch["error"]["code"] == 503
