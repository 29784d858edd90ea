"""What search makes of listings that were written for programs: models with two dozen methods each, names in one word,
and few words for many operations."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from gateway.discovery.tool_index import group_of, groups_of
from gateway.discovery.tool_search import SEARCH_TOOLS, ToolSearch
from gateway.model import Catalog, NameStyle
from gateway.settings.catalog import SearchAbove
from tests.each import each
from tests.unit.test_search import catalog_of

MODELS = ("ir.cron", "ir.note", "ir.lang", "res.user", "res.user.device", "res.group", "ir.menu")
_MANY = "browse copy count create default_get delete export fields_get import list_fields on_edit read search "
_MORE = "search_count search_read sync validate view_get write archive"
OPERATIONS = re.findall(r"\w+", _MANY + _MORE)
SMALL = ("menu.open", "menu.close", "menu.list_icons", "today", "ping_all")


@pytest.fixture
async def models() -> Catalog:
    names = [f"{model}.{operation}" for model in MODELS for operation in OPERATIONS]
    return await catalog_of(dict.fromkeys((*names, *SMALL), ("", ("params",))))


async def shown(catalog: Catalog, query: str, limit: int = 5) -> dict[str, Any]:
    answer = await ToolSearch().search(catalog, query, limit, NameStyle.MCP)
    assert isinstance(SEARCH_TOOLS.output_schema, dict)
    jsonschema.Draft202012Validator(SEARCH_TOOLS.output_schema).validate(answer)
    return {"tools": [tool["name"] for tool in answer["tools"]], "groups": answer.get("groups", [])}


async def test_of_a_large_group_one_tool_is_shown_and_a_line_names_the_others(models: Catalog) -> None:
    found = await shown(models, "cron")
    (line,) = found["groups"]
    assert len(found["tools"]) == 1
    assert line["name"] == "ir.cron"
    assert {*found["tools"], *line["tools"]} == {f"ir.cron.{operation}" for operation in OPERATIONS}


async def test_a_tool_that_is_named_comes_first(models: Catalog) -> None:
    for tool in models.tools:
        for name in (tool.name, f" {tool.name_for(NameStyle.LLM)} "):
            assert (await shown(models, name))["tools"][0] == tool.name


async def test_tools_and_groups_are_at_most_as_many_as_asked_for(models: Catalog) -> None:
    for limit in (1, 2, 5):
        found = await shown(models, "user group note language", limit)
        assert len(found["tools"]) + len(found["groups"]) == limit


async def test_of_a_small_group_three_tools_are_shown(models: Catalog) -> None:
    names = (*(f"menu.{word}_page" for word in ("open", "close", "hide", "turn")), *(f"page.n{n}" for n in range(9)))
    small = await catalog_of(dict.fromkeys(names, ("", ("params",))))
    found = await shown(small, "menu page", 5)
    assert [name for name in found["tools"] if name.startswith("menu")] == [
        "menu.close_page",
        "menu.hide_page",
        "menu.open_page",
    ]
    assert {"name": "menu", "tools": ["menu.turn_page"]} in found["groups"]


async def test_words_for_reading_find_each_other_and_weigh_less_than_what_is_read(models: Catalog) -> None:
    for query in ("list cron", "find cron", "get cron", "search cron", "read cron"):
        assert (await shown(models, query))["tools"][0].startswith("ir.cron.")
    assert (await shown(models, "read notes"))["tools"][0] == "ir.note.read"


@each(
    ("query", "best"),
    [
        ("how many notes are there", "ir.note.count"),
        ("change a note", "ir.note.write"),
        ("remove the note", "ir.note.delete"),
        ("add a note", "ir.note.create"),
        ("duplicate the note", "ir.note.copy"),
    ],
)
async def test_an_operation_is_found_under_its_other_names(models: Catalog, query: str, best: str) -> None:
    assert (await shown(models, query))["tools"][0] == best


async def test_names_of_one_word_are_searched_for_their_parts() -> None:
    names = ("getbalance", "listaddresses", "setconfig", "sendrawtransaction", "createnewaddress")
    catalog = await catalog_of(dict.fromkeys(names, ("", ("params",))))
    assert (await shown(catalog, "what is the balance"))["tools"] == ["getbalance"]
    assert (await shown(catalog, "list the addresses"))["tools"][0] == "listaddresses"
    assert (await shown(catalog, "the configuration"))["tools"] == ["setconfig"]
    assert (await shown(catalog, "transaction"))["tools"] == ["sendrawtransaction"]


async def test_a_hyphen_does_not_hide_a_word_that_the_tools_write_without_it() -> None:
    catalog = await catalog_of({"Addons.GetAddons": ("", ()), "Playlist.Add": ("", ()), "mail.send-all": ("", ())})
    assert (await shown(catalog, "which add-ons are there"))["tools"] == ["Addons.GetAddons"]
    assert (await shown(catalog, "send-all"))["tools"] == ["mail.send-all"]


@each(
    ("name", "group"),
    [
        ("model.res.user.search_read", "model.res.user"),
        ("Player.GetItem", "Player"),
        ("a/b:c", "a/b"),
        ("wallet_addChain", "wallet"),
        ("core.get_version", "core"),
        ("get_pet", ""),
        ("list-pets", ""),
        ("getbalance", ""),
        ("_private", ""),
    ],
)
async def test_a_group_is_what_stands_before_the_last_separator_and_no_verb(name: str, group: str) -> None:
    (tool,) = (await catalog_of({name: ("", ())})).tools
    assert group_of(replace(tool, name=name)) == group


async def test_a_group_of_most_tools_and_one_of_few_are_none(models: Catalog) -> None:
    assert [name for name, _ in groups_of(models.tools)] == [*sorted(MODELS), "menu"]
    names = (*(f"eth_n{n}" for n in range(9)), "web3_a", "web3_b")
    of_one = await catalog_of(dict.fromkeys(names, ("", ())))
    assert groups_of(of_one.tools) == []


def in_place(catalog: Catalog, of: str) -> Catalog:
    shown = ToolSearch().in_place(catalog, True, of)
    assert shown is not None
    return shown


async def test_the_description_names_service_number_and_largest_groups(models: Catalog) -> None:
    (_, about) = in_place(models, "Shop").tools
    assert "Find the tools of Shop that fit" in about.description
    assert "There are 145 tools, the largest groups of which are ir.cron (20), ir.lang (20)," in about.description
    (_, plain) = in_place(models, "this service").tools
    assert "the tools of this service" in plain.description
    assert in_place(models, "Shop").digest == in_place(models, "Shop").digest


async def test_no_match_names_the_groups(models: Catalog) -> None:
    hint = (await ToolSearch().search(models, "zebra"))["hint"]
    assert hint.startswith("No tool has these words. There are 145 tools, the largest groups of which are ir.cron (20)")


async def test_search_replaces_lists_of_more_tokens_than_the_knob_says(models: Catalog) -> None:
    size = sum(len(f"{tool.name}{tool.description}") + len(_compact(tool.input_schema)) for tool in models.tools)
    search, least = ToolSearch(), size // 4
    assert search.replaces(models, SearchAbove(above=least - 1))
    assert not search.replaces(models, SearchAbove(above=least + 1))
    assert search.in_place(models, SearchAbove(above=least + 1), "Shop") is None
    assert search.in_place(models, False, "Shop") is None
    assert search.replaces(models, SearchAbove(above=0))
    shorter = replace(models, tools=tuple(replace(tool, shown_input={"type": "object"}) for tool in models.tools))
    assert not search.replaces(shorter, SearchAbove(above=least - 1))  # models read what they are shown


def _compact(schema: Any) -> str:
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
