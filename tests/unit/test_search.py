"""Finding tools by words."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from gateway.catalog.build import Builder
from gateway.discovery.tool_index import words_of
from gateway.discovery.tool_search import CALL_TOOL, MAX_BYTES, SEARCH_CATALOG, SEARCH_TOOLS, ToolSearch
from gateway.model import Binding, Catalog, Listing, Method, NameStyle, Parameter, Structure, Tool
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params
from tests.each import each
from tests.pace import quickly

METHODS = {
    "node.create": ("Make a new page of content.", ("title", "body")),
    "node.delete": ("Remove a page for good.", ("id",)),
    "user.create": ("Register an account.", ("email", "password")),
    "user.block": ("Keep an account from logging in.", ("user_id",)),
    "cache.rebuild": ("Throw away what was computed, and compute it anew.", ()),
    "getBlockHash": ("The hash of a block at a height.", ("height",)),
    "sendMail": ("Send a message to an address.", ("to", "subject", "body")),
    "查询用户": ("按名称查询用户。", ("名称",)),
}


async def catalog_of(methods: Mapping[str, tuple[str, tuple[str, ...]]]) -> Catalog:
    listed = (
        Method(name, description=text, parameters=tuple(Parameter(key) for key in parameters))
        for name, (text, parameters) in methods.items()
    )
    return await Builder(Params(), ValidatorCache()).build_catalog(Listing("static", tuple(listed)), CatalogSettings())


@pytest.fixture
async def catalog() -> Catalog:
    return await catalog_of(METHODS)


async def found(catalog: Catalog, query: str) -> list[str]:
    answer = await ToolSearch().search(catalog, query, 20, NameStyle.MCP)
    return [tool["name"] for tool in answer["tools"]]


@each(
    ("text", "words"),
    [
        ("getBlockHash", ["get", "block", "hash"]),
        ("get_block-hash", ["get", "block", "hash"]),
        ("Get block hashes", ["get", "block", "hash"]),
        ("HTTPServer.parseURL2", ["http", "server", "parse", "url2"]),
        ("Queries, classes & boxes", ["query", "class", "box"]),
        ("Größe", ["grösse"]),
        ("查询 user", ["查", "询", "user"]),
        ("!? --", []),
    ],
)
def test_a_name_and_a_sentence_have_the_same_words(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@each(
    ("query", "best"),
    [
        ("create a node", "node.create"),
        ("delete page", "node.delete"),
        ("new user account", "user.create"),
        ("block user", "user.block"),
        ("block hash", "getBlockHash"),
        ("GETBLOCKHASH height", "getBlockHash"),
        ("send an e-mail", "sendMail"),
        ("subject", "sendMail"),
        ("rebuild caches", "cache.rebuild"),
        ("mess", "sendMail"),
        ("what is the hash of a block", "getBlockHash"),
        ("用户", None),
    ],
)
async def test_the_tool_that_fits_comes_first(catalog: Catalog, query: str, best: str | None) -> None:
    names = await found(catalog, query)
    if best is None:
        (tool,) = [tool for tool in catalog.tools if tool.method == "查询用户"]
        best = tool.name
    assert names[0] == best


@each("query", ["zebra", "?!", " "])
async def test_what_nothing_has_to_do_with_finds_nothing_and_says_so(catalog: Catalog, query: str) -> None:
    answer = await ToolSearch().search(catalog, query)
    assert answer == {"tools": [], "matches": 0, "hint": "No tool has these words. There are 8 tools."}


async def test_small_words_of_a_question_match_nothing_by_themselves(catalog: Catalog) -> None:
    assert (await ToolSearch().search(catalog, "what is the height of a block"))["matches"] == 2
    assert (await ToolSearch().search(catalog, "of a"))["matches"] > 2


async def test_an_empty_catalog_finds_nothing() -> None:
    assert await found(await catalog_of({}), "anything") == []


async def test_the_answer_is_what_the_tool_declares_and_says_how_many_more_there_are(catalog: Catalog) -> None:
    answer = await ToolSearch().search(catalog, "create user account page block", 2)
    assert isinstance(SEARCH_TOOLS.output_schema, dict)
    jsonschema.Draft202012Validator(SEARCH_TOOLS.output_schema).validate(answer)
    assert len(answer["tools"]) == 2
    assert answer["matches"] == 5
    (first, *_) = answer["tools"]
    tool = catalog.by_name.get(first["name"])
    assert tool is not None
    assert (first["description"], first["inputSchema"]) == (tool.description, tool.input_schema)


async def test_equal_tools_come_in_the_order_of_the_catalog() -> None:
    catalog = await catalog_of({f"copy.n{n}": ("Copy.", ()) for n in (3, 1, 2)})
    assert await found(catalog, "copy") == ["copy.n1", "copy.n2", "copy.n3"]


async def test_large_schemas_do_not_make_a_large_answer() -> None:
    labels = {"type": "string", "enum": ["x" * 50 + str(n) for n in range(900)]}
    tools = tuple(
        Tool(f"t{n:02}", "m", "Copy.", {"properties": {"a": labels}}, Binding("m", Structure.BY_NAME))
        for n in range(10)
    )
    answer = await ToolSearch().search(Catalog(tools, "static"), "copy", 10)
    assert 1 <= len(answer["tools"]) < 10
    assert len(str(answer)) <= MAX_BYTES * 1.1
    assert answer["matches"] == 10


async def test_searches_at_the_same_time_share_one_index_and_one_that_is_cancelled_ends_none(catalog: Catalog) -> None:
    search = ToolSearch()
    first, *others = [asyncio.create_task(search.search(catalog, "user")) for _ in range(5)]
    await asyncio.sleep(0)
    first.cancel()
    answers = await asyncio.gather(*others)
    assert all(answer == answers[0] for answer in answers)
    assert answers[0]["matches"] == 2


class Failing(tuple[Tool, ...]):
    """Tools that cannot be read while ``failure`` is set."""

    failure: Exception | None = None

    def __iter__(self) -> Iterator[Tool]:
        if self.failure is not None:
            raise self.failure
        return super().__iter__()


async def test_an_index_that_could_not_be_made_is_made_by_the_next_search(catalog: Catalog) -> None:
    tools = Failing(catalog.tools)
    flaky, search = replace(catalog, tools=tools), ToolSearch()
    assert flaky.digest == catalog.digest
    tools.failure = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await search.search(flaky, "user")
    tools.failure = None
    assert (await search.search(flaky, "user"))["matches"] == 2


async def test_five_thousand_tools_are_searched_quickly_and_indexed_without_holding_up_the_loop() -> None:
    tools = tuple(
        Tool(
            f"area{n % 50}.thing{n}.update",
            "m",
            f"Update thing {n} of area {n % 50} with what is given, and tell whoever listens to it.",
            {"properties": {f"field{n % 7}": {}, "dry_run": {}}},
            Binding("m", Structure.BY_NAME),
        )
        for n in range(5000)
    )
    catalog, search = Catalog(tools, "static"), ToolSearch()
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    await search.search(catalog, "first")
    counting.cancel()
    await asyncio.wait([counting])
    assert turns >= 5
    with quickly(0.1):
        answer = await search.search(catalog, "update the thing 4242 of area 42")
    assert answer["tools"][0]["name"] == "area42.thing4242.update"
    with quickly(0.3):
        assert (await search.search(catalog, "a area thing update field dry run what given tell listen " * 8))["tools"]


def test_the_two_doors_are_sound_tools() -> None:
    validators = ValidatorCache()
    for tool in SEARCH_CATALOG.tools:
        validators.compile(tool.input_schema)
    assert SEARCH_CATALOG.names == ("call_tool", "search_tools")
    assert SEARCH_CATALOG.by_name["call_tool"] is CALL_TOOL
    arguments: dict[str, Any] = {"query": "x", "limit": 3}
    assert validators.compile(SEARCH_TOOLS.input_schema).is_valid(arguments)


async def test_a_query_of_many_words_that_all_tools_have_gives_other_tasks_turns() -> None:
    beginnings = [letter * 3 for letter in "abcdefghijklmnopq"]
    text = " ".join(f"{beginning}{last}z" for beginning in beginnings for last in "abcdefghijklmnopqrst")
    listed = [Tool(f"t{number}", "t", text, {}, Binding("t", Structure.BY_NAME)) for number in range(500)]
    catalog = Catalog(tuple(listed), "test")
    search = ToolSearch()
    await search.search(catalog, "nothing")  # the index is there
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    answer = await search.search(catalog, " ".join(beginnings))
    counting.cancel()
    assert answer["matches"] == 500
    assert turns > 2
