"""Offer two tools in place of thousands: one finds tools by words, and one calls a tool that was found.

A model's context has no room for a large catalog, so with ``catalog.search`` only these two are listed. All others can
still be called by name. A call through ``call_tool`` passes the same checks as a direct one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cachetools import LRUCache

from gateway import jsonrpc
from gateway.errors import InvalidArguments
from gateway.model import Binding, Caller, Catalog, JsonObject, NameStyle, Structure, Tool
from gateway.search.ranking import ToolIndex, Words, word_weights
from gateway.single_flight import SingleFlight

DEFAULT_LIMIT: Final = 5
MAX_LIMIT: Final = 20
MAX_BYTES: Final = 128 * 1024
"""Most bytes of the tools in one result. The best one is returned whatever its size."""
_INDEXES: Final = 16
_TOOLS: Final = 20_000


def _builtin_tool(name: str, title: str, description: str, input_schema: JsonObject, **members: Any) -> Tool:
    order = tuple(input_schema["properties"])
    binding = Binding(name, Structure.BY_NAME, order, is_builtin=True)
    return Tool(name, name, description, input_schema, binding, title, closed=True, **members)


SEARCH_TOOLS: Final = _builtin_tool(
    "search_tools",
    "Search tools",
    "Find the tools of this service that fit a task. Says what each does and which arguments it takes. "
    "Call one with call_tool.",
    {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "minLength": 1,
                "maxLength": 500,
                "description": "What the tool should do, in a few words.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_LIMIT,
                "default": DEFAULT_LIMIT,
                "description": "Most tools to return.",
            },
        },
        "required": ["query"],
    },
    output_schema={
        "type": "object",
        "properties": {
            "tools": {
                "type": "array",
                "description": "The best matches, the best one first.",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "title": {"type": "string"},
                        "description": {"type": "string"},
                        "inputSchema": {"type": "object"},
                        "annotations": {"type": "object"},
                    },
                    "required": ["name", "description", "inputSchema"],
                },
            },
            "matches": {"type": "integer", "description": "How many tools have to do with the query in all."},
        },
        "required": ["tools", "matches"],
    },
    annotations={"readOnlyHint": True, "openWorldHint": False},
)
CALL_TOOL: Final = _builtin_tool(
    "call_tool",
    "Call a tool",
    "Call a tool that search_tools found, with arguments as its inputSchema says.",
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "description": "The tool's name, as search_tools gave it."},
            "arguments": {"type": "object", "default": {}, "description": "The tool's arguments."},
        },
        "required": ["name"],
    },
)
SEARCH_CATALOG: Final = Catalog((CALL_TOOL, SEARCH_TOOLS), "search")
"""The catalog that is listed in place of a caller's own."""


@dataclass(frozen=True, slots=True)
class BuiltinTool:
    """Hold a tool of the gateway's own and its handler, which returns the result for a caller and checked arguments.

    ``lists`` says that the tool lists tools, and so requires the scopes of a listing too. ``calls_named`` says that it
    calls another tool, given by ``name`` and ``arguments`` in its arguments; the handler is then only for unknown
    names.
    """

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

    def __repr__(self) -> str:
        return f"<ToolSearch indexes={len(self._indexes)} tools={len(self._words)} builds={self._builds!r}>"

    async def search(
        self, catalog: Catalog, query: str, limit: int = DEFAULT_LIMIT, name_style: NameStyle = NameStyle.LLM
    ) -> dict[str, Any]:
        """Return the result of ``search_tools``: the best matches, and how many there are in all."""
        index = self._indexes.get(catalog.digest)
        if index is None:
            index = await self._builds.join(catalog.digest, lambda: self._build(catalog))
        matches = index.rank(query)
        described: list[dict[str, Any]] = []
        size = 0
        for match in matches[:limit]:
            tool = _tool_description(match.tool, name_style)
            size += len(jsonrpc.encode(tool))
            if described and size > MAX_BYTES:
                break
            described.append(tool)
        return {"tools": described, "matches": len(matches)}

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
