"""Shorten results for models: what the operator selects of them, and no more than has room in a context.

A cut keeps JSON whole: the first items of a list, the small members of an object, the beginning of a long text. What is
left out is counted, and said with the tool's own arguments that ask for less.
"""

import asyncio
import re
from bisect import bisect_right
from collections import Counter
from typing import Any, Final

from gateway import jsonrpc
from gateway.jsonrpc import Raw
from gateway.jsonrpc.bounds import value_cost
from gateway.model import NO_RESULT, Outcome, ResultFit, Tool
from gateway.settings.custom import parse_path
from gateway.telemetry.record import RECORD

_SHORTEST: Final = 64
"""Bytes below which nothing is cut, but left out whole: half a name or a date says something else."""
_DEEPEST: Final = 64
_NARROWS: Final = re.compile(
    r"(?i:after|before|count|cursor|fields|filter|limit|max|offset|page|propert|query|rows|since|size|skip|start|top)"
)
_NAMED: Final = 3


async def fit_result(outcome: Outcome, fit: ResultFit) -> Outcome:
    """Return an outcome with the part of its value that models are shown; what is cut is JSON, as :data:`Raw`."""
    value = outcome.value
    if outcome.fault is not None or outcome.input_request is not None or value is NO_RESULT:
        return outcome
    if type(value) is Raw and not (fit.select or fit.fields) and len(value) <= (fit.most or 0):
        return outcome
    return await asyncio.to_thread(_fit, outcome, fit)  # a large one would hold up all others


def _fit(outcome: Outcome, fit: ResultFit) -> Outcome:
    value = outcome.value
    if type(value) is Raw:  # without the memory for its parts, it is a text
        has_room = RECORD.get().memory.take(value_cost(bytes(value)), is_text=True)
        value = jsonrpc.decode(value) if has_room else str(value, "utf-8")
    if fit.select and (found := parse_path(fit.select).find(value, 1)):
        value = found[0][1]
    if fit.fields:
        value = [_with_fields(one, fit) for one in value] if isinstance(value, list) else _with_fields(value, fit)
    if fit.most is None or len(value.encode() if isinstance(value, str) else jsonrpc.encode(value)) <= fit.most:
        return Outcome(outcome.tool, value)
    missing = Counter[str]()
    if (shown := _cut(value, fit.most, missing)) is None:  # a number of many digits
        shown = _cut(jsonrpc.encode(value).decode(), fit.most, missing)
    return Outcome(outcome.tool, Raw(jsonrpc.encode(shown)), more=_more(missing, outcome.tool))


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
    kept: dict[str, Any] = {}
    for place, name in enumerate(sorted(sizes, key=lambda name: sizes[name])):
        heading = _size(name) + 2  # the colon, and a comma
        part = _cut(value[name], room // (len(sizes) - place) - heading, missing, depth + 1)
        if part is None:
            missing["member"] += 1
        else:
            kept[name] = part
            room -= heading + _size(part)
    return {name: kept[name] for name in value if name in kept}


def _size(value: Any) -> int:
    return len(jsonrpc.encode(value))
