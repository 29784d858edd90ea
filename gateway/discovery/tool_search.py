"""Offer two tools in place of thousands, for which a model's context has no room: one finds tools by words, and one
calls a tool that was found, with the same checks as a direct call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final

from cachetools import LRUCache

from gateway import jsonrpc
from gateway.concurrency.single_flight import SingleFlight
from gateway.discovery.tool_index import ToolIndex, Words, group_of, groups_of, word_weights
from gateway.errors import InvalidArguments
from gateway.model import Binding, Caller, Catalog, JsonObject, NameStyle, Structure, Tool
from gateway.settings.catalog import SearchAbove

DEFAULT_LIMIT: Final = 5
MAX_LIMIT: Final = 20
MAX_BYTES: Final = 128 * 1024
"""Maximum bytes of the tools in one result. The best one is returned whatever its size."""
_INDEXES: Final = 16
_TOOLS: Final = 20_000
_LARGE: Final = 20
"""Tools of a group of which a result shows one, and names the others in a line."""
_OF_A_GROUP: Final = 3
"""Tools that a result shows of a smaller group."""
_NAMED: Final = 30
"""Tools that the line of a group names, the best ones first."""
_LOOKED_AT: Final = 1000
"""Matches of which a result is made."""
_GROUPS: Final = 20
"""Groups that the description names, the largest ones."""
_ABOUT: Final = (
    "Find the tools of {} that fit a task. Says what each does and which arguments it takes. Call one with call_tool."
)


def _builtin_tool(name: str, title: str, description: str, input_schema: JsonObject, **members: Any) -> Tool:
    order = tuple(input_schema["properties"])
    binding = Binding(name, Structure.BY_NAME, order, is_builtin=True)
    return Tool(name, name, description, input_schema, binding, title, closed=True, coerces=True, **members)


def _object_schema(required: list[str], **properties: JsonObject) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


_FOUND: Final = _object_schema(
    ["name", "description", "inputSchema"],
    **{name: {"type": "string"} for name in ("name", "title", "description")},
    **{name: {"type": "object"} for name in ("inputSchema", "annotations")},
)
_GROUP: Final = _object_schema(
    ["name", "tools"], name={"type": "string"}, tools={"type": "array", "items": {"type": "string"}}
)
SEARCH_TOOLS: Final = _builtin_tool(
    "search_tools",
    "Search tools",
    _ABOUT.format("this service"),
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
            "description": "Most tools and groups of tools to return.",
        },
    ),
    output_schema=_object_schema(
        ["tools", "matches"],
        tools={"type": "array", "description": "The best matches, the best one first.", "items": _FOUND},
        groups={"type": "array", "description": "Groups with further matches, and tools of each.", "items": _GROUP},
        hint={"type": "string", "description": "What to do where nothing matches."},
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
"""The catalog that is listed in place of a caller's own, before its description names the groups."""


@dataclass(frozen=True, slots=True)
class BuiltinTool:
    """Hold a tool of the gateway's own and its handler, which returns the result for a caller and checked arguments.
    With ``calls_named`` it calls another tool, by ``name`` and ``arguments`` in its arguments; the handler is then only
    for unknown names. Otherwise it lists, and requires the scopes of a listing too. Where it is not offered to a
    caller, the service's own tool of this name counts."""

    tool: Tool
    handler: Callable[[Caller, Mapping[str, Any]], Awaitable[dict[str, Any]]]
    is_offered: Callable[[Caller], Awaitable[bool]]
    calls_named: bool = False


class ToolSearch:
    """Keep an index for each catalog, made on its first search. Tools that catalogs share are read once."""

    def __init__(self) -> None:
        self._words: LRUCache[str, Words] = LRUCache(_TOOLS)
        self._indexes: LRUCache[str, ToolIndex] = LRUCache(_INDEXES)
        self._builds = SingleFlight[str, ToolIndex]()
        self._large: LRUCache[tuple[str, int], bool] = LRUCache(_TOOLS)

    def replaces(self, catalog: Catalog, knob: bool | SearchAbove) -> bool:
        """Return whether ``catalog.search`` has a caller listed the two tools in place of this catalog."""
        if isinstance(knob, bool):
            return knob
        key = catalog.digest, knob.above
        if key not in self._large:  # encoding ends where the size is known to be larger
            shown = ((one, jsonrpc.encode(one.shown_input or one.input_schema).decode()) for one in catalog.tools)
            texts = (f"{one.name}{one.description}{schema}" for one, schema in shown)
            self._large[key] = any(size > knob.above * 4 for size in accumulate(map(len, texts)))
        return self._large[key]

    def in_place(self, catalog: Catalog, knob: bool | SearchAbove, of: str) -> Catalog | None:
        """Return the two tools if they are listed in place of a catalog. Their description is made of it, and of what
        its tools are ``of``."""
        if not self.replaces(catalog, knob):
            return None
        about = f"{_ABOUT.format(of)} {_groups_in_words(catalog.tools)}"
        return replace(SEARCH_CATALOG, tools=(CALL_TOOL, replace(SEARCH_TOOLS, description=about)))

    async def search(
        self, catalog: Catalog, query: str, limit: int = DEFAULT_LIMIT, name_style: NameStyle = NameStyle.LLM
    ) -> dict[str, Any]:
        """Return the result of ``search_tools``: the best matches, groups of further ones, and how many there are in
        all. Tools and groups are at most ``limit`` together."""
        matches = await self.rank(catalog, query)
        if not matches:
            return {"tools": [], "matches": 0, "hint": f"No tool has these words. {_groups_in_words(catalog.tools)}"}
        shown, groups = _fold(matches[:_LOOKED_AT], (await self._index(catalog)).groups, limit)
        described: list[dict[str, Any]] = []
        size = 0
        for tool in shown:
            entry = _tool_description(tool, name_style)
            size += len(jsonrpc.encode(entry))
            if described and size > MAX_BYTES:
                break
            described.append(entry)
        result: dict[str, Any] = {"tools": described, "matches": len(matches)}
        if groups:
            names = ((group, [tool.name_for(name_style) for tool in tools[:_NAMED]]) for group, tools in groups.items())
            result["groups"] = [{"name": group, "tools": tools} for group, tools in names]
        return result

    async def rank(self, catalog: Catalog, query: str) -> list[Tool]:
        """Return all tools that match the query, the best first: the one that it names, then those with its words."""
        ranked = await (await self._index(catalog)).rank(query)
        named = catalog.by_name.get(query.strip())
        return [named, *(tool for tool in ranked if tool is not named)] if named else ranked

    async def _index(self, catalog: Catalog) -> ToolIndex:
        index = self._indexes.get(catalog.digest)
        return index or await self._builds.join(catalog.digest, lambda: self._build(catalog))

    async def _build(self, catalog: Catalog) -> ToolIndex:
        index = await ToolIndex.build((tool, self._words_of(tool)) for tool in catalog.tools)
        self._indexes[catalog.digest] = index
        return index

    def _words_of(self, tool: Tool) -> Words:
        words = self._words.get(tool.digest)
        if words is None:
            words = self._words[tool.digest] = word_weights(tool)
        return words


def _groups_in_words(tools: Sequence[Tool]) -> str:
    names = ", ".join(f"{name} ({size})" for name, size in groups_of(tools)[:_GROUPS])
    return f"There are {len(tools)} tools{names and f', the largest groups of which are {names}'}."


def _fold(matches: Sequence[Tool], sizes: Mapping[str, int], limit: int) -> tuple[list[Tool], dict[str, list[Tool]]]:
    """Return the tools that a result shows, and by group those that it names: siblings do not fill it up."""
    shown: list[Tool] = []
    groups: dict[str, list[Tool]] = {}
    seen: Counter[str] = Counter()
    for tool in matches:
        group = group_of(tool)
        seen[group] += 1
        if group in groups:
            groups[group].append(tool)
        elif len(shown) + len(groups) < limit:
            if group in sizes and seen[group] > (1 if sizes[group] >= _LARGE else _OF_A_GROUP):
                groups[group] = [tool]
            else:
                shown.append(tool)
    return shown, groups


def builtin_tools(
    search: ToolSearch,
    catalog_of: Callable[[Caller], Awaitable[Catalog]],
    name_style: NameStyle,
    knob: bool | SearchAbove = True,
) -> Mapping[str, BuiltinTool]:
    """Return the tools of one service's search by their names. ``catalog_of`` returns the tools that a caller may call;
    ``name_style`` is for callers who chose none; ``knob`` is ``catalog.search``."""

    async def is_offered(caller: Caller) -> bool:
        return knob is True or search.replaces(await catalog_of(caller), knob)

    async def search_tools(caller: Caller, arguments: Mapping[str, Any]) -> dict[str, Any]:
        limit = int(arguments.get("limit", DEFAULT_LIMIT))
        return await search.search(await catalog_of(caller), arguments["query"], limit, caller.name_style or name_style)

    async def call_tool(caller: Caller, arguments: Mapping[str, Any]) -> dict[str, Any]:
        name = arguments["name"]
        meant = (await catalog_of(caller)).nearest_name(name, caller.name_style or name_style)
        raise InvalidArguments(f"There is no tool {name[:128]}; search_tools finds those there are{meant}")

    both = (
        BuiltinTool(SEARCH_TOOLS, search_tools, is_offered),
        BuiltinTool(CALL_TOOL, call_tool, is_offered, calls_named=True),
    )
    return {builtin.tool.name: builtin for builtin in both if knob}


def _tool_description(tool: Tool, name_style: NameStyle) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": tool.name_for(name_style)}
    if tool.title:
        entry["title"] = tool.title
    entry |= {"description": tool.description, "inputSchema": tool.schemas_for(name_style)[0]}
    if tool.annotations:
        entry["annotations"] = tool.annotations
    return entry
