"""PyPI Flask-JSONRPC 4 through the gateway: by its own description, and by ours in a file, which says more."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.front import SURFACES, Front, Surface, front, shown
from tests.program import run, settings
from tests.services.process import Service

METHODS = """
title: Demo
methods:
  App.index:
    description: Says hello.
    result: {type: string}
  App.add:
    description: Adds two numbers.
    params:
      a: {schema: {type: number}, required: true, description: The one.}
      b: {schema: {type: number}, required: true}
    result: {type: number}
  App.car:
    params: {car: {schema: {type: object}, required: true}}
  App.notify:
    params: {string: {schema: {type: string}, required: true}}
    result: false
  App.strangeEcho:
    structure: by-position
    params:
      string: {required: true}
      omg: {schema: {default: nothing at all}}
      wtf:
  App.fails:
    params: {n: {schema: {type: integer}, required: true}}
  App.spend:
    params: {amount: {schema: {type: number}, required: true}}
  App.spent:
"""
NAMES = [f"App.{name}" for name in ("add", "car", "fails", "index", "notify", "spend", "spent", "strangeEcho")]


@pytest.fixture
def static(tmp_path: Path) -> tuple[str, str]:
    """The settings of a listing in a file."""
    file = tmp_path / "methods.yaml"
    file.write_text(METHODS)
    return "backend.listing.dialect=static", f"backend.listing.file={file}"


@pytest.fixture
async def gateway(flask_app: Service, static: tuple[str, str]) -> AsyncIterator[Front]:
    async with front(flask_app.url, *static) as running:
        yield running


async def test_check_finds_the_services_own_description(flask_app: Service) -> None:
    ran = await run("check", *settings(flask_app.url))
    assert ran.code == 0, ran.said
    assert "dialect      describe" in ran.out
    assert "App_add([a], [b])" in ran.out
    assert "does not say which arguments are required" in ran.out


async def test_a_call_works_by_the_services_own_description(flask_app: Service) -> None:
    async with front(flask_app.url) as gateway:
        assert list(await gateway.tools()) == shown("modern", *NAMES)
        assert (await gateway.call("rest", "App.add", {"a": 1, "b": 2.5})).value == 3.5
        car = {"name": "Beetle", "color": "blue"}
        assert (await gateway.call("rest", "App.car", {"car": car})).value == car
        assert (await gateway.call("rest", "App.strangeEcho", {"string": "a", "omg": 1})).value == ["a", 1, "nothing"]
        # Left out although it is required, which only the service knows.
        called = await gateway.call("modern", "App.add", {"a": 1})
        assert "Invalid params" in called.message


async def test_with_a_listing_file_check_finds_every_method(flask_app: Service, static: tuple[str, str]) -> None:
    ran = await run("check", *settings(flask_app.url, *static))
    assert ran.code == 0, ran.said
    assert "dialect      static" in ran.out
    assert "App_strangeEcho(string, [omg], [wtf])" in ran.out


async def test_faults_of_a_listing_file_are_told_all_at_once(flask_app: Service, tmp_path: Path) -> None:
    file = tmp_path / "faulty.yaml"
    file.write_text("methods: {App.add: {parms: {}}, App.car: {structure: by-magic}}")
    ran = await run("check", *settings(flask_app.url, "backend.listing.dialect=static", f"backend.listing.file={file}"))
    assert ran.code == 2
    assert "methods.App.add" in ran.err
    assert "parms" in ran.err
    assert "methods.App.car.structure: must be one of by-name" in ran.err


async def test_the_file_says_what_is_listed(gateway: Front) -> None:
    tools = await gateway.tools()
    assert list(tools) == shown("modern", *NAMES)
    assert tools["App_add"] == {
        "name": "App_add",
        "description": "Adds two numbers.",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "number", "description": "The one."}, "b": {"type": "number"}},
            "required": ["a", "b"],
        },
        "outputSchema": {"type": "number"},
    }


@pytest.mark.parametrize("surface", SURFACES)
async def test_calls_bring_the_services_results(gateway: Front, surface: Surface) -> None:
    car = {"name": "Beetle", "color": "blue"}
    for tool, arguments, result in (
        ("App.index", {}, "Welcome to Flask JSON-RPC"),
        ("App.add", {"a": 1, "b": 2.5}, 3.5),
        ("App.car", {"car": car}, car),
        ("App.strangeEcho", {"string": "a", "omg": 1, "wtf": [2]}, ["a", 1, [2]]),
        ("App.strangeEcho", {"string": "a", "wtf": "c"}, ["a", "nothing at all", "c"]),
    ):
        assert (await gateway.call(surface, tool, arguments)).value == result


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_notification_answers_nothing(gateway: Front, surface: Surface) -> None:
    called = await gateway.call(surface, "App.notify", {"string": "x"})
    assert called.value == (None if surface == "rest" else "Done. This method returns nothing.")


@pytest.mark.parametrize("surface", SURFACES)
async def test_an_error_reads_as_its_message_without_the_services_inside(gateway: Front, surface: Surface) -> None:
    called = await gateway.call(surface, "App.fails", {"n": 1})
    assert called.message == "Server error: no n"
    assert called.status == (500 if surface == "rest" else 200)
    for inside in ("-32000", "ServerError", "ValueError", "Traceback"):
        assert inside not in called.everything
    with_point = await gateway.call(surface, "App.fails", {"n": 1.0})  # of 1.0 it says "n" must be int; got float
    assert with_point.message == "Server error: no n"
    called = await gateway.call(surface, "App.car", {"car": {"name": "Beetle"}})
    assert called.message == "Invalid params: [class] missing 1 required positional argument: 'color'"


@pytest.mark.parametrize("structure", ["auto", "by-name", "by-position"])
@pytest.mark.parametrize("surface", SURFACES)
async def test_what_fails_after_its_effect_is_never_called_again_in_another_shape(
    flask_app: Service, static: tuple[str, str], surface: Surface, structure: str
) -> None:
    async with front(flask_app.url, *static, f"backend.params.structure={structure}") as gateway:
        before = (await gateway.call("rest", "App.spent", {})).value
        called = await gateway.call(surface, "App.spend", {"amount": 5})
        assert called.message == "Invalid params: the receipt printer is out of paper"
        assert (await gateway.call("rest", "App.spent", {})).value == before + 5
