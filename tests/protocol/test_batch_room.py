"""What the answers of one batch come to: fifty calls in some kilobytes must not make the gateway hold fifty large ones.

They share one ``backend.max_response``, on ``/jsonrpc`` and on ``/mcp`` at the revision that has batches.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.each import each
from tests.fault.behaviours import InTurn, result
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Connect
from tests.protocol.talk import Answer, Client, request

pytestmark = pytest.mark.usefixtures("both_servers")


MOST: Final = 64 * 1024
BOUND: Final = f"backend.max_response={MOST}"
LARGE: Final = "x" * (MOST // 4)

on_both = each("route", ["/jsonrpc", "/mcp"])


def call(route: str, id: int) -> dict[str, Any]:
    if route == "/mcp":
        return request("tools/call", {"name": "echo", "arguments": {"value": id}}, id)
    return request("echo", {"value": id}, id)


async def batch_of(client: Client, route: str, count: int) -> Answer:
    return await client.post(route, [call(route, id) for id in range(count)])


@on_both
async def test_fifty_large_answers_come_to_one_at_most(connect: Connect, backend: ScriptedBackend, route: str) -> None:
    backend.on("echo", result(LARGE))
    client = await connect(BOUND)
    answer = await batch_of(client, route, 50)
    good = [each for each in answer.json if "result" in each]
    bad = [each for each in answer.json if "error" in each]
    assert [each["id"] for each in answer.json] == list(range(50))
    assert 1 <= len(good) <= 4
    assert len(answer.body) <= MOST + 500 * len(bad)
    assert backend.calls("echo") == 50


@on_both
async def test_the_error_names_the_bound_and_what_to_do(connect: Connect, backend: ScriptedBackend, route: str) -> None:
    backend.on("echo", result(LARGE))
    client = await connect(BOUND)
    last = (await batch_of(client, route, 5)).json[-1]
    assert last["error"]["code"] == 413
    for words in ("backend.max_response (64KiB)", "may have taken effect", "one by one"):
        assert words in last["error"]["message"]
    alone = await client.post(route, call(route, 9))
    assert "result" in alone.json


@on_both
async def test_a_small_answer_behind_one_that_does_not_fit_is_given(
    connect: Connect, backend: ScriptedBackend, route: str
) -> None:
    backend.on("echo", InTurn((result(LARGE), result(LARGE + LARGE + LARGE), result("small"))))
    client = await connect(BOUND)
    first, second, third = (await batch_of(client, route, 3)).json
    assert ("result" in first, second["error"]["code"], "result" in third) == (True, 413, True)


@on_both
async def test_however_full_a_batch_is_an_item_that_fails_says_why(
    connect: Connect, backend: ScriptedBackend, route: str
) -> None:
    backend.on("echo", result("x" * (MOST - 2000)))
    client = await connect(BOUND)
    unknown = request("no_such", {}, "unknown")
    full = (await client.post(route, [*(call(route, id) for id in range(5)), unknown])).json
    assert [each["error"]["code"] for each in full[-2:]] == [413, -32601]
