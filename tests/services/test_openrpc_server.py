"""The reference OpenRPC server (npm) through the gateway: it dies of a call without ``params``, and never gets one."""

from collections.abc import AsyncIterator, Iterator

import pytest

from gateway.backend.transport import UNKNOWN
from tests.front import SURFACES, Front, Surface, front
from tests.program import run, settings
from tests.services.process import Service

REX = {"id": 1, "name": "rex", "tag": "dog"}
TOM = {"id": 2, "name": "tom"}
PET = {
    "type": "object",
    "required": ["id", "name"],
    "properties": {"id": {"type": "integer"}, "name": {"type": "string"}, "tag": {"type": "string"}},
}


@pytest.fixture
def shop(openrpc_server: Service) -> Iterator[Service]:
    """Yield the server with a fresh memory; the process must outlive the test."""
    openrpc_server.restart()
    yield openrpc_server
    assert openrpc_server.running, openrpc_server.output


@pytest.fixture
async def gateway(shop: Service) -> AsyncIterator[Front]:
    async with front(shop.url) as running:
        yield running


async def test_probing_and_listing_leave_the_process_alive(shop: Service) -> None:
    ran = await run("check", *settings(shop.url))
    assert ran.code == 0, ran.said
    assert "tools        4" in ran.out
    assert shop.running


async def test_what_is_listed_is_the_documents_own_with_its_references_bundled(gateway: Front) -> None:
    tools = await gateway.tools()
    assert list(tools) == ["create_pet", "forget_pet", "get_pet", "list_pets"]
    assert tools["create_pet"]["inputSchema"] == {
        "type": "object",
        "properties": {
            "newPetName": {"type": "string", "description": "Name of the pet"},
            "newPetTag": {"type": "string", "description": "Tag of the pet"},
        },
        "required": ["newPetName"],
    }
    assert tools["get_pet"]["description"] == "Info for one pet\n\nErrors:\n404 No such pet"
    assert tools["get_pet"]["outputSchema"] == PET
    assert tools["list_pets"]["outputSchema"]["items"] == {"$ref": "#/$defs/Pet"}
    assert tools["list_pets"]["outputSchema"]["$defs"] == {"Pet": PET}
    assert "required" not in tools["list_pets"]["inputSchema"]
    assert tools["list_pets"]["_meta"] == {"tags": ["pets"]}


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_call_without_arguments_still_sends_params(shop: Service, gateway: Front, surface: Surface) -> None:
    assert (await gateway.call(surface, "list_pets", {})).value == [REX, TOM]
    assert shop.running


@pytest.mark.parametrize("surface", SURFACES)
async def test_calls_bring_the_services_results(gateway: Front, surface: Surface) -> None:
    assert (await gateway.call(surface, "list_pets", {"limit": 1})).value == [REX]
    created = (await gateway.call(surface, "create_pet", {"newPetName": "zoë", "newPetTag": "cat"})).value
    pet = (await gateway.call(surface, "get_pet", {"petId": created})).value
    assert pet == {"id": created, "name": "zoë", "tag": "cat"}


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_method_by_position_gets_its_argument_in_an_array(gateway: Front, surface: Surface) -> None:
    """By name this server would answer that the parameter is missing."""
    assert (await gateway.call(surface, "get_pet", {"petId": 1})).value == REX


@pytest.mark.parametrize("surface", SURFACES)
async def test_an_applications_error_reads_as_its_message_and_data(gateway: Front, surface: Surface) -> None:
    called = await gateway.call(surface, "get_pet", {"petId": 99})
    assert called.message == 'No such pet: {"petId":99}'
    assert "404" not in called.text
    assert called.status == (500 if surface == "rest" else 200)


@pytest.mark.parametrize("surface", SURFACES)
async def test_an_answer_with_neither_result_nor_error_is_a_fault(gateway: Front, surface: Surface) -> None:
    called = await gateway.call(surface, "forget_pet", {"petId": 2})
    assert called.message.endswith(f"neither a result nor an error; {UNKNOWN}")
    assert called.status == (502 if surface == "rest" else 200)
    assert (await gateway.call(surface, "list_pets", {})).value == [REX]


async def test_no_call_of_any_kind_ends_the_process(shop: Service, gateway: Front) -> None:
    for tool in await gateway.tools():
        for arguments in ({}, {"petId": 1}, {"newPetName": "a"}, {"limit": 1}, {"limit": 0}, {"petId": "x"}):
            await gateway.call("rest", tool, arguments)
            assert shop.running, (tool, arguments, shop.output)


async def test_the_operators_structure_wins_over_the_listings(shop: Service) -> None:
    """Here it makes things worse: the server takes get_pet by position alone, as it says."""
    async with front(shop.url, "backend.params.structure=by-name") as gateway:
        assert (await gateway.call("rest", "get_pet", {"petId": 1})).failed
        assert (await gateway.call("rest", "list_pets", {"limit": 1})).value == [REX]
