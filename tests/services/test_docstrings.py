"""Services that say in docstrings alone what their methods take: PyPI's jsonrpclib-pelix, and Debian's mopidy."""

from collections.abc import Iterator

import pytest

from tests.front import SURFACES, Surface, front
from tests.services import launch
from tests.services.process import Service

NULL = {"type": "null"}
STRINGS = {"type": "array", "items": {"type": "string"}}


@pytest.fixture(scope="module")
def pelix() -> Iterator[Service]:
    with launch.pelix_app() as service:
        yield service


@pytest.mark.parametrize("surface", SURFACES)
async def test_docstrings_name_and_type_what_has_no_signature(pelix: Service, surface: Surface) -> None:
    async with front(pelix.url) as gateway:
        tools = await gateway.tools()
        assert tools["seats_book"]["inputSchema"]["properties"] == {
            "row": {"type": "string", "description": "letter of the row"},
            "seat": {"type": "integer", "description": "number of the seat"},
            "name": {"type": "string", "description": "who sits there"},
        }
        assert tools["seats_book"]["description"] == "Book a seat."
        assert tools["seats_free"]["inputSchema"]["properties"]["rows"] == STRINGS | {
            "description": "letters of the rows"
        }
        assert tools["seats_free"]["outputSchema"] == {"type": "integer"}
        assert list(tools["seats_note"]["inputSchema"]["properties"]) == ["params"]
        booked = await gateway.call(surface, "seats_book", {"row": "C", "seat": 4})
        assert booked.value == {"row": "C", "seat": 4, "name": "nobody"}
        assert (await gateway.call(surface, "seats_free", {"rows": ["A", "B"]})).value == 14
        assert (await gateway.call(surface, "seats_note", {"params": ["a", "b"]})).value == "a b"


@pytest.mark.parametrize("surface", SURFACES)
async def test_the_order_of_fields_is_no_order_of_arguments(pelix: Service, surface: Surface) -> None:
    async with front(pelix.url) as gateway:
        assert (await gateway.call(surface, "reversed_fields", {"a": 6, "b": 3})).value == 2
        given = {"source": "ann", "target": "bob", "amount": 5}
        assert (await gateway.call(surface, "first_missing", given)).value == "5 from ann to bob"
        assert (await gateway.call(surface, "one_only", {"a": 1, "b": 3})).value == 13, (
            "others than the named are taken"
        )
        assert (await gateway.call(surface, "one_only", {"a": 1})).value == 12


async def test_most_of_mopidys_arguments_are_typed_by_its_descriptions(mopidy: Service) -> None:
    async with front(mopidy.url) as gateway:
        tools = await gateway.tools()
    schemas = [schema for tool in tools.values() for schema in tool["inputSchema"]["properties"].values()]
    typed = [schema for schema in schemas if schema.keys() & {"type", "anyOf", "enum"}]
    assert len(schemas) == 43
    assert len(typed) >= 29
    assert tools["core_library_search"]["inputSchema"]["properties"] == {
        "query": {"type": "object", "description": "one or more queries to search for"},
        "uris": {
            "anyOf": [STRINGS, NULL],
            "default": None,
            "description": "zero or more URI roots to limit the search to",
        },
        "exact": {"type": "boolean", "default": False, "description": "if the search should use exact matching"},
    }
    assert ":param" not in tools["core_library_search"]["description"]


@pytest.mark.parametrize("surface", SURFACES)
async def test_mopidy_is_called_by_what_its_descriptions_say(mopidy: Service, surface: Surface) -> None:
    async with front(mopidy.url) as gateway:
        made = await gateway.call(surface, "core_playlists_create", {"name": f"mine {surface}"})
        assert made.value["name"] == f"mine {surface}"
        assert (await gateway.call(surface, "core_playlists_delete", {"uri": made.value["uri"]})).value is True
        refused = await gateway.call(surface, "core_playlists_delete", {"uri": 5})
        assert "is not of type" in refused.message
        assert (await gateway.call(surface, "core_tracklist_get_length", {})).value == 0
