"""Output schemas that a result was seen to break.

Clients check results against what a tool declares, and refuse what breaks it. So a tool whose backend does not keep its
word is listed without that word, until the listing gives another one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Final

from cachetools import LRUCache

from gateway.catalog.pins import schema_digest
from gateway.model import Catalog, Tool

MAX_METHODS: Final = 10_000
MAX_SCHEMAS: Final = 8
"""Broken schemas of one method that are remembered: views may list it with different ones."""
_NOTE: Final = "a result broke it"


class BrokenOutputSchemas:
    """Which output schemas are not believed any more. ``version`` grows with them: services may share these, and each
    takes them out of its own catalogs."""

    def __init__(self) -> None:
        self.version = 0
        self._broken: LRUCache[str, deque[str]] = LRUCache(MAX_METHODS)
        self._stripped: LRUCache[str, Tool] = LRUCache(MAX_METHODS)

    def record(self, tool: Tool) -> bool:
        """Note that a result broke the tool's output schema. False where that was known."""
        schemas = self._broken.setdefault(tool.method, deque(maxlen=MAX_SCHEMAS))
        broken = schema_digest(tool.output_schema)
        if broken in schemas:
            return False
        schemas.append(broken)
        self.version += 1
        return True

    def strip(self, catalog: Catalog) -> Catalog:
        """The catalog without the schemas that were broken; itself where there are none."""
        if not self._broken:
            return catalog
        tools = tuple(self._strip_tool(tool) if tool.method in self._broken else tool for tool in catalog.tools)
        if all(ours is theirs for ours, theirs in zip(tools, catalog.tools, strict=True)):
            return catalog
        return replace(catalog, tools=tools)

    def _strip_tool(self, tool: Tool) -> Tool:
        if tool.output_schema is None or schema_digest(tool.output_schema) not in self._broken[tool.method]:
            return tool
        bare = self._stripped.get(tool.digest)
        if bare is None:
            bare = replace(tool, output_schema=None, meta={**tool.meta, "outputSchemaDropped": _NOTE})
            self._stripped[tool.digest] = bare
        return bare
