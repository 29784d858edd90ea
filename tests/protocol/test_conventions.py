"""How arguments reach a service whose listing leaves the shape of params open, through every surface."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.each import each
from tests.fault.behaviours import Behaviour, Body, Hang, InTurn, error, result
from tests.fault.methods import Rpc, RpcFailure
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Surface, front
from tests.protocol.conftest import Connect
from tests.protocol.talk import request
from tests.waiting import PATIENCE

pytestmark = pytest.mark.usefixtures("both_servers")


NUMBER = {"type": "number"}
READ_ONLY = 'catalog.tools={"*": {"annotations": {"readOnlyHint": true}}}'


class Positional(Rpc):
    """Takes params by position alone."""

    def __call__(self, params: object) -> object:
        if not isinstance(params, list):
            raise RpcFailure(-32602, "Invalid params")
        return super().__call__(params)


SUBTRACT = Positional("subtract", {"a": NUMBER, "b": NUMBER}, run=lambda a, b: a - b)
LOOKUP = Rpc("lookup", {"$key": {}, "in": {}}, run=lambda **params: params)


def sent(backend: ScriptedBackend, method: str) -> list[Any]:
    return [request.params for request in backend.requests if request.method == method]


@each("surface", SURFACES)
async def test_a_wrong_guess_is_mended_for_a_read_only_tool_and_not_made_again(surface: Surface) -> None:
    async with ScriptedBackend((SUBTRACT,)) as backend, front(backend.url, READ_ONLY) as gateway:
        assert (await gateway.call(surface, "subtract", {"a": 5, "b": 3})).value == 2
        assert (await gateway.call(surface, "subtract", {"a": 3, "b": 5})).value == -2
        assert sent(backend, "subtract") == [{"a": 5, "b": 3}, [5, 3], [3, 5]]


@each("surface", SURFACES)
async def test_a_wrong_guess_for_any_other_tool_is_one_call_and_an_error_that_helps(surface: Surface) -> None:
    async with ScriptedBackend((SUBTRACT,)) as backend, front(backend.url) as gateway:
        called = await gateway.call(surface, "subtract", {"a": 5, "b": 3})
        assert "Invalid params" in called.message
        assert "backend.params.structure" in called.message
        assert backend.calls("subtract") == 1


async def test_the_named_knob_mends_it() -> None:
    async with (
        ScriptedBackend((SUBTRACT,)) as backend,
        front(backend.url, "backend.params.structure=by-position") as gateway,
    ):
        assert (await gateway.call("modern", "subtract", {"a": 5, "b": 3})).value == 2
        assert sent(backend, "subtract") == [[5, 3]]


@each("surface", SURFACES)
async def test_an_argument_that_llm_apis_refuse_is_published_and_sent_under_two_names(surface: Surface) -> None:
    async with (
        ScriptedBackend((LOOKUP,)) as backend,
        front(backend.url, "backend.params.structure=by-name") as gateway,
    ):
        tool = (await gateway.tools(surface))["lookup"]
        assert list(tool["inputSchema"]["properties"]) == ["key", "in"]
        assert tool["inputSchema"]["required"] == ["key", "in"]
        assert (await gateway.call(surface, "lookup", {"key": 1, "in": 2})).value == {"$key": 1, "in": 2}
        wrong = await gateway.call(surface, "lookup", {"in": 2})
        assert "key" in wrong.message
        assert sent(backend, "lookup") == [{"$key": 1, "in": 2}]


async def test_the_tools_own_route_takes_the_methods_own_names_as_well(connect: Connect) -> None:
    async with ScriptedBackend((LOOKUP,)) as backend:
        client = await connect("backend.params.structure=by-name", url=backend.url)
        for params in ({"$key": 1, "in": 2}, {"key": 1, "in": 2}, [1, 2]):
            answer = await client.post("/mcp/tools/lookup", request("lookup", params))
            assert answer.json["result"] == {"$key": 1, "in": 2}


@each("code", [-32602, -32600, -32700])
async def test_what_services_answer_for_a_wrong_shape_leads_to_the_second_try(code: int) -> None:
    async with ScriptedBackend((SUBTRACT,)) as backend, front(backend.url, READ_ONLY) as gateway:
        backend.on("subtract", InTurn((error(code, "Incorrect number of arguments"), result(2))))
        assert (await gateway.call("modern", "subtract", {"a": 5, "b": 3})).value == 2
        assert sent(backend, "subtract") == [{"a": 5, "b": 3}, [5, 3]]


@each(
    ("answer", "told"),
    [
        *((error(code, "Out of stock"), "Out of stock") for code in (-32603, -32601, -32000, 5)),
        (error(-32600, "Invalid Request", "Access Denied: a permission is required."), "Access Denied"),
        (Body(b"", 500, None), "HTTP 500"),
    ],
)
async def test_any_other_failure_is_the_answer_whatever_the_tool(answer: Behaviour, told: str) -> None:
    async with ScriptedBackend((SUBTRACT,)) as backend, front(backend.url, READ_ONLY) as gateway:
        backend.on("subtract", answer)
        assert told in (await gateway.call("modern", "subtract", {"a": 5, "b": 3})).message
        assert backend.calls("subtract") == 1


async def test_both_tries_share_one_deadline() -> None:
    async with (
        ScriptedBackend((SUBTRACT,)) as backend,
        front(backend.url, READ_ONLY, "backend.timeout=1s") as gateway,
    ):
        backend.on("subtract", InTurn((error(-32602, "Invalid params"), Hang("head"))))
        async with asyncio.timeout(PATIENCE):
            assert "in time" in (await gateway.call("modern", "subtract", {"a": 5, "b": 3})).message
        assert backend.calls("subtract") == 2


class InList(Rpc):
    """Takes one object in a list alone."""

    def __call__(self, params: object) -> object:
        if not (isinstance(params, list) and len(params) == 1 and isinstance(params[0], dict)):
            raise RpcFailure(-32602, "Invalid params")
        return super().__call__(params[0])


class Optional(Positional):
    """Its last parameter has a default that is declared, and not applied."""

    def listed(self) -> dict[str, Any]:
        entry = super().listed()
        entry["params"][-1] = {"name": "b", "schema": NUMBER | {"default": 3}}
        return entry


@each("surface", SURFACES)
async def test_one_object_in_a_list_is_a_structure_too(surface: Surface) -> None:
    subtract = InList("subtract", SUBTRACT.params, run=SUBTRACT.run)
    knob = "backend.params.structure=by-name-in-list"
    async with ScriptedBackend((subtract,)) as backend, front(backend.url, knob) as gateway:
        assert (await gateway.call(surface, "subtract", {"a": 5, "b": 3})).value == 2
        assert sent(backend, "subtract") == [[{"a": 5, "b": 3}]]


@each("surface", SURFACES)
async def test_declared_defaults_are_sent_to_a_service_that_does_not_apply_them(surface: Surface) -> None:
    subtract = Optional("subtract", SUBTRACT.params, run=SUBTRACT.run)
    by_position, defaults = "backend.params.structure=by-position", "backend.params.send_defaults=true"
    async with ScriptedBackend((subtract,)) as backend:
        async with front(backend.url, by_position) as gateway:
            assert "Invalid params" in (await gateway.call(surface, "subtract", {"a": 5})).message
        async with front(backend.url, by_position, defaults) as gateway:
            assert (await gateway.call(surface, "subtract", {"a": 5})).value == 2
            assert (await gateway.call(surface, "subtract", {"a": 5, "b": 1})).value == 4
        assert sent(backend, "subtract") == [[5], [5, 3], [5, 1]]
