"""Compare the tools of two catalogs. Each side is a catalog, a saved ``tools --json`` or REST listing, or a pin file.
Those of earlier releases have only the digest of a schema, so that a changed one is reported without details.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import islice, takewhile
from typing import Any, Final

from gateway import jsonrpc
from gateway.catalog.pins import Pin, PinError, parse_pins, pin_of, schema_digest
from gateway.jsonrpc import escape_pointer
from gateway.model import JsonObject, NameStyle, Schema, Structure, Tool, all_annotations
from gateway.text import excerpt, printable, shorten

_MOST: Final = 8
"""Differences of one schema that get a line each."""
_SHOWN: Final = 60
_MOST_LINES: Final = 20
_MOST_TEXT: Final = 600
_ABSENT: Final = object()
_COMPARED: Final = ("properties", "required")
_SEEN: Final = {"name", "title", "description", "arguments", "input_schema", "output_schema", "annotations", "schemas"}
"""Fields of a pin that clients see. All others decide who may call, and how the backend is called."""


@dataclass(frozen=True, slots=True)
class ToolSnapshot:
    """Hold what is known of a tool: its ``pin``, and ``inputs`` and ``outputs`` where the schemas are known in full.

    ``names`` are all known ones, MCP's first. With ``is_listed`` it is from a listing, whose pin has only the fields
    that clients see. With ``in_mcp_names`` it is from a pin file or a REST listing, which have only MCP's name.
    """

    name: str
    names: tuple[str, ...]
    pin: Pin
    inputs: JsonObject | None = None
    outputs: Schema | None = None
    method: str | None = None
    is_listed: bool = False
    in_mcp_names: bool = False


@dataclass(frozen=True, slots=True)
class CatalogDiff:
    """Hold the differences of two catalogs, sorted by name. False where there are none. ``changed`` has the names of
    changed tools, each with a line for each difference."""

    added: tuple[ToolSnapshot, ...]
    removed: tuple[ToolSnapshot, ...]
    changed: tuple[tuple[str, tuple[str, ...]], ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def compare_catalogs(before: Iterable[ToolSnapshot], after: Iterable[ToolSnapshot]) -> CatalogDiff:
    """Return the differences. Tools are matched by method, or by name where a side does not know the methods."""
    before, after = list(before), list(after)
    known = all(snapshot.method is not None for snapshot in (*before, *after))
    old = {str(snapshot.method if known else snapshot.name): snapshot for snapshot in before}
    new = {str(snapshot.method if known else _name_in(old, snapshot)): snapshot for snapshot in after}
    common = sorted(old.keys() & new.keys())
    changed = ((old[key].name, tuple(_differences(old[key], new[key]))) for key in common)
    return CatalogDiff(
        tuple(new[name] for name in sorted(new.keys() - old.keys())),
        tuple(old[name] for name in sorted(old.keys() - new.keys())),
        tuple((name, lines) for name, lines in changed if lines),
    )


def _name_in(old: Mapping[str, ToolSnapshot], snapshot: ToolSnapshot) -> str:
    """Return the name by which ``old`` has a tool: the published one, or another of its names."""
    return next((name for name in (snapshot.name, *snapshot.names) if name in old), snapshot.name)


def snapshots_of(tools: Iterable[Tool], name_style: NameStyle) -> list[ToolSnapshot]:
    return [
        ToolSnapshot(
            tool.name_for(name_style), tuple(map(tool.name_for, NameStyle)), pin_of(tool), tool.input_schema,
            tool.output_schema, tool.method,
        )
        for tool in tools
    ]  # fmt: skip


def read_snapshots(raw: bytes, origin: str) -> list[ToolSnapshot] | None:
    """Return the tools in a saved listing or a pin file, None for other content, such as a configuration. Raises
    :class:`PinError`, which names ``origin``, where the content is malformed."""
    try:
        content = jsonrpc.decode(raw)
    except ValueError:
        return None
    tools = content.get("tools") if isinstance(content, dict) else None
    if isinstance(tools, dict):
        pins = parse_pins(content, origin)
        return [_snapshot_of_pin(method, pin) for method, pin in pins.items()]
    if not isinstance(tools, list):
        return None
    try:
        return [_snapshot_of_entry(entry) for entry in tools]
    except (TypeError, KeyError, AttributeError):
        raise PinError(f"{origin}: not what `tools --json` prints") from None


def changes_since(pin: Pin, tool: Tool) -> tuple[str, ...]:
    """Return a line for each of the first differences of a tool from its pin."""
    found = _differences(_snapshot_of_pin(tool.method, pin), *snapshots_of([tool], NameStyle.MCP))
    return tuple(excerpt(line, _MOST_TEXT) for line in islice(found, _MOST_LINES))


def _snapshot_of_pin(method: str, pin: Pin) -> ToolSnapshot:
    """Return what a pin knows. A schema that is not the one of its digest was not reviewed."""
    digests = {"input": pin.input_schema, "output": pin.output_schema}
    reviewed = {name: one for name, one in pin.schemas.items() if isinstance(one, Mapping)}
    known = {name: one for name, one in reviewed.items() if schema_digest(one) == digests.get(name)}
    return ToolSnapshot(pin.name, (pin.name,), pin, known.get("input"), known.get("output"), method, in_mcp_names=True)


def _snapshot_of_entry(entry: Mapping[str, Any]) -> ToolSnapshot:
    name, inputs, outputs = str(entry["name"]), entry["inputSchema"], entry.get("outputSchema") or None
    title = str(entry.get("title", ""))
    pin = Pin(
        name, "" if title == name else title, str(entry.get("description", "")), list(inputs.get("properties", {})),
        schema_digest(inputs), None if outputs is None else schema_digest(outputs),
        all_annotations(entry.get("annotations", {}), entry.get("_meta", {})),
        scopes=[], auth_level="", structure="", endpoint=None, notification=False, closed=False,
    )  # fmt: skip
    return ToolSnapshot(name, (name,), pin, inputs, outputs, entry.get("method"), True, "method" in entry)


def _differences(old: ToolSnapshot, new: ToolSnapshot) -> Iterator[str]:
    names = ("name", old.names[0], new.names[0]) if old.in_mcp_names else ("name", old.name, new.name)
    one, two = old.pin, new.pin
    for label, before, after in (
        names, ("title", one.title, two.title), ("description", one.description, two.description)
    ):  # fmt: skip
        if before != after:
            yield f"{label}: {_text_change(before, after)}"
    yield from _argument_changes(old, new)
    if one.output_schema != two.output_schema:
        if one.output_schema is None or two.output_schema is None:
            yield "output schema: " + ("new" if one.output_schema is None else "gone")
        else:
            yield from _schema_changes("output schema", old.outputs, new.outputs)
    known = () if old.is_listed or new.is_listed else (field.name for field in fields(one) if field.name not in _SEEN)
    for name in ("annotations", *known):
        if getattr(one, name) != getattr(two, name):
            change = f"{_short(getattr(one, name))} → {_short(getattr(two, name))}"
            yield printable(f"{name.replace('_', ' ')}: {change}")


def _argument_changes(old: ToolSnapshot, new: ToolSnapshot) -> Iterator[str]:
    before, after = old.pin.arguments, new.pin.arguments
    if old.pin.input_schema == new.pin.input_schema:
        if before != after and {old.pin.structure, new.pin.structure} == {Structure.BY_POSITION}:
            yield printable(f"order of arguments: {', '.join(before)} → {', '.join(after)}")
        return
    yield from (printable(f"argument {name}: new") for name in sorted({*after} - {*before}))
    yield from (printable(f"argument {name}: gone") for name in sorted({*before} - {*after}))
    if old.inputs is None or new.inputs is None:
        if {*before} == {*after}:
            yield "input schema"
        return
    required = set(old.inputs.get("required", ())), set(new.inputs.get("required", ()))
    for name in sorted({*before} & {*after}):
        if (name in required[0]) != (name in required[1]):
            yield printable(f"argument {name}: " + ("required now" if name in required[1] else "optional now"))
        described = (of.get("properties", {}).get(name) for of in (old.inputs, new.inputs))
        yield from _schema_changes(f"argument {name}", *described)
    rest = ({key: one for key, one in of.items() if key not in _COMPARED} for of in (old.inputs, new.inputs))
    yield from _schema_changes("input schema", *rest)


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
    """Yield pointer, old and new value where two values differ, as deep as both are objects."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in [*before, *(name for name in after if name not in before)]:
            one, two = before.get(name, _ABSENT), after.get(name, _ABSENT)
            yield from _members(one, two, f"{pointer}/{escape_pointer(name)}")
    elif before is _ABSENT or after is _ABSENT or jsonrpc.encode_canonical(before) != jsonrpc.encode_canonical(after):
        yield pointer, before, after


def _text_change(before: str, after: str) -> str:
    """Return an excerpt of both texts that begins shortly before their first difference."""
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    start = max(0, common - _SHOWN // 3) if max(len(before), len(after)) > _SHOWN else 0
    return f"{_short(before, start)} → {_short(after, start)}"


def _short(value: Any, start: int = 0) -> str:
    if value is _ABSENT:
        return "absent"
    if isinstance(value, str):
        cut = ("…" if start else "") + value[start : start + _SHOWN] + ("…" if len(value) > start + _SHOWN else "")
        return jsonrpc.encode(cut).decode()
    return shorten(jsonrpc.encode(value).decode(), _SHOWN)
