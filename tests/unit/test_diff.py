"""What became of the tools between two moments."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.auth.access import Access
from gateway.catalog.build import Builder
from gateway.catalog.diff import compare_catalogs, read_snapshots, snapshots_of
from gateway.catalog.pins import PinError, write_pins
from gateway.mcp.modern import PROJECTOR
from gateway.model import Listing, Method, NameStyle, Parameter, Structure, Tool
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params
from gateway.settings.auth import Auth
from gateway.web.rest import RestProjector
from tests.each import each
from tests.tables import each_row
from tests.unit.test_normalize import Members

MCP, LLM = NameStyle
STRING, NUMBER = {"type": "string"}, {"type": "number", "maximum": 50}
TWO = (Parameter("query", STRING, True), Parameter("limit", NUMBER))


def method(name: str = "m", **members: Any) -> Method:
    return Method(name, **{"description": "Does it.", "parameters": TWO} | members)


async def tools(*methods: Method, **knobs: Any) -> tuple[Tool, ...]:
    listing = Listing("openrpc", methods)
    return (
        await Builder(Params(), ValidatorCache()).build_catalog(listing, CatalogSettings.model_validate(knobs))
    ).tools


async def changes(before: Method, after: Method, **knobs: Any) -> tuple[str, ...]:
    found = compare_catalogs(snapshots_of(await tools(before), LLM), snapshots_of(await tools(after, **knobs), LLM))
    assert not found.added
    assert not found.removed
    return tuple(line for _, lines in found.changed for line in lines)


@each_row
async def test_a_change_is_told_in_words(change: Members, told: tuple[str, ...]) -> None:
    assert await changes(method(), method(**change)) == told


async def test_schemas_of_results_are_compared_member_by_member() -> None:
    one = {"type": "object", "properties": {"sum": {"type": "number"}}}
    two = {"type": "object", "properties": {"sum": {"type": "string"}}}
    told = await changes(method(result=one), method(result=two))
    assert told == ('output schema: properties/sum/type "number" → "string"',)
    assert await changes(method(result=one), method()) == ("output schema: gone",)


async def test_definitions_are_told_as_part_of_the_input_schema() -> None:
    def listed(kind: str) -> Method:
        return method(parameters=(Parameter("a", {"$ref": "#/A"}),), root={"A": {"type": kind}})

    assert await changes(listed("string"), listed("null")) == ('input schema: $defs/A/type "string" → "null"',)


async def test_of_many_differences_in_one_schema_some_are_told_and_the_others_counted() -> None:
    one, two = ({f"k{n}": value for n in range(12)} for value in (1, 2))
    told = await changes(method(parameters=(Parameter("a", one),)), method(parameters=(Parameter("a", two),)))
    assert told[0] == "argument a: k0 1 → 2"
    assert told[-1] == "argument a: 4 more"
    assert len(told) == 9


async def test_long_texts_are_told_from_where_they_part() -> None:
    long = "word " * 100
    (told,) = await changes(method(description=long + "old"), method(description=long + "new"))
    assert told == 'description: "…word word word word old" → "…word word word word new"'


async def test_the_order_of_positions_is_told() -> None:
    one = method(structure=Structure.BY_POSITION)
    two = method(structure=Structure.BY_POSITION, parameters=TWO[::-1])
    assert await changes(one, two) == ("order of arguments: query, limit → limit, query",)


async def test_tools_come_and_go_and_a_renamed_one_is_the_same() -> None:
    before = snapshots_of(await tools(method("a"), method("b"), method("c")), LLM)
    after = snapshots_of(await tools(method("b"), method("c"), method("d"), tools={"c": {"name": "see"}}), LLM)
    found = compare_catalogs(before, after)
    assert [look.name for look in found.added] == ["d"]
    assert [look.name for look in found.removed] == ["a"]
    assert found.changed == (("c", ('name: "c" → "see"',)),)
    assert found
    assert not compare_catalogs(before, before)


async def test_a_name_for_llm_apis_is_another_name() -> None:
    listed = await tools(method("a.b"))
    found = compare_catalogs(snapshots_of(listed, MCP), snapshots_of(listed, LLM))
    assert found.changed == (("a.b", ('name: "a.b" → "a_b"',)),)


# --- files ----------------------------------------------------------------------------------------------------

BEFORE = (
    method(
        "a.b", title="T", result={"type": "object", "title": "R"}, annotations={"category": "x", "readOnlyHint": True}
    ),
    method("c", description=""),
)


REST = RestProjector(Access(Auth(mode="off"), per_caller=False))


@each("projector", {"tools --json": PROJECTOR, "GET /mcp/tools/list": REST})
async def test_a_saved_listing_equals_the_tools_it_was_made_of(projector: Any) -> None:
    listed = await tools(*BEFORE)
    raw = json.dumps({"tools": [projector.project(tool) for tool in listed]}).encode()
    looks = read_snapshots(raw, "file")
    assert looks is not None
    assert not compare_catalogs(looks, snapshots_of(listed, LLM))
    changed = compare_catalogs(
        looks, snapshots_of(await tools(BEFORE[0], method("c", description="", parameters=TWO[:1])), LLM)
    )
    assert changed.changed == (("c", ("argument limit: gone",)),)


async def test_tools_saved_under_the_other_names_are_the_same_tools_with_other_names() -> None:
    listed = await tools(*BEFORE)
    for before, after, told in ((MCP, LLM, '"a.b" → "a_b"'), (LLM, MCP, '"a_b" → "a.b"')):
        projector = PROJECTOR.with_name_style(before)
        looks = read_snapshots(json.dumps({"tools": [projector.project(tool) for tool in listed]}).encode(), "file")
        assert looks is not None
        found = compare_catalogs(looks, snapshots_of(listed, after))
        assert [lines for _, lines in found.changed] == [(f"name: {told}",)]
        assert not found.added
        assert not found.removed


async def test_what_rest_showed_equals_the_tools_whatever_models_are_shown() -> None:
    listed = await tools(*BEFORE)
    looks = read_snapshots(json.dumps({"tools": [REST.project(tool) for tool in listed]}).encode(), "file")
    assert looks is not None
    for naming in NameStyle:
        assert not compare_catalogs(looks, snapshots_of(listed, naming))
    renamed = await tools(*BEFORE, tools={"a.b": {"name": "x"}})
    assert compare_catalogs(looks, snapshots_of(renamed, LLM)).changed == (("a.b", ('name: "a.b" → "x"',)),)


async def test_a_pin_file_equals_the_tools_it_was_made_of_under_either_names(tmp_path: Any) -> None:
    listed = await tools(*BEFORE)
    write_pins(tmp_path / "pins.json", listed)
    looks = read_snapshots((tmp_path / "pins.json").read_bytes(), "file")
    assert looks is not None
    for naming in NameStyle:
        assert not compare_catalogs(looks, snapshots_of(listed, naming))
    other = method("c", description="", parameters=(TWO[0], Parameter("limit", STRING)))
    changed = compare_catalogs(looks, snapshots_of(await tools(BEFORE[0], other), LLM))
    details = ('argument limit: type "number" → "string"', "argument limit: maximum 50 → absent")
    assert changed.changed == (("c", details),)
    entries = json.loads((tmp_path / "pins.json").read_bytes())["tools"]
    earlier = {name: {**entry, "schemas": {}} for name, entry in entries.items()}
    looks = read_snapshots(json.dumps({"tools": earlier}).encode(), "file") or []
    changed = compare_catalogs(looks, snapshots_of(await tools(BEFORE[0], other), LLM))
    assert changed.changed == (("c", ("input schema",)),), "a digest has no details"


@each("raw", [b"backend: {url: x}", b"{}", b"[]", b'{"tools": 5}', b"\xff"])
def test_what_is_neither_is_left_to_others(raw: bytes) -> None:
    assert read_snapshots(raw, "file") is None


@each("raw", [b'{"tools": [5]}', b'{"tools": [{"name": "a"}]}', b'{"tools": {"m": 5}}'])
def test_a_broken_one_is_named(raw: bytes) -> None:
    with pytest.raises(PinError, match=r"^file: "):
        read_snapshots(raw, "file")


async def test_another_order_of_positions_is_told_against_a_pin_file(tmp_path: Any) -> None:
    """It holds a tool back, so that who looks for the reason finds it."""
    write_pins(tmp_path / "pins.json", await tools(method(structure=Structure.BY_POSITION)))
    before = read_snapshots((tmp_path / "pins.json").read_bytes(), "pins.json") or []
    after = snapshots_of(await tools(method(structure=Structure.BY_POSITION, parameters=TWO[::-1])), MCP)
    assert compare_catalogs(before, after).changed == (("m", ("order of arguments: query, limit → limit, query",)),)
