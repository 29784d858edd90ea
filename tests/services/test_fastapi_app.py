"""PyPI fastapi-jsonrpc through the gateway: only GET openrpc.json lists it, and each method names its own endpoint."""

from collections.abc import AsyncIterator

import pytest

from tests.front import SURFACES, Front, Surface, front
from tests.program import run, settings
from tests.services.process import Service


@pytest.fixture
async def gateway(fastapi_app: Service) -> AsyncIterator[Front]:
    async with front(fastapi_app.url) as running:
        yield running


async def test_the_probe_finds_the_document_by_get(fastapi_app: Service) -> None:
    ran = await run("check", *settings(fastapi_app.url))
    assert ran.code == 0, ran.said
    assert "dialect      openrpc" in ran.out
    assert "tools        2" in ran.out


async def test_types_required_and_defaults_are_the_services_own(gateway: Front) -> None:
    tools = await gateway.tools()
    assert list(tools) == ["echo", "move"]
    assert tools["echo"]["inputSchema"] == {
        "type": "object",
        "properties": {"data": {"type": "string"}},
        "required": ["data"],
    }
    assert tools["echo"]["_meta"] == {"tags": ["demo"]}
    move = tools["move"]["inputSchema"]
    assert move["required"] == ["p"]
    assert move["properties"]["p"]["required"] == ["x"]  # the only reference to it
    assert move["properties"]["by"]["default"] == [1, 2]
    assert "$defs" not in move
    assert tools["move"]["outputSchema"]["required"] == ["x"]


@pytest.mark.parametrize("surface", SURFACES)
async def test_calls_bring_the_services_results(gateway: Front, surface: Surface) -> None:
    assert (await gateway.call(surface, "echo", {"data": "grüße"})).value == "grüße"
    assert (await gateway.call(surface, "move", {"p": {"x": 1}})).value == {"x": 2, "y": 2}
    assert (await gateway.call(surface, "move", {"p": {"x": 1, "y": 1}, "by": [9, 8]})).value == {"x": 10, "y": 9}


@pytest.mark.parametrize("path", ["/", "/somewhere/else"])
async def test_calls_go_to_the_endpoint_that_the_document_names(fastapi_app: Service, path: str) -> None:
    """``servers[].url`` is a path; ``backend.url`` alone would be a 404 here."""
    async with front(fastapi_app.base + path) as gateway:
        assert (await gateway.call("modern", "echo", {"data": "there"})).value == "there"


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_declared_error_reads_as_its_message_and_data(gateway: Front, surface: Surface) -> None:
    called = await gateway.call(surface, "echo", {"data": "error"})
    assert called.message == 'My error: {"details":"error"}'
    assert "5000" not in called.text
    assert called.status == (500 if surface == "rest" else 200)


@pytest.mark.parametrize("surface", SURFACES)
async def test_arguments_that_break_the_schema_never_reach_the_service(gateway: Front, surface: Surface) -> None:
    called = await gateway.call(surface, "move", {"p": {"y": 1}})
    assert called.message == 'Invalid arguments: p: "x" is a required property: integer'
