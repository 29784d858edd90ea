"""A call's outcome as MCP content.

A plain string stays plain text; every other value is its JSON, as text for the model and as ``structuredContent``
for programs. The value is serialized once.
"""

from __future__ import annotations

from typing import Final

from gateway import jsonrpc
from gateway.errors import ToolFault
from gateway.model import NOTHING, Outcome

_NOTHING_TEXT: Final = "Done. This method returns nothing."


def text_block(text: str) -> bytes:
    return b'{"type":"text","text":%b}' % jsonrpc.encode(text)


def fault_members(fault: ToolFault) -> bytes:
    """Members of a tools/call result that failed, without braces."""
    return b'"content":[%b],"isError":true' % text_block(fault.message)


def value_members(outcome: Outcome, *, structured: bool, objects_only: bool) -> bytes:
    """Members of a tools/call result that succeeded, without braces.

    ``structured`` says whether the revision knows ``structuredContent``, ``objects_only`` that it must be an object;
    another value is then wrapped as ``{"result": …}`` where the tool has an output schema, which is wrapped alike.
    """
    value = outcome.value
    if value is NOTHING:
        return b'"content":[%b],"isError":false' % text_block(_NOTHING_TEXT)
    raw = jsonrpc.encode(value)
    plain = isinstance(value, str)
    text = raw if plain else jsonrpc.encode(raw.decode())
    members = b'"content":[{"type":"text","text":%b}],"isError":false' % text
    has_schema = outcome.tool.output_schema is not None
    if not structured or (plain and not has_schema):
        return members
    if objects_only and not isinstance(value, dict):
        if not has_schema:
            return members
        raw = b'{"result":%b}' % raw
    elif objects_only and has_schema and not is_object_schema(outcome.tool.output_schema):
        raw = b'{"result":%b}' % raw
    return b'%b,"structuredContent":%b' % (members, raw)


def is_object_schema(schema: object) -> bool:
    """Whether a schema's root says ``type: object``, as revisions up to 2025-11-25 demand of an output schema."""
    return isinstance(schema, dict) and schema.get("type") == "object"


def wrapped_schema(schema: dict[str, object]) -> dict[str, object]:
    """An output schema for ``{"result": value}``; its definitions move to the new root, where references look."""
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    whole: dict[str, object] = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    if "$defs" in schema:
        whole["$defs"] = schema["$defs"]
    return whole
