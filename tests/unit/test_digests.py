"""What a catalog's digest covers: every field of every tool, those to come included."""

from __future__ import annotations

from dataclasses import Field, dataclass, fields, replace
from enum import Enum
from typing import Any

import pytest

from gateway.model import Binding, Catalog, HeaderParameter, NameStyle, QuarantinedMethod, Structure, Tool
from tests.each import each

HEADER = HeaderParameter("Mcp-Param-A", ("a",), "string")
TOOL = Tool("t", "m", "Does it.", {"type": "object"}, Binding("m", Structure.BY_NAME), headers=(HEADER,))


def other(field: Field[Any], value: Any) -> Any:
    """Another value for a field, by the type of the one it has."""
    if field.name == "names":
        return {NameStyle.LLM: "other", NameStyle.MCP: "t"}
    if isinstance(value, Enum):
        return next(member for member in type(value) if member is not value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, dict):
        return {**value, "x": 1}
    if isinstance(value, tuple | frozenset):
        return type(value)([HEADER] * 2 if field.name == "headers" else ["x"])
    return {"float": 1.5}.get(str(field.type).split(" ")[0], "x")


@each("field", [field for field in fields(Tool) if field.name != "binding"])
def test_every_field_of_a_tool_changes_its_digest(field: Field[Any]) -> None:
    changed = replace(TOOL, **{field.name: other(field, getattr(TOOL, field.name))})
    assert changed != TOOL
    assert changed.digest != TOOL.digest


@each("field", fields(Binding))
def test_every_field_of_a_binding_changes_the_digest_of_its_tool(field: Field[Any]) -> None:
    binding = replace(TOOL.binding, **{field.name: other(field, getattr(TOOL.binding, field.name))})
    assert binding != TOOL.binding
    assert replace(TOOL, binding=binding).digest != TOOL.digest


@dataclass(frozen=True)
class ColoredTool(Tool):
    color: str = "red"


@dataclass(frozen=True, slots=True)
class QueuedBinding(Binding):
    queue: str = "slow"


def test_a_field_that_is_new_is_part_of_the_digest() -> None:
    red = ColoredTool("t", "m", "Does it.", {}, Binding("m", Structure.BY_NAME))
    slow = replace(TOOL, binding=QueuedBinding("m", Structure.BY_NAME))
    assert red.digest != replace(red, color="blue").digest
    assert slow.digest != replace(slow, binding=replace(slow.binding, queue="fast")).digest


def test_equal_tools_have_equal_digests_whatever_the_order_of_members() -> None:
    one = replace(TOOL, meta={"a": 1, "b": 2}, scopes=frozenset(("r", "w")))
    two = replace(TOOL, meta={"b": 2, "a": 1}, scopes=frozenset(("w", "r")))
    assert one.digest == two.digest


def test_what_json_cannot_say_has_no_digest() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        _ = replace(TOOL, title="\ud800").digest


def test_a_catalog_has_the_digest_of_its_tools_and_of_nothing_else() -> None:
    one = Catalog((TOOL,), "openrpc")
    assert replace(one, dialect="kodi", quarantined=(QuarantinedMethod("q", "r", "x"),)).digest == one.digest
    assert replace(one, tools=()).digest != one.digest
    assert replace(one, tools=(TOOL, replace(TOOL, name="u"))).digest != one.digest
