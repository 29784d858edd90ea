"""What became of the tools between two moments: added, removed, and changed in what.

A moment is a catalog, a saved ``tools --json`` or REST listing, or a pin file. Pins have schemas as digests alone, so
that a change of one is told without its details.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import takewhile
from typing import Any, Final

from gateway import jsonrpc
from gateway.catalog.pins import Pin, PinError, digest, pin_of, pins_in
from gateway.json_pointer import escape
from gateway.model import JsonObject, Naming, Schema, Structure, Tool, all_annotations
from gateway.text import printable

_MOST: Final = 8
"""Differences of one schema that are told one by one."""
_SHOWN: Final = 60
_ABSENT: Final = object()
_SEEN: Final = {"name", "title", "description", "arguments", "input_schema", "output_schema", "annotations"}
"""What of a pin clients see. All else of it is handling."""


@dataclass(frozen=True, slots=True)
class Look:
    """What clients see of a tool. What is not known of it is None, and not compared; a schema may be known by its
    digest alone. ``order`` are the arguments of a method that is called by position; ``handling`` decides who may call
    and what becomes of a call.

    ``name`` is the one that is shown; ``names`` are all that are known, MCP's first. What is ``in_mcp_names``, a pin or
    a listing of REST's, tells nothing of which name models are shown.
    """

    name: str
    names: tuple[str, ...]
    title: str
    description: str
    arguments: frozenset[str]
    input_digest: str
    output_digest: str | None
    annotations: JsonObject
    inputs: JsonObject | None = None
    outputs: Schema | None = None
    handling: JsonObject | None = None
    order: tuple[str, ...] | None = None
    method: str | None = None
    in_mcp_names: bool = False


@dataclass(frozen=True, slots=True)
class Changed:
    """A tool that differs; ``how`` has a line for each difference."""

    name: str
    how: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Diff:
    """Falsy where nothing differs. All are sorted by name."""

    added: tuple[Look, ...]
    removed: tuple[Look, ...]
    changed: tuple[Changed, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def diff(before: Iterable[Look], after: Iterable[Look]) -> Diff:
    """Tools are the same by their method, or by name where a side does not know the methods."""
    before, after = list(before), list(after)
    known = all(look.method is not None for look in (*before, *after))
    old = {str(look.method if known else look.name): look for look in before}
    new = {str(look.method if known else _name_in(old, look)): look for look in after}
    common = sorted(old.keys() & new.keys())
    changed = (Changed(old[key].name, tuple(_differences(old[key], new[key]))) for key in common)
    return Diff(
        tuple(new[name] for name in sorted(new.keys() - old.keys())),
        tuple(old[name] for name in sorted(old.keys() - new.keys())),
        tuple(change for change in changed if change.how),
    )


def _name_in(old: Mapping[str, Look], look: Look) -> str:
    """The name that a tool had before, be it the one that is shown now or another of its names."""
    return next((name for name in (look.name, *look.names) if name in old), look.name)


def looks_of(tools: Iterable[Tool], naming: Naming) -> list[Look]:
    """How tools look to those who are shown these names."""
    looks = []
    for tool in tools:
        pin = pin_of(tool)
        names = tuple(tool.named(one) for one in Naming)
        looks.append(
            Look(
                tool.named(naming), names, tool.title, tool.description, frozenset(pin.arguments),
                pin.input_schema, pin.output_schema, pin.annotations, tool.input_schema, tool.output_schema,
                _handling(pin), _order(pin), tool.method,
            )
        )  # fmt: skip
    return looks


def saved(raw: bytes, origin: str) -> list[Look] | None:
    """The tools in a saved listing or a pin file; None where it is neither, such as a configuration.

    Raises :class:`PinError` that names ``origin`` for one that is broken.
    """
    try:
        content = jsonrpc.decode(raw)
    except ValueError:
        return None
    tools = content.get("tools") if isinstance(content, dict) else None
    if isinstance(tools, dict):
        return [_look_of_pin(method, pin) for method, pin in pins_in(content, origin).items()]
    if not isinstance(tools, list):
        return None
    try:
        return [_look_of_entry(entry) for entry in tools]
    except (TypeError, KeyError, AttributeError):
        raise PinError(f"{origin}: not what `tools --json` prints") from None


def _look_of_pin(method: str, pin: Pin) -> Look:
    return Look(
        pin.name, (pin.name,), pin.title, pin.description, frozenset(pin.arguments), pin.input_schema,
        pin.output_schema, pin.annotations, handling=_handling(pin), order=_order(pin), method=method,
        in_mcp_names=True,
    )  # fmt: skip


def _handling(pin: Pin) -> JsonObject:
    names = (field.name for field in fields(pin) if field.name not in _SEEN)
    return {name.replace("_", " "): getattr(pin, name) for name in names}


def _order(pin: Pin) -> tuple[str, ...] | None:
    return tuple(pin.arguments) if pin.structure == Structure.BY_POSITION else None


def _look_of_entry(entry: Mapping[str, Any]) -> Look:
    name, inputs, outputs = str(entry["name"]), entry["inputSchema"], entry.get("outputSchema") or None
    title, description = str(entry.get("title", "")), str(entry.get("description", ""))
    return Look(
        name, (name,), "" if title == name else title, description, frozenset(inputs.get("properties", {})),
        digest(inputs), None if outputs is None else digest(outputs),
        all_annotations(entry.get("annotations", {}), entry.get("_meta", {})), inputs, outputs,
        method=entry.get("method"), in_mcp_names="method" in entry,
    )  # fmt: skip


def _differences(old: Look, new: Look) -> Iterator[str]:
    names = ("name", old.names[0], new.names[0]) if old.in_mcp_names else ("name", old.name, new.name)
    for label, before, after in (
        names, ("title", old.title, new.title), ("description", old.description, new.description)
    ):  # fmt: skip
        if before != after:
            yield f"{label}: {_text_change(before, after)}"
    yield from _argument_changes(old, new)
    if old.output_digest != new.output_digest:
        if old.output_digest is None or new.output_digest is None:
            yield "output schema: " + ("new" if old.output_digest is None else "gone")
        else:
            yield from _schema_changes("output schema", old.outputs, new.outputs)
    yield from _member_changes({"annotations": old.annotations}, {"annotations": new.annotations})
    if old.handling is not None and new.handling is not None:
        yield from _member_changes(old.handling, new.handling)


def _member_changes(before: JsonObject, after: JsonObject) -> Iterator[str]:
    for label, one in before.items():
        if one != after[label]:
            yield printable(f"{label}: {_short(one)} → {_short(after[label])}")


def _argument_changes(old: Look, new: Look) -> Iterator[str]:
    if old.input_digest == new.input_digest:
        if old.order is not None and new.order is not None and old.order != new.order:
            yield f"order of arguments: {', '.join(old.order)} → {', '.join(new.order)}"
        return
    yield from (printable(f"argument {name}: new") for name in sorted(new.arguments - old.arguments))
    yield from (printable(f"argument {name}: gone") for name in sorted(old.arguments - new.arguments))
    if old.inputs is None or new.inputs is None:
        if old.arguments == new.arguments:
            yield "input schema"
        return
    required = set(old.inputs.get("required", ())), set(new.inputs.get("required", ()))
    for name in sorted(old.arguments & new.arguments):
        if (name in required[0]) != (name in required[1]):
            yield printable(f"argument {name}: " + ("required now" if name in required[1] else "optional now"))
        before, after = old.inputs["properties"][name], new.inputs["properties"][name]
        yield from _schema_changes(f"argument {name}", before, after)
    rest = ("properties", "required")
    yield from _schema_changes(
        "input schema",
        {keyword: value for keyword, value in old.inputs.items() if keyword not in rest},
        {keyword: value for keyword, value in new.inputs.items() if keyword not in rest},
    )


def _schema_changes(label: str, before: Schema | None, after: Schema | None) -> Iterator[str]:
    if before is None or after is None:
        yield label
        return
    found = list(_members(before, after, ""))
    for pointer, one, two in found[:_MOST]:
        both = isinstance(one, str) and isinstance(two, str)
        change = _text_change(one, two) if both else f"{_short(one)} → {_short(two)}"
        yield printable(f"{label}: {pointer[1:]} {change}" if pointer else f"{label}: {change}")
    if len(found) > _MOST:
        yield f"{label}: {len(found) - _MOST} more"


def _members(before: Any, after: Any, pointer: str) -> Iterator[tuple[str, Any, Any]]:
    """Where two values differ, as deep as both have members."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in [*before, *(name for name in after if name not in before)]:
            yield from _members(before.get(name, _ABSENT), after.get(name, _ABSENT), f"{pointer}/{escape(name)}")
    elif before is _ABSENT or after is _ABSENT or jsonrpc.canonical(before) != jsonrpc.canonical(after):
        yield pointer, before, after


def _text_change(before: str, after: str) -> str:
    """Both texts, from shortly before where they part."""
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    start = max(0, common - _SHOWN // 3) if max(len(before), len(after)) > _SHOWN else 0
    return f"{_short(before, start)} → {_short(after, start)}"


def _short(value: Any, start: int = 0) -> str:
    if value is _ABSENT:
        return "absent"
    if isinstance(value, str):
        cut = ("…" if start else "") + value[start : start + _SHOWN] + ("…" if len(value) > start + _SHOWN else "")
        return jsonrpc.encode(cut).decode()
    text = jsonrpc.encode(value).decode()
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
