"""The ``id`` of a request: which are taken, that they come back as they came, and that answers never cross.

JSON-RPC 2.0 §4, narrowed by MCP (all revisions, basic "Requests"): a string or an integer, never null.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import ClientSession

from gateway.process.server import Server
from tests.each import each
from tests.fault.behaviours import Hang, InTurn, result
from tests.fault.scripted import ScriptedBackend
from tests.protocol.talk import LEGACY, MODERN, Client, legacy_headers, modern_headers, modern_request, request
from tests.waiting import PATIENCE

pytestmark = pytest.mark.usefixtures("both_servers")

ERAS = (MODERN, LEGACY[0])
HUGE = 10**40

GOOD = {
    "zero": b"0",
    "negative": b"-1",
    "beyond doubles": b"9007199254740993",
    "beyond 64 bits": b"18446744073709551616",
    "huge": str(HUGE).encode(),
    "empty string": b'""',
    "digits in a string": b'"1"',
    "beyond ASCII": '"größe ☃"'.encode(),
    "escapes": rb'"\u0000\"\\"',
    "longest": b'"' + b"x" * 256 + b'"',
}
BAD = ["null", "true", "1.5", "1.0", "1e3", "{}", "[]", "[1]", '"' + "x" * 257 + '"', "1" * 257]


def with_id(message: dict[str, Any], id: bytes) -> bytes:
    """The message with these bytes as its id."""
    return json.dumps(message | {"id": "@"}).encode().replace(b'"@"', id)


async def ask(client: Client, era: str, method: str, id: bytes, params: dict[str, Any] | None = None) -> Any:
    if era == MODERN:
        headers = modern_headers(method, (params or {}).get("name"))
        return await client.mcp(with_id(modern_request(method, params), id), headers)
    return await client.mcp(with_id(request(method, params), id), legacy_headers(era))


@each("era", ERAS)
@each("id", GOOD)
async def test_an_id_comes_back_as_it_came(client: Client, era: str, id: bytes) -> None:
    """The type and the value are the same: on results, on protocol errors, and from the backend's side."""
    numbers = {"name": "numbers"}
    for method, params in (("tools/list", None), ("nope", None), ("tools/call", numbers), ("tools/call", {})):
        answer = await ask(client, era, method, id, params)
        came, went = answer.json["id"], json.loads(id)
        assert (type(came), came) == (type(went), went)
        assert ("result" in answer.json) == (method != "nope" and params != {})


@each("era", ERAS)
@each("id", BAD)
async def test_an_id_that_is_none_is_refused_and_not_repeated(
    client: Client, backend: ScriptedBackend, era: str, id: str
) -> None:
    """Reject bool, fraction, null, object; an unreadable id is omitted, since a null one breaks MCP's schema."""
    answer = await ask(client, era, "tools/call", id.encode(), {"name": "numbers"})
    assert answer.fault == (400, -32600)
    assert "id" not in answer.json
    assert backend.requests == []


async def test_the_backend_gets_ids_of_our_own(client: Client, backend: ScriptedBackend) -> None:
    """R18: what clients choose is not forwarded, so theirs cannot collide."""
    for _ in range(3):
        await client.modern("tools/call", {"name": "numbers"}, id="mine")
    ids = [call.json["id"] for call in backend.requests]
    assert len(set(ids)) == 3
    assert "mine" not in ids


async def test_answers_to_equal_ids_do_not_cross(gateway: Server, backend: ScriptedBackend) -> None:
    """R18: the first call answers last, and each client gets its own."""
    backend.on("echo", InTurn((Hang("nothing", result("first")), result("second"))))
    async with ClientSession() as one, ClientSession() as other, asyncio.timeout(PATIENCE):
        call = {"name": "echo", "arguments": {"value": 0}}
        slow = asyncio.create_task(Client(one, gateway.port).modern("tools/call", call, id=7))
        await backend.called("echo")
        fast = await Client(other, gateway.port).legacy("tools/call", call, id=7)
        assert not slow.done()
        backend.release.set()
        texts = [answer.result["content"][0]["text"] for answer in (await slow, fast)]
    assert texts == ["first", "second"]


async def test_many_clients_with_one_id_each_get_their_own_answer(client: Client) -> None:
    values = [f"value {number}" for number in range(60)]
    eras = (MODERN, *LEGACY)
    answers = await asyncio.gather(
        *(
            client.speak(eras[number % 5], "tools/call", {"name": "echo", "arguments": {"value": value}})
            for number, value in enumerate(values)
        )
    )
    texts = [answer.result["content"][0]["text"] for answer in answers]
    assert texts == values
