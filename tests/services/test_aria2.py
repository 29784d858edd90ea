"""Debian's aria2 through the gateway: names only, positions only, and a secret before every call's first parameter."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.front import SURFACES, Front, Surface, front, shown
from tests.program import run, settings
from tests.services.launch import ARIA2_SECRET
from tests.services.process import Service
from tests.services.test_services_answer import call

SECRET = f"backend.credentials={{mode: static, send: {{params: ['token:{ARIA2_SECRET}']}}}}"
LISTING = "backend.listing.dialect=introspection"  # asked at once: probing pays two seconds for each wrong guess
NOWHERE = "http://127.0.0.1:9/file"
PAUSED = {"pause": "true"}
OVERLAY = """catalog.tools={"aria2.addUri": {description: Add a download., arguments: {
    uris: {schema: {type: array, items: {type: string}, minItems: 1}, required: true, description: Where it is.},
    options: {schema: {type: object}},
    position: {schema: {type: integer, minimum: 0}}}}}"""


@pytest.fixture
async def gateway(aria2: Service) -> AsyncIterator[Front]:
    async with front(aria2.url, SECRET, LISTING, OVERLAY) as running:
        yield running


async def added(gateway: Front, surface: Surface, **more: Any) -> str:
    """The id of a new download that does not start."""
    called = await gateway.call(surface, "aria2.addUri", {"uris": [NOWHERE], "options": PAUSED, **more})
    assert isinstance(called.value, str)
    return called.value


async def test_every_method_is_offered_but_those_that_end_or_describe_the_service(
    aria2: Service, gateway: Front
) -> None:
    listed = {name for name in call(aria2, "system.listMethods")["result"] if name.startswith("aria2.")}
    tools = await gateway.tools()
    assert set(tools) == set(shown("modern", *listed - {"aria2.shutdown", "aria2.forceShutdown"}))
    assert len(tools) == 31


async def test_unknown_parameters_are_one_array_of_positions(gateway: Front) -> None:
    tool = (await gateway.tools())["aria2_tellStatus"]
    assert tool["inputSchema"] == {"type": "object", "properties": {"params": {"type": "array"}}}


@pytest.mark.parametrize("surface", SURFACES)
async def test_the_array_is_spread_over_the_positions_after_the_secret(gateway: Front, surface: Surface) -> None:
    gid = await added(gateway, surface)
    called = await gateway.call(surface, "aria2.tellStatus", {"params": [gid, ["gid", "status"]]})
    assert called.value == {"gid": gid, "status": "paused"}
    assert (await gateway.call(surface, "aria2.remove", {"params": [gid]})).value == gid


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_call_without_arguments_brings_the_services_result(gateway: Front, surface: Surface) -> None:
    version = (await gateway.call(surface, "aria2.getVersion", {})).value
    assert set(version) == {"enabledFeatures", "version"}
    assert (await gateway.call(surface, "aria2.getGlobalStat", {"params": []})).value["numActive"] == "0"


async def test_named_arguments_of_an_overlay_are_listed_in_order(gateway: Front) -> None:
    tool = (await gateway.tools())["aria2_addUri"]
    assert tool["description"] == "Add a download."
    schema = tool["inputSchema"]
    assert list(schema["properties"]) == ["uris", "options", "position"]
    assert schema["properties"]["uris"]["description"] == "Where it is."
    assert schema["required"] == ["uris"]


@pytest.mark.parametrize("surface", SURFACES)
async def test_named_arguments_of_an_overlay_go_to_their_positions(gateway: Front, surface: Surface) -> None:
    first = await added(gateway, surface)
    second = await added(gateway, surface, position=0)
    waiting = (await gateway.call(surface, "aria2.tellWaiting", {"params": [0, 100, ["gid", "files"]]})).value
    assert waiting[0]["gid"] == second
    assert first in [download["gid"] for download in waiting]
    assert waiting[0]["files"][0]["uris"][0]["uri"] == NOWHERE


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_gap_before_a_given_position_is_refused_rather_than_shifted(gateway: Front, surface: Surface) -> None:
    called = await gateway.call(surface, "aria2.addUri", {"uris": [NOWHERE], "position": 0})
    assert called.message == "'options' must be given because 'position' comes after it"
    assert called.status == (400 if surface == "rest" else 200)


async def test_a_listing_file_stands_in_for_the_list_of_names(aria2: Service, tmp_path: Path) -> None:
    file = tmp_path / "aria2.yaml"
    file.write_text(
        "methods:\n"
        "  aria2.tellStatus:\n"
        "    description: How a download stands.\n"
        "    structure: by-position\n"
        "    params: {gid: {schema: {type: string}, required: true}, keys: {schema: {type: array}}}\n"
        "  aria2.getVersion: {structure: by-position}\n"
    )
    static = ("backend.listing.dialect=static", f"backend.listing.file={file}")
    async with front(aria2.url, SECRET, *static) as gateway:
        assert list(await gateway.tools()) == ["aria2_getVersion", "aria2_tellStatus"]
        assert "version" in (await gateway.call("modern", "aria2.getVersion", {})).value
        called = await gateway.call("modern", "aria2.tellStatus", {"gid": "0123", "keys": ["status"]})
        assert called.message == "GID 0123 is not found"


@pytest.mark.parametrize("surface", SURFACES)
async def test_errors_on_http_400_and_500_read_as_their_message(gateway: Front, surface: Surface) -> None:
    for arguments, message in (
        ({"params": ["nope"]}, "Invalid GID nope"),
        ({}, "The parameter at 0 is required but missing"),
        ({"params": [5]}, "The parameter at 0 has wrong type"),
    ):
        called = await gateway.call(surface, "aria2.tellStatus", arguments)
        assert message in called.message
        assert called.status == (500 if surface == "rest" else 200)


@pytest.mark.parametrize("surface", SURFACES)
async def test_the_secret_is_in_no_answer(gateway: Front, surface: Surface) -> None:
    assert ARIA2_SECRET not in str(await gateway.tools(surface))
    for tool in ("getVersion", "getGlobalOption", "getGlobalStat", "getSessionInfo", "tellActive", "tellStatus"):
        called = await gateway.call(surface, f"aria2.{tool}", {})
        assert ARIA2_SECRET not in called.everything
    gid = await added(gateway, surface)
    for params in ([gid], [f"token:{ARIA2_SECRET}"], [{}]):
        called = await gateway.call(surface, "aria2.getOption", {"params": params})
        assert ARIA2_SECRET not in called.everything


async def test_without_the_secret_calls_fail_and_the_listing_does_not(aria2: Service) -> None:
    async with front(aria2.url, LISTING) as gateway:
        assert len(await gateway.tools()) == 31
        called = await gateway.call("rest", "aria2.getVersion", {})
        assert (called.status, called.message) == (500, "Unauthorized")


READS = 'catalog.tools={"aria2.tellWaiting": {annotations: {readOnlyHint: true}, arguments: {offset: {}, num: {}}}}'
WHICH = ("tools", "--try", "aria2.tellWaiting", "--arg", "offset=0", "--arg", "num=5")


async def test_a_tool_that_is_marked_read_only_can_be_tried_in_each_structure(aria2: Service) -> None:
    ran = await run(*WHICH, *settings(aria2.url, SECRET, LISTING, READS))
    assert ran.code == 0, ran.said
    by_name, by_position, in_list, advice = ran.out.splitlines()
    assert by_name.startswith("by-name: ")
    assert in_list.startswith("by-name-in-list: ")
    assert "a result" not in by_name + in_list
    assert by_position == "by-position: a result"
    assert advice == "Set backend.params.structure: by-position"


async def test_a_tool_that_may_change_something_is_not_tried(aria2: Service) -> None:
    ran = await run(*WHICH, *settings(aria2.url, SECRET, LISTING, READS.replace("true", "false")))
    assert ran.code == 2
    assert 'set catalog.tools."aria2.tellWaiting".annotations.readOnlyHint: true' in ran.said


async def test_a_try_without_arguments_would_tell_nothing(aria2: Service) -> None:
    ran = await run(*WHICH[:3], *settings(aria2.url, SECRET, LISTING, READS))
    assert ran.code == 2
    assert "give some with --arg" in ran.said


async def test_a_tool_that_is_only_marked_idempotent_is_not_tried(aria2: Service) -> None:
    ran = await run(*WHICH, *settings(aria2.url, SECRET, LISTING, READS.replace("readOnlyHint", "idempotentHint")))
    assert ran.code == 2
    assert "aria2.tellWaiting is not marked as read-only" in ran.said
