"""Turn a call's outcome into MCP content.

A string becomes a text block. Every other value becomes its JSON, as text for the model and as ``structuredContent``
for programs; it is serialized once. Some tools return content blocks already: these are checked, and a kind that the
client's revision lacks becomes text. A result may be shortened for models first: a cut keeps JSON whole, counts what is
left out, and names the tool's own arguments that ask for less.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Final, Literal

from msgspec import Struct

from gateway import jsonrpc
from gateway.errors import BadBackendAnswer, ResultMismatch
from gateway.jsonrpc import Raw
from gateway.jsonrpc.bounds import value_cost
from gateway.model import NO_RESULT, NameStyle, Outcome, ResultFit, Tool
from gateway.settings.custom import parse_path
from gateway.telemetry.record import RECORD
from gateway.text import truncate

_NOTHING_TEXT: Final = "Done. This method returns nothing."
_MAX_BLOCKS: Final = 1000  # each is checked and copied


RETRY_AFTER: Final = "retryAfter"
"""Member of ``_meta``: the seconds after which a call that failed may be made again."""
TRUNCATED: Final = "truncated"
"""Member of ``_meta``: the result was cut."""
MENDED: Final = "jsonrpc-mcp-gateway/mended"
"""Member of ``_meta``: the service's answer was no sound JSON; words for what was mended."""


def call_meta(outcome: Outcome) -> dict[str, Any]:
    """Return what ``_meta`` of the result says of a call that failed, or whose result was cut or mended."""
    wait = None if outcome.fault is None else outcome.fault.retry_after
    meta = {TRUNCATED: True} if outcome.more else {} if wait is None else {RETRY_AFTER: wait}
    return meta | mended_meta()


def mended_meta() -> dict[str, Any]:
    """Return what ``_meta`` says of the answer to this request's call, ``{}`` where nothing was mended."""
    mended = RECORD.get().mended
    return {} if mended is None else {MENDED: list(mended.places)}


def call_result(outcome: Outcome, form: ToolProjector, blocks: frozenset[str]) -> dict[str, Any]:
    """Return ``content``, ``isError`` and, where there is one, ``structuredContent`` of a ``tools/call`` result, for a
    revision with the output schemas of ``form`` and these content ``blocks``. Parts may be
    :data:`~gateway.jsonrpc.Raw`."""
    if outcome.fault is not None:
        return _text_result(outcome.fault.message, failed=True)
    if outcome.value is NO_RESULT:
        return _text_result(_NOTHING_TEXT)
    if outcome.more:
        text = str(outcome.value, "utf-8")
        return {"content": [{"type": "text", "text": part} for part in (text, outcome.more)], "isError": False}
    if not outcome.tool.returns_blocks:
        return _value_result(outcome.tool, outcome.value, form)
    try:
        return _block_result(outcome.tool, outcome.value, form, blocks)
    except BadBackendAnswer as fault:
        RECORD.get().note_outcome(fault.slug)
        return _text_result(fault.message, failed=True)


def _text_result(text: str, *, failed: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": failed}


def _value_result(tool: Tool, value: Any, form: ToolProjector) -> dict[str, Any]:
    if isinstance(value, str):
        shown = _text_result(value)
        return shown if tool.published_output is None else shown | _structured_content(tool, value, form)
    if type(value) is not Raw:
        value = Raw(jsonrpc.encode(value))  # once, for the text and for structuredContent
    text = str(value, "utf-8")
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": False}
    if form.outputs and not form.objects_only:
        result["structuredContent"] = value
        return result
    return result | _structured_content(tool, value, form, is_object=text.startswith("{"))


def _structured_content(tool: Tool, value: Any, form: ToolProjector, *, is_object: bool = False) -> dict[str, Any]:
    """Return the member ``structuredContent``, or ``{}`` where there is none. ``value`` may be its JSON. Where the
    revision requires an object, another value is wrapped as its output schema is, and left out without one."""
    if not form.outputs:
        return {}
    declared = tool.published_output
    if form.objects_only and declared is not None and not is_object_schema(declared):
        return {"structuredContent": {"result": value}}
    if form.objects_only and not is_object:
        return {}
    return {"structuredContent": value}


# What models see of a large result: the first items of a list, the small members of an object, the beginning of a text.
_SHORTEST: Final = 64
"""Bytes below which nothing is cut, but left out whole: half a name or a date says something else."""
_DEEPEST: Final = 24
"""Levels down to which a value is cut. At each of them, what is within is measured again."""
_BESIDE: Final = 512
"""Bytes for each member beyond those that fit whole."""
_NARROWS: Final = re.compile(
    r"(?:(?<![A-Za-z])|(?=[A-Z]))"  # the beginning of a word, as account has none
    r"(?i:after|before|count|cursor|fields|filter|limit|max|offset|page|propert|query|rows|since|size|skip|start|top)"
)
_NAMED: Final = 3


async def fit_result(outcome: Outcome, fit: ResultFit) -> Outcome:
    """Return an outcome with the part of its value that models are shown; what is cut is JSON, as :data:`Raw`."""
    value, fault = outcome.value, outcome.fault
    if isinstance(fault, ResultMismatch) and fit.most is not None:
        fault.message = truncate(fault.message, fit.most)  # it quotes the result
    if fault is not None or outcome.input_request is not None or value is NO_RESULT:
        return outcome
    if type(value) is Raw and not (fit.select or fit.fields) and len(value) <= (fit.most or 0):
        return outcome
    if type(value) is Raw and not RECORD.get().memory.take(value_cost(bytes(value)), is_text=True):
        value = str(value, "utf-8")  # there is no memory for its parts
    return await asyncio.to_thread(_fit, outcome.tool, value, fit)  # a large one would hold up all others


def _fit(tool: Tool, value: Any, fit: ResultFit) -> Outcome:
    value = jsonrpc.decode(value) if type(value) is Raw else value
    if fit.select and (found := parse_path(fit.select).find(value, 1)):
        value = found[0][1]
    if fit.fields:
        value = [_with_fields(one, fit) for one in value] if isinstance(value, list) else _with_fields(value, fit)
    if fit.most is None or len(value.encode() if isinstance(value, str) else jsonrpc.encode(value)) <= fit.most:
        return Outcome(tool, value)
    missing = Counter[str]()
    if (shown := _cut(value, fit.most, missing)) is None:  # a number of many digits
        shown = _cut(jsonrpc.encode(value).decode(), fit.most, missing)
    return Outcome(tool, Raw(jsonrpc.encode(shown)), more=_more(missing, tool))


def _with_fields(value: Any, fit: ResultFit) -> Any:
    return {name: value[name] for name in fit.fields if name in value} if isinstance(value, dict) else value


def _more(missing: Counter[str], tool: Tool) -> str:
    """Return what is left out, and which arguments of the tool ask for less."""
    counts = ", ".join(f"{count} more {what}{'s' * (count > 1)}" for what, count in missing.items() if count)
    arguments = [name for name in tool.input_schema.get("properties", {}) if _NARROWS.search(name)][:_NAMED]
    return f"{counts}: narrow with {' or '.join(arguments)}" if arguments else counts


def _cut(value: Any, room: int, missing: Counter[str], depth: int = 1) -> Any:
    """Return what of a value has ``room``, in bytes of JSON; None where no part has. Count what is ``missing``."""
    if _size(value) <= room:
        return value
    if room < _SHORTEST or depth > _DEEPEST:
        return None
    if isinstance(value, str):
        length = bisect_right(range(1, room), room, key=lambda length: _size(value[:length]))
        missing["character"] += len(value) - length
        return value[:length]
    if isinstance(value, list):
        kept = []
        for item in value:
            room -= _size(item) + 1  # the comma
            if room < 1:
                break
            kept.append(item)
        if not kept and (part := _cut(value[0], room + _size(value[0]) - 1, missing, depth + 1)) is not None:
            kept = [part]
        missing["item"] += len(value) - len(kept)
        return kept
    return _cut_members(value, room - 1, missing, depth) if isinstance(value, dict) else None


def _cut_members(value: dict[str, Any], room: int, missing: Counter[str], depth: int) -> dict[str, Any]:
    """Return the small members of an object whole, and of the others what the room that these leave has."""
    sizes = {name: _size(name) + 2 + _size(member) for name, member in value.items()}
    order = sorted(sizes, key=lambda name: sizes[name])
    whole = bisect_right(list(accumulate(sizes[name] for name in order)), room)
    order = order[: max(whole, room // _BESIDE, 2)]  # shared among more, the room would be too little for each
    kept: dict[str, Any] = {}
    for place, name in enumerate(order):
        heading = _size(name) + 2  # the colon, and a comma
        part = _cut(value[name], room // (len(order) - place) - heading, missing, depth + 1)
        if part is not None:
            kept[name] = part
            room -= heading + _size(part)
    missing["member"] += len(value) - len(kept)
    return {name: kept[name] for name in value if name in kept}


def _size(value: Any) -> int:
    return len(jsonrpc.encode(value))


def _block_result(tool: Tool, value: Any, form: ToolProjector, known: frozenset[str]) -> dict[str, Any]:
    """Return the result of a tool that returns content blocks. Raise :class:`BadBackendAnswer`."""
    given: Mapping[str, Any] = value if isinstance(value, dict) else {"content": value}
    blocks = given.get("content")
    if not isinstance(blocks, list) or len(blocks) > _MAX_BLOCKS:
        raise BadBackendAnswer("The backend's result is declared as MCP content but is not MCP content")
    shown = [_block(block, position, known) for position, block in enumerate(blocks)]
    result = {"content": shown, "isError": given.get("isError") is True}
    if "structuredContent" not in given:
        return result
    structured = given["structuredContent"]
    return result | _structured_content(tool, structured, form, is_object=isinstance(structured, dict))


def _block(block: Any, position: int, known: frozenset[str]) -> Mapping[str, Any]:
    kind = block.get("type") if isinstance(block, dict) else None
    is_good = _BLOCKS.get(kind) if isinstance(kind, str) else None
    if is_good is None or not is_good(block):
        raise BadBackendAnswer(f"The backend's content block {position} is not one that MCP knows")
    if kind in known:  # clients refuse a result with a block that their revision does not know
        shown = _readable(block)
        return {**shown, "resource": _readable(block["resource"])} if kind == "resource" else shown
    return {"type": "text", "text": _block_as_text(block)}


def _block_as_text(block: Mapping[str, Any]) -> str:
    if block["type"] == "resource_link":
        return f"{block['name']}: {block['uri']}"
    return f"[{block['type']} of type {block['mimeType']}, which this protocol revision cannot carry]"


def _has_strings(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda block: all(isinstance(block.get(name), str) for name in names)


def _is_embedded(block: Mapping[str, Any]) -> bool:
    resource = block.get("resource")
    if not isinstance(resource, dict) or not _has_strings("uri")(resource):
        return False
    return _has_strings("text")(resource) or _has_strings("blob")(resource)


def _readable(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy without optional members of a wrong type: clients would refuse the whole answer for one."""
    return {key: value for key, value in block.items() if key not in _OPTIONAL or _is_of(_OPTIONAL[key], value)}


def _is_of(kind: Any, value: Any) -> bool:
    try:
        jsonrpc.read_as(kind, value)
    except ValueError:
        return False
    return True


class _Annotations(Struct, rename="camel"):
    audience: tuple[Literal["user", "assistant"], ...] = ()
    priority: float = 0.0
    last_modified: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.priority <= 1:
            raise ValueError("a priority is from 0 to 1")


class _Icon(Struct, rename="camel"):
    src: str
    mime_type: str = ""
    sizes: tuple[str, ...] = ()
    theme: Literal["light", "dark"] = "light"


_OPTIONAL: Final[Mapping[str, Any]] = {
    "_meta": dict,
    "annotations": _Annotations,
    "description": str,
    "icons": list[_Icon],
    "mimeType": str,
    "size": int,
    "title": str,
}
_BLOCKS: Final[dict[str, Callable[[Mapping[str, Any]], bool]]] = {
    "text": _has_strings("text"),
    "image": _has_strings("data", "mimeType"),
    "audio": _has_strings("data", "mimeType"),
    "resource": _is_embedded,
    "resource_link": _has_strings("uri", "name"),
}
BLOCKS_2024_11: Final = frozenset(("text", "image", "resource"))
BLOCKS_2025_03: Final = BLOCKS_2024_11 | {"audio"}
BLOCKS_2025_06: Final = BLOCKS_2025_03 | {"resource_link"}


def is_object_schema(schema: object) -> bool:
    """Return whether a schema's root is ``type: object``. Revisions up to 2025-11-25 require it of an output schema."""
    return isinstance(schema, dict) and schema.get("type") == "object"


def wrap_schema(schema: dict[str, object]) -> dict[str, object]:
    """Return the output schema for ``{"result": value}``. ``$defs`` move to the new root, where ``$ref`` looks."""
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    wrapped: dict[str, object] = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    if "$defs" in schema:
        wrapped["$defs"] = schema["$defs"]
    return wrapped


@dataclass(frozen=True, slots=True)
class ToolProjector:
    """Project tools to the members that a revision knows (``Tool`` in its schema.ts). Without ``outputs`` results have
    no ``structuredContent`` either. ``objects_only`` wraps an output schema whose root is not an object, and results
    alike. Revisions with an equal ``key`` share cached pages."""

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
