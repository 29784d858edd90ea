"""The operator's patterns: what they hide, merge and rename, and what is said where they meet nothing."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gateway.catalog.build import Builder
from gateway.catalog.curation import Curation, lint_catalog
from gateway.model import Catalog, Listing, Method, Parameter, Structure, Tool
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params
from tests.each import each
from tests.tables import each_row

STRING = {"type": "string"}


def curation(**knobs: Any) -> Curation:
    return Curation(CatalogSettings.model_validate(knobs))


async def built(*methods: Method, **knobs: Any) -> Catalog:
    listing = Listing("openrpc", methods)
    return await Builder(Params(), ValidatorCache()).build_catalog(listing, CatalogSettings.model_validate(knobs))


async def tool_of(method: Method, **override: Any) -> Tool:
    (tool,) = (await built(method, tools={method.name: override})).tools
    return tool


def method(name: str = "m", **members: Any) -> Method:
    return Method(name, **{"description": "Does it."} | members)


# --- what is hidden by default --------------------------------------------------------------------------------

BY_DEFAULT = [
    "rpc.discover", "system.multicall", "JSONRPC.Introspect",
    "auth.login", "auth.login_with_token", "user.logout", "login", "common.authenticate", "auth.change_password",
    "core.kill", "aria2.shutdown", "aria2.forceShutdown", "stop", "stop_daemon", "System.Shutdown", "System.Reboot",
    "Application.Quit", "dumpprivkey", "walletpassphrase", "getseed", "personal_unlockAccount",
]  # fmt: skip


@each("name", BY_DEFAULT)
def test_methods_that_are_no_business_of_a_models_are_hidden_by_default(name: str) -> None:
    assert not curation().offers(name)
    assert curation(exclude=[]).offers(name)


ORDINARY = ["node.list", "aria2.unpause", "System.GetProperties", "user.list", "stopwatch", "shutdowns.list", "start"]


@each("name", ORDINARY)
def test_ordinary_methods_are_offered_by_default(name: str) -> None:
    assert curation().offers(name)


async def test_a_catalog_knows_which_methods_are_hidden() -> None:
    assert (await built(method("a"), method("login"), method("stop"))).hidden == ("login", "stop")
    assert (await built(method("b.x"), method("a"), include=["a"])).hidden == ("b.x",)


# --- overrides ------------------------------------------------------------------------------------------------


def test_one_argument_is_merged_knob_by_knob() -> None:
    override = curation(
        tools={
            "*": {"arguments": {"a": {"description": "A", "default": 1}, "b": {"required": True}}},
            "node.*": {"arguments": {"a": {"hidden": True, "default": 2}}},
        }
    ).override_for("node.get")
    assert override.arguments["a"].description == "A"
    assert override.arguments["a"].hidden
    assert override.arguments["a"].default.get_secret_value() == 2
    assert override.arguments["b"].required


RENAMED = [
    ("node.*", "content_*", "node.list", "content_list"),
    ("*.list", "all_*", "node.list", "all_node"),
    ("examples.*", "*", "examples.contentTypes.list", "contentTypes.list"),
    ("*", "shop.*", "a", "shop.a"),
    ("a/*", "x_*", "a/b/c", "x_b_c"),
]


@each(("pattern", "name", "listed", "shown"), RENAMED)
async def test_a_pattern_renames_all_that_it_matches(pattern: str, name: str, listed: str, shown: str) -> None:
    catalog = await built(method(listed), tools={pattern: {"name": name}})
    assert catalog.names == (shown,)
    assert catalog.by_name.get(listed) is catalog.by_name.get(shown)


@each("pattern", ["node.list", "*.*", "n?de.*", "[a-z]*"])
def test_a_star_in_a_name_needs_just_one_in_the_pattern(pattern: str) -> None:
    with pytest.raises(ValidationError, match="must have one \\* and no other wildcard"):
        CatalogSettings.model_validate({"tools": {pattern: {"name": "x_*"}}})


async def test_scopes_are_the_operators_where_they_are_given() -> None:
    listed = method(scopes=frozenset({"theirs"}))
    assert (await tool_of(listed)).scopes == {"theirs"}
    assert (await tool_of(listed, scopes=["ours", "more"])).scopes == {"ours", "more"}
    freed = await tool_of(listed, scopes=[])
    assert (freed.scopes, freed.auth_level) == (frozenset(), "required"), "no scope is not the same as no caller"
    assert (await tool_of(listed, scopes=["ours"])).auth_level == "required"


# --- arguments ------------------------------------------------------------------------------------------------

TWO = (Parameter("a", STRING, True, "First."), Parameter("b", {"type": "integer", "default": 10}, True))


async def test_a_default_is_published_and_makes_the_argument_optional() -> None:
    tool = await tool_of(method(parameters=TWO), arguments={"b": {"default": 5}})
    assert tool.input_schema["properties"]["b"] == {"type": "integer", "default": 5}
    assert tool.input_schema["required"] == ["a"]
    assert tool.binding.default_arguments == {"b": 5}
    assert tool.binding.complete_arguments({"a": "x"}) == {"a": "x", "b": 5}
    assert tool.binding.complete_arguments({"a": "x", "b": 7}) == {"a": "x", "b": 7}


async def test_a_default_of_null_is_one() -> None:
    tool = await tool_of(method(parameters=(Parameter("a", True, True),)), arguments={"a": {"default": None}})
    assert tool.input_schema["properties"]["a"] == {"default": None}
    assert tool.binding.complete_arguments({}) == {"a": None}


async def test_what_the_listing_has_as_a_default_is_left_to_the_backend() -> None:
    assert (await tool_of(method(parameters=TWO))).binding.complete_arguments({"a": "x"}) == {"a": "x"}


async def test_a_hidden_argument_is_in_no_part_of_the_schema() -> None:
    parameters = (*TWO, Parameter("tenant", {"$ref": "#/Tenant"}, True, "Secret."))
    listed = method(parameters=parameters, root={"Tenant": {"type": "string", "x-mcp-header": "Tenant"}})
    tool = await tool_of(listed, arguments={"tenant": {"hidden": True, "default": "blue"}})
    assert "enant" not in str(tool.input_schema)
    assert tool.input_schema["required"] == ["a", "b"]
    assert tool.checked_schema["additionalProperties"] is False
    assert tool.headers == ()
    assert tool.binding.fixed_arguments == {"tenant": "blue"}
    assert "blue" not in repr(tool)


async def test_a_hidden_argument_is_sent_whatever_a_caller_says() -> None:
    tool = await tool_of(method(parameters=TWO), arguments={"a": {"hidden": True, "default": "mine"}})
    assert tool.binding.complete_arguments({"b": 1, "a": "yours"}) == {"b": 1, "a": "mine"}


async def test_positions_count_only_what_callers_see() -> None:
    listed = method(parameters=TWO, structure=Structure.BY_POSITION)
    tool = await tool_of(listed, arguments={"a": {"hidden": True, "default": "x"}})
    assert (tool.binding.order, tool.binding.published_order) == (("a", "b"), ("b",))


async def test_an_argument_that_the_listing_lacks_may_be_hidden() -> None:
    tool = await tool_of(method(parameters=()), arguments={"token": {"hidden": True, "default": {"k": ["v"]}}})
    assert tool.input_schema["properties"] == {}
    assert tool.binding.complete_arguments({}) == {"token": {"k": ["v"]}}


async def test_a_hidden_argument_of_a_whole_schema_is_taken_out_of_it() -> None:
    whole = {"type": "object", "properties": {"a": STRING, "t": STRING}, "required": ["a", "t"]}
    tool = await tool_of(method(input_schema=whole), arguments={"t": {"hidden": True, "default": "x"}})
    assert tool.input_schema == {"type": "object", "properties": {"a": STRING}, "required": ["a"]}


@each("hidden", [True, False])
async def test_a_default_that_the_schema_refuses_quarantines_the_tool_without_showing_it(hidden: bool) -> None:
    arguments = {"b": {"default": "s3cret", "hidden": hidden}}
    catalog = await built(method(parameters=TWO), method("other"), tools={"m": {"arguments": arguments}})
    assert catalog.names == ("other",)
    (entry,) = catalog.quarantined
    assert (entry.reason, entry.pointer) == ("the default in catalog.tools does not match the schema", "/properties/b")
    assert entry.remedy == 'give it a schema under catalog.tools."m".arguments.b.schema'
    assert "s3cret" not in str(catalog)


async def test_a_default_is_judged_by_its_own_argument_alone() -> None:
    whole = {"type": "object", "properties": {"a": STRING, "b": STRING}, "anyOf": [{"required": ["a"]}]}
    tool = await tool_of(method(input_schema=whole), arguments={"b": {"default": "x"}})
    assert tool.input_schema["anyOf"] == whole["anyOf"]
    assert tool.binding.complete_arguments({"a": "y"}) == {"a": "y", "b": "x"}


def test_a_hidden_argument_without_a_default_is_a_fault_of_the_configuration() -> None:
    with pytest.raises(ValidationError, match="a hidden argument needs a default"):
        CatalogSettings.model_validate({"tools": {"m": {"arguments": {"a": {"hidden": True}}}}})


async def test_an_operators_description_of_an_argument_beats_the_schemas_own() -> None:
    listed = method(parameters=(Parameter("a", {"type": "string", "description": "Own."}),))
    tool = await tool_of(listed, arguments={"a": {"description": "Better."}})
    assert tool.input_schema["properties"]["a"] == {"type": "string", "description": "Better."}


async def test_a_change_of_a_default_changes_the_digest() -> None:
    digests = {
        (await tool_of(method(parameters=TWO), arguments={"a": argument})).digest
        for argument in (
            {}, {"default": "x"}, {"default": "x", "hidden": True}, {"default": "y", "hidden": True}
        )
    }  # fmt: skip
    assert len(digests) == 4


def test_the_texts_of_hidden_values_are_secrets_and_others_are_not() -> None:
    arguments = {
        "a": {"hidden": True, "default": "first-value"},
        "b": {"hidden": True, "default": {"deep": ["two", 3, None]}},
        "c": {"default": "published"},
    }
    knobs = CatalogSettings.model_validate({"tools": {"m": {"arguments": arguments}}})
    assert sorted(knobs.secrets()) == ["first-value", "two"]
    assert "first-value" not in repr(knobs)


# --- remarks --------------------------------------------------------------------------------------------------


@each_row
async def test_a_pattern_that_meets_nothing_is_a_remark(knobs: Any, remark: str) -> None:
    settings = CatalogSettings.model_validate({"names": "llm", **knobs})
    catalog = await built(
        method("node.list"), method("node.get"), method("user.list"), **settings.model_dump(exclude_unset=True)
    )
    assert list(lint_catalog(catalog, settings)) == [remark]


async def test_a_list_of_ones_own_that_lets_out_what_is_hidden_by_default_is_a_remark() -> None:
    methods = (method("auth.login"), method("stop"), method("fine"))
    for include, remarked in ((["*"], "auth.login, stop: "), (["*", "stop"], "auth.login: ")):
        knobs = {"names": "llm", "exclude": [], "include": include}
        said = [
            remark
            for remark in lint_catalog(await built(*methods, **knobs), CatalogSettings.model_validate(knobs))
            if "hidden by default" in remark
        ]
        assert len(said) == 1
        assert said[0].startswith(f"{remarked}hidden by default, and offered because catalog.exclude has a list")


async def test_patterns_that_meet_something_are_no_remark() -> None:
    settings = CatalogSettings.model_validate(
        {"include": ["node.*", "login"], "tools": {"node.*": {"name": "n_*"}, "node.list": {"title": "x"}}}
    )
    catalog = await built(method("node.list"), method("login"), **settings.model_dump(exclude_unset=True))
    assert list(lint_catalog(catalog, settings)) == []
    catalog = await built(method("node.list"), **settings.model_dump(exclude_unset=True))
    assert list(lint_catalog(catalog, settings)) == ['catalog.include: "login" matches no method of the listing']


async def test_a_listing_without_methods_says_nothing_about_patterns() -> None:
    settings = CatalogSettings.model_validate({"tools": {"nod.*": {"title": "x"}}})
    assert list(lint_catalog(await built(), settings)) == []
