"""Listing → Catalog: which methods are offered, who is quarantined, and how to free them."""

from __future__ import annotations

import random
from functools import reduce
from typing import Any

from gateway.catalog.build import Builder
from gateway.catalog.curation import Curation
from gateway.model import Catalog, Listing, Method, Parameter, QuarantinedMethod
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params, ToolOverride
from tests.each import each

EVIL = {"$ref": "http://evil.example/x"}
LADDER = {
    "$ref": "#/$defs/0",
    "$defs": {str(n): {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(25)} | {"25": {}},
}


def builder() -> Builder:
    return Builder(Params(), ValidatorCache())


def method(name: str, schema: Any = True, parameter: str = "a", **members: Any) -> Method:
    return Method(name, parameters=(Parameter(parameter, schema),), **members)


def listing(*methods: Method, **members: Any) -> Listing:
    return Listing("openrpc", methods, **members)


async def built(listed: Listing, **knobs: Any) -> Catalog:
    return await builder().build_catalog(listed, CatalogSettings.model_validate(knobs))


async def test_a_catalog_is_sorted_and_knows_its_dialect() -> None:
    catalog = await built(listing(method("b"), method("a"), method("B"), notes=("said",)))
    assert catalog.names == ("B", "a", "b")
    assert (catalog.dialect, catalog.notes) == ("openrpc", ("said",))


async def test_a_catalog_finds_a_tool_by_its_name_or_its_methods() -> None:
    catalog = await built(listing(method("a/b"), method("c")), tools={"c": {"name": "see"}})
    assert catalog.by_name.get("a_b") is catalog.by_name.get("a/b")
    assert catalog.by_name.get("see") is catalog.by_name.get("c")
    assert catalog.by_name.get("absent") is None


async def test_one_bad_method_among_good_ones_is_quarantined_alone() -> None:
    before = QuarantinedMethod("entry 3", "no name", "mend it")
    catalog = await built(listing(method("good"), method("bad", EVIL), method("fine"), quarantined=(before,)))
    assert catalog.names == ("fine", "good")
    assert catalog.quarantined == (
        before,
        QuarantinedMethod(
            "bad",
            "$ref http://evil.example/x leads out of the listing, and nothing is fetched (backend.listing.documents)",
            'give it a schema under catalog.tools."bad".arguments.a.schema',
            "/properties/a/$ref",
            argument="a",
        ),
    )


async def test_an_entry_that_cannot_even_be_written_is_quarantined_alone() -> None:
    deep: Any = []
    for _ in range(3000):
        deep = [deep]
    catalog = await built(
        listing(method("good"), method("deep", annotations={"x": deep}), method("default", {"default": deep}))
    )
    assert catalog.names == ("good",)
    assert [entry.name for entry in catalog.quarantined] == ["deep", "default"]


BAD = {
    "an external reference": method("m", EVIL),
    "one in a definition": method("m", {"items": {"$ref": "#/X"}}, root={"X": {"not": EVIL}}),
    "no schema": method("m", {"type": "banana"}),
    "a ladder": method("m", LADDER),
    "too deep": method("m", reduce(lambda inner, _: {"items": inner}, range(40), {})),
    "too large": method("m", {"enum": ["x" * 70_000]}),
    "a name with a slash": method("m", EVIL, parameter="a/b~c"),
    "a name with a blank": method("m", EVIL, parameter="Transaction hash"),
    "a name that is a glob": method("m[1]*?", EVIL),
    "a whole input schema": Method("m", input_schema={"properties": {"a": EVIL, "b": {}}}),
    "a whole input schema that is none": Method("m", input_schema={"properties": {"a/b": {"type": "x"}}}),
    "a whole input schema that is an array": Method("m", input_schema={"type": "array", "properties": {"a": {}}}),
}


def remedied(catalog: Catalog, listed: Method) -> dict[str, Any]:
    """The override that the remedy names, applied as an operator would read it."""
    (entry,) = catalog.quarantined
    place = entry.remedy.removeprefix(f'give it a schema under catalog.tools."{listed.name}".arguments')
    assert place != entry.remedy
    properties = (listed.input_schema or {}).get("properties", {})
    names = [place[1:].removesuffix(".schema")] if place else [*(p.name for p in listed.parameters or ()), *properties]
    return {listed.name: {"arguments": {name: {"schema": {"type": "string"}} for name in names}}}


@each("bad", BAD)
async def test_the_remedy_really_frees_the_method(bad: Method) -> None:
    catalog = await built(listing(bad, method("other")))
    assert catalog.names == ("other",)
    freed = await built(listing(bad, method("other")), tools=remedied(catalog, bad))
    assert freed.quarantined == ()
    assert freed.by_name.get(bad.name) is not None


# --- curation -------------------------------------------------------------------------------------------------


async def test_only_what_is_included_and_not_excluded_is_offered() -> None:
    names = ("node.list", "node.delete", "user.list", "system.listMethods", "rpc.discover", "shutdown")
    methods = listing(*(method(name) for name in names))
    assert (await built(methods)).names == ("node.delete", "node.list", "user.list")
    assert (await built(methods, include=["node.*"], exclude=["*.delete"])).names == ("node.list",)
    assert (await built(methods, include=[])).names == ()
    assert len((await built(methods, exclude=[])).names) == 6


async def test_a_hidden_method_is_not_even_looked_at() -> None:
    assert (await built(listing(method("bad", EVIL)), exclude=["bad"])).quarantined == ()


def test_of_several_overrides_that_match_later_ones_win_knob_by_knob() -> None:
    curation = Curation(
        CatalogSettings.model_validate(
            {
                "tools": {
                    "node.*": {"title": "Node", "timeout": "5s", "arguments": {"a": {"description": "A"}}},
                    "*.get": {"title": "Get", "arguments": {"b": {"required": True}}},
                    "user.get": {"description": "never"},
                }
            }
        )
    )
    override = curation.override_for("node.get")
    assert (override.title, override.timeout, override.description) == ("Get", 5, None)
    assert set(override.arguments) == {"a", "b"}
    assert curation.override_for("other").model_dump() == ToolOverride().model_dump()


async def test_a_method_listed_twice_counts_once_and_is_noted() -> None:
    catalog = await built(listing(method("a", description="first"), method("a", description="second"), method("b")))
    assert [tool.description for tool in catalog.tools] == ["first", "b"]
    assert catalog.notes == ("a is listed twice; the first entry is used",)


async def test_names_that_collide_are_told_apart() -> None:
    catalog = await built(listing(method("a/b"), method("a_b")))
    assert len(set(catalog.names)) == 2
    assert catalog.by_name.get("a_b").method == "a_b"  # type: ignore[union-attr]


# --- digests --------------------------------------------------------------------------------------------------

MANY = [method(f"m{n}", {"type": "string", "maxLength": n}) for n in range(20)] + [method("a/b"), method("a b")]


async def test_the_digest_does_not_depend_on_the_order_of_the_listing() -> None:
    shuffled = random.Random(4).sample(MANY, len(MANY))
    one, two = await built(listing(*MANY)), await built(listing(*shuffled))
    assert one.digest == two.digest
    assert one.tools == two.tools


async def test_the_digest_changes_with_any_tool() -> None:
    whole = (await built(listing(*MANY))).digest
    assert (await built(listing(*MANY[1:]))).digest != whole
    assert (await built(listing(*MANY), tools={"m3": {"title": "x"}})).digest != whole


async def test_equal_tools_of_successive_catalogs_are_one_object() -> None:
    same = builder()
    knobs = CatalogSettings()
    one, two = await same.build_catalog(listing(*MANY), knobs), await same.build_catalog(listing(*MANY[::-1]), knobs)
    assert all(a is b for a, b in zip(one.tools, two.tools, strict=True))
