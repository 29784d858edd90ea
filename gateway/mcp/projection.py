"""Project a tool to the JSON that a revision of MCP knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.mcp.content import is_object_schema, wrap_schema
from gateway.model import NameStyle, Tool


@dataclass(frozen=True, slots=True)
class ToolProjector:
    """Project tools to the members that a revision knows (``Tool`` in its schema.ts).

    ``objects_only`` wraps an output schema whose root is not an object, as results are wrapped. Pages are cached by
    ``key``: revisions with an equal projection share them.
    """

    annotations: bool = True
    titles: bool = True
    outputs: bool = True
    objects_only: bool = False
    name_style: NameStyle = NameStyle.LLM
    key: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Built once, since each request looks up its page by it.
        members = f"{self.annotations:d}{self.titles:d}{self.outputs:d}{self.objects_only:d}"
        object.__setattr__(self, "key", f"mcp {self.name_style} {members}")

    def with_name_style(self, name_style: NameStyle) -> ToolProjector:
        """Return this projector with another style of tool names."""
        return self if name_style is self.name_style else replace(self, name_style=name_style)

    def project(self, tool: Tool) -> dict[str, Any]:
        """Return the tool as an element of ``tools`` in the result of ``tools/list``."""
        shown: dict[str, Any] = {"name": tool.name_for(self.name_style)}
        if self.titles and tool.title:
            shown["title"] = tool.title
        shown["description"] = tool.description
        shown["inputSchema"], output_schema = tool.schemas_for(self.name_style)
        if self.outputs and isinstance(output_schema, Mapping):
            wrap = self.objects_only and not is_object_schema(output_schema)
            shown["outputSchema"] = wrap_schema(dict(output_schema)) if wrap else output_schema
        if self.annotations and tool.annotations:
            shown["annotations"] = tool.annotations
        if self.titles and tool.meta:
            shown["_meta"] = tool.meta
        return shown
