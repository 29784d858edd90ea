"""PyPI Flask-JSONRPC 2.2.2 through the gateway: `system.describe`, a service description of JSON-RPC 1.1."""

from collections.abc import AsyncIterator

import pytest

from tests.front import SURFACES, Front, Surface, front, shown
from tests.program import run, settings
from tests.services.process import Service

NAMES = [f"App.{name}" for name in ("add", "fails", "greet", "index", "note", "notes", "sort")]


@pytest.fixture
async def gateway(flask2_app: Service) -> AsyncIterator[Front]:
    async with front(flask2_app.url) as running:
        yield running


async def test_check_prints_the_catalog_and_what_the_service_does_not_say(flask2_app: Service) -> None:
    ran = await run("check", *settings(flask2_app.url))
    assert ran.code == 0, ran.said
    assert "dialect      describe" in ran.out
    assert "App_greet([name], [loudly])" in ran.out
    assert "the service does not say which arguments are required" in ran.out


async def test_the_description_becomes_tools_with_types(gateway: Front) -> None:
    tools = await gateway.tools()
    assert list(tools) == shown("modern", *NAMES)
    assert tools["App_greet"] == {
        "name": "App_greet",
        "description": "Greets.\n\nLoudly, where that is wanted.\n\n"
        "The service does not say which arguments are required.",
        "inputSchema": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "loudly": {"type": "boolean"}},
        },
        "outputSchema": {"type": "string"},
    }


@pytest.mark.parametrize("surface", SURFACES)
async def test_calls_bring_the_services_results(gateway: Front, surface: Surface) -> None:
    for tool, arguments, result in (
        ("App.index", {}, "Welcome to Flask JSON-RPC"),
        ("App.add", {"a": 1, "b": 2.5}, 3.5),
        ("App.greet", {"name": "Ada"}, "Hello Ada"),
        ("App.greet", {"name": "Ada", "loudly": True}, "HELLO ADA"),
        ("App.sort", {"items": [2, 3, 1], "options": {"reverse": True}}, [3, 2, 1]),
    ):
        assert (await gateway.call(surface, tool, arguments)).value == result


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_function_that_is_listed_without_its_arguments_can_be_given_them(
    gateway: Front, surface: Surface
) -> None:
    tool = (await gateway.tools())["App_note"]
    assert tool["inputSchema"] == {"type": "object"}
    assert "does not say whether there are arguments" in tool["description"]
    assert (await gateway.call(surface, "App.note", {"a": surface, "b": "given"})).value is None
    assert [surface, "given"] in (await gateway.call(surface, "App.notes", {})).value


@pytest.mark.parametrize("surface", SURFACES)
async def test_an_argument_that_only_the_service_knows_to_be_required_is_its_error(
    gateway: Front, surface: Surface
) -> None:
    called = await gateway.call(surface, "App.add", {"a": 1})
    assert "Invalid params" in called.message
    assert "missing a required argument: 'b'" in called.message


async def test_an_operator_who_knows_says_what_is_required(flask2_app: Service) -> None:
    known = "catalog.tools={App.add: {arguments: {b: {required: true}}}}"
    async with front(flask2_app.url, known) as gateway:
        assert (await gateway.tools())["App_add"]["inputSchema"]["required"] == ["b"]
        called = await gateway.call("modern", "App.add", {"a": 1})
        assert "b" in called.message
        assert "Invalid params" not in called.message


@pytest.mark.parametrize("surface", SURFACES)
async def test_an_error_reads_as_its_message_without_the_services_inside(gateway: Front, surface: Surface) -> None:
    called = await gateway.call(surface, "App.fails", {"n": 1})
    assert called.message == "Server error: no n"
    for inside in ("-32000", "ServerError", "ValueError", "Traceback"):
        assert inside not in called.everything
