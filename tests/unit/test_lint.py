"""What an operator should know about a catalog although it works."""

from __future__ import annotations

from typing import Any

from gateway.catalog.build import Builder
from gateway.catalog.curation import lacks_description, lint_catalog
from gateway.model import Catalog, Listing, Method, Structure
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params
from tests.each import each


async def catalog(*methods: Method, notes: tuple[str, ...] = ()) -> Catalog:
    return await Builder(Params(), ValidatorCache()).build_catalog(
        Listing("static", methods, notes=notes), CatalogSettings()
    )


def method(name: str, **members: Any) -> Method:
    return Method(name, **{"description": "Does it.", "structure": Structure.EITHER} | members)


async def test_a_catalog_in_good_order_has_no_remarks() -> None:
    assert list(lint_catalog(await catalog(method("add"), method("sub_tract-2")), CatalogSettings())) == []


REMARKS = [
    (method("add", parameters=None, structure=Structure.BY_POSITION), "add: parameters unknown"),
    (method("add", description=""), "add: no description"),
    (method("add", description="add"), "add: no description"),
    (
        method("add", input_schema={"properties": {"a": {"enum": ["b\u200b", "c"]}}}),
        "add: the schema has values or names",
    ),
    (method("add", result={"const": "\x1b[31m"}), "add: the schema has values or names"),
    (method("add", result={"type": "foo"}), "add: the listing's output schema is unusable"),
]


@each(("bad", "remark"), REMARKS)
async def test_a_remark_names_the_tool_and_what_could_be_done(bad: Method, remark: str) -> None:
    (said,) = lint_catalog(await catalog(bad, method("good")), CatalogSettings())
    assert remark in said


@each("name", ["node.list", "x" * 65])
async def test_names_that_llm_apis_refuse_are_remarked_where_models_are_shown_them(name: str) -> None:
    listed = await catalog(method(name))
    (said,) = lint_catalog(listed, CatalogSettings(names="mcp"))
    assert said.startswith(f"{name}: names that most LLM APIs refuse")
    assert list(lint_catalog(listed, CatalogSettings())) == []


async def test_of_many_tools_three_are_named_and_the_others_counted() -> None:
    (remark,) = lint_catalog(await catalog(*(method(f"a.{n}", description="") for n in range(7))), CatalogSettings())
    assert remark.startswith("a.0, a.1, a.2 and 4 more: ")


async def test_what_the_listing_noted_comes_last() -> None:
    assert list(lint_catalog(await catalog(method("a.b"), notes=("noted",)), CatalogSettings()))[-1] == "noted"


async def test_a_description_says_nothing_where_it_is_the_name_over_again() -> None:
    silent, telling = (await catalog(method("a/b", description="a/b"), method("c"))).tools
    assert lacks_description(silent)
    assert not lacks_description(telling)
