"""Offer two tools in place of thousands, for which a model's context has no room: one finds tools by words, and one
calls a tool that was found, with the same checks as a direct call.

Tools are ranked by BM25 over names, titles, descriptions and names of arguments, with a weight for each (Robertson and
Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, §3.3). Libraries for it depend on NumPy.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cachetools import LRUCache

from gateway import jsonrpc
from gateway.concurrency.single_flight import SingleFlight
from gateway.concurrency.turns import Turns
from gateway.errors import InvalidArguments
from gateway.model import Binding, Caller, Catalog, JsonObject, NameStyle, Structure, Tool

DEFAULT_LIMIT: Final = 5
MAX_LIMIT: Final = 20
MAX_BYTES: Final = 128 * 1024
"""Maximum bytes of the tools in one result. The best one is returned whatever its size."""
_INDEXES: Final = 16
_TOOLS: Final = 20_000
_K1: Final = 1.2
_B: Final = 0.75
_NAME, _TITLE, _ARGUMENT, _DESCRIPTION = 4.0, 2.0, 1.5, 1.0
_PREFIX: Final = 0.4
"""Share of the score for a word that only begins with the query's word."""
# Bounds of the work for one query, which any caller chooses.
_MIN_PREFIX: Final = 3
_MAX_COMPLETIONS: Final = 20
_MAX_TERMS: Final = 32
# Scripts without spaces between words: a character is a word.
_IDEOGRAPHS: Final = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD: Final = re.compile(rf"[{_IDEOGRAPHS}]|[^\W_{_IDEOGRAPHS}]+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

Words = Mapping[str, float]


def _builtin_tool(name: str, title: str, description: str, input_schema: JsonObject, **members: Any) -> Tool:
    order = tuple(input_schema["properties"])
    binding = Binding(name, Structure.BY_NAME, order, is_builtin=True)
    return Tool(name, name, description, input_schema, binding, title, closed=True, **members)


def _object_schema(required: list[str], **properties: JsonObject) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


_FOUND: Final = _object_schema(
    ["name", "description", "inputSchema"],
    **{name: {"type": "string"} for name in ("name", "title", "description")},
    **{name: {"type": "object"} for name in ("inputSchema", "annotations")},
)
SEARCH_TOOLS: Final = _builtin_tool(
    "search_tools",
    "Search tools",
    "Find the tools of this service that fit a task. Says what each does and which arguments it takes. "
    "Call one with call_tool.",
    _object_schema(
        ["query"],
        query={
            "type": "string",
            "minLength": 1,
            "maxLength": 500,
            "description": "What the tool should do, in a few words.",
        },
        limit={
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_LIMIT,
            "default": DEFAULT_LIMIT,
            "description": "Most tools to return.",
        },
    ),
    output_schema=_object_schema(
        ["tools", "matches"],
        tools={"type": "array", "description": "The best matches, the best one first.", "items": _FOUND},
        matches={"type": "integer", "description": "How many tools have to do with the query in all."},
    ),
    annotations={"readOnlyHint": True, "openWorldHint": False},
)
CALL_TOOL: Final = _builtin_tool(
    "call_tool",
    "Call a tool",
    "Call a tool that search_tools found, with arguments as its inputSchema says.",
    _object_schema(
        ["name"],
        name={"type": "string", "minLength": 1, "description": "The tool's name, as search_tools gave it."},
        arguments={"type": "object", "default": {}, "description": "The tool's arguments."},
    ),
)
SEARCH_CATALOG: Final = Catalog((CALL_TOOL, SEARCH_TOOLS), "search")
"""The catalog that is listed in place of a caller's own."""


@dataclass(frozen=True, slots=True)
class BuiltinTool:
    """Hold a tool of the gateway's own and its handler, which returns the result for a caller and checked arguments.
    With ``lists`` it requires the scopes of a listing too. With ``calls_named`` it calls another tool, by ``name`` and
    ``arguments`` in its arguments; the handler is then only for unknown names."""

    tool: Tool
    handler: Callable[[Caller, Mapping[str, Any]], Awaitable[dict[str, Any]]]
    lists: bool = False
    calls_named: bool = False


class ToolSearch:
    """Keep an index for each catalog, made on its first search. Tools that catalogs share are read once."""

    def __init__(self) -> None:
        self._words: LRUCache[str, Words] = LRUCache(_TOOLS)
        self._indexes: LRUCache[str, ToolIndex] = LRUCache(_INDEXES)
        self._builds = SingleFlight[str, ToolIndex]()

    async def search(
        self, catalog: Catalog, query: str, limit: int = DEFAULT_LIMIT, name_style: NameStyle = NameStyle.LLM
    ) -> dict[str, Any]:
        """Return the result of ``search_tools``: the best matches, and how many there are in all."""
        matches = await self.rank(catalog, query)
        described: list[dict[str, Any]] = []
        size = 0
        for tool in matches[:limit]:
            entry = _tool_description(tool, name_style)
            size += len(jsonrpc.encode(entry))
            if described and size > MAX_BYTES:
                break
            described.append(entry)
        return {"tools": described, "matches": len(matches)}

    async def rank(self, catalog: Catalog, query: str) -> list[Tool]:
        """Return all tools that match the query, the best first."""
        index = self._indexes.get(catalog.digest)
        if index is None:
            index = await self._builds.join(catalog.digest, lambda: self._build(catalog))
        return index.rank(query)

    async def _build(self, catalog: Catalog) -> ToolIndex:
        index = await ToolIndex.build((tool, self._words_of(tool)) for tool in catalog.tools)
        self._indexes[catalog.digest] = index
        return index

    def _words_of(self, tool: Tool) -> Words:
        words = self._words.get(tool.digest)
        if words is None:
            words = self._words[tool.digest] = word_weights(tool)
        return words


def builtin_tools(
    search: ToolSearch, catalog_of: Callable[[Caller], Awaitable[Catalog]], name_style: NameStyle
) -> Mapping[str, BuiltinTool]:
    """Return the tools of one service's search by their names. ``catalog_of`` returns the tools that a caller may call;
    ``name_style`` is for callers who chose none."""

    async def search_tools(caller: Caller, arguments: Mapping[str, Any]) -> dict[str, Any]:
        limit = int(arguments.get("limit", DEFAULT_LIMIT))
        return await search.search(await catalog_of(caller), arguments["query"], limit, caller.name_style or name_style)

    async def call_tool(_: Caller, arguments: Mapping[str, Any]) -> dict[str, Any]:
        raise InvalidArguments(f"There is no tool {arguments['name'][:128]}; search_tools finds those there are")

    both = BuiltinTool(SEARCH_TOOLS, search_tools, lists=True), BuiltinTool(CALL_TOOL, call_tool, calls_named=True)
    return {builtin.tool.name: builtin for builtin in both}


def _tool_description(tool: Tool, name_style: NameStyle) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": tool.name_for(name_style)}
    if tool.title:
        entry["title"] = tool.title
    entry |= {"description": tool.description, "inputSchema": tool.schemas_for(name_style)[0]}
    if tool.annotations:
        entry["annotations"] = tool.annotations
    return entry


def words_of(text: str) -> list[str]:
    """Return the words of a text or a name, in lower case and singular: those of ``getBlockHash`` and ``Get block
    hashes`` are equal."""
    return [_singular(word) for word in _WORD.findall(_HUMP.sub(" ", text).casefold())]


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("shes", "ches", "xes", "sses")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


_FILLERS: Final = frozenset(
    words_of("a an and are at by for from how i in is it my of on or that the this to what with")
)
"""Words of a query that do not describe a tool."""


def word_weights(tool: Tool) -> Words:
    """Return the weight of each word of a tool, the sum over the fields that have it."""
    words: defaultdict[str, float] = defaultdict(float)
    fields = ((tool.name, _NAME), (tool.title, _TITLE), (tool.description, _DESCRIPTION))
    for text, weight in (*fields, *((name, _ARGUMENT) for name in tool.input_schema.get("properties", ()))):
        for word in words_of(text):
            words[word] += weight
    return dict(words)


class ToolIndex:
    """Hold the words of a catalog's tools. Made by :meth:`build`."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools
        self._postings: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        self._lengths: list[float] = []
        self._average = 1.0
        self._vocabulary: list[str] = []

    @classmethod
    async def build(cls, tools: Iterable[tuple[Tool, Words]]) -> ToolIndex:
        """Build the index of tools and their words. Other tasks of the event loop run in between."""
        index = cls(collected := [])
        turns = Turns()
        for number, (tool, words) in enumerate(tools):
            collected.append(tool)
            index._lengths.append(sum(words.values()))
            for word, weight in words.items():
                index._postings[word].append((number, weight))
            await turns.give()
        index._vocabulary = sorted(index._postings)
        index._average = sum(index._lengths) / len(index._lengths) if index._lengths else 1.0
        return index

    def rank(self, query: str) -> list[Tool]:
        """Return all tools that match the query, the best first; equal ones in the order of the catalog."""
        scores: defaultdict[int, float] = defaultdict(float)
        query_words = list(dict.fromkeys(words_of(query)))
        for word in ([word for word in query_words if word not in _FILLERS] or query_words)[:_MAX_TERMS]:
            for tool, score in self._scores(word).items():
                scores[tool] += score
        ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
        return [self._tools[tool] for tool, _ in ranked]

    def _scores(self, word: str) -> dict[int, float]:
        """Return the highest score of each tool for a word and for the words that begin with it."""
        best: dict[int, float] = {}
        for other, share in self._similar_words(word):
            postings = self._postings[other]
            rarity = math.log(1 + (len(self._tools) - len(postings) + 0.5) / (len(postings) + 0.5))
            for tool, weight in postings:
                length = 1 - _B + _B * self._lengths[tool] / self._average
                score = share * rarity * weight * (_K1 + 1) / (weight + _K1 * length)
                best[tool] = max(best.get(tool, 0.0), score)
        return best

    def _similar_words(self, word: str) -> Iterable[tuple[str, float]]:
        if word in self._postings:
            yield word, 1.0
        if len(word) < _MIN_PREFIX:
            return
        start = bisect_left(self._vocabulary, word)
        for other in self._vocabulary[start : start + _MAX_COMPLETIONS]:
            if other.startswith(word) and other != word:
                yield other, _PREFIX
