"""What stays as it is from one version to the next: knobs, exit codes, fields of the log, metrics, names of tools, the
pin file, the audit. ``released.txt`` has them as the last release had them; docs/upgrading.md says what is promised.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from gateway import credentials
from gateway.catalog.names import assign_names, publish_names
from gateway.catalog.pins import Pin, schema_digest
from gateway.cli import options
from gateway.cli.config_reference import default_of
from gateway.discovery.tool_search import SEARCH_CATALOG
from gateway.listing.reader import DIALECTS
from gateway.model import NameStyle
from gateway.settings.paths import documents, knobs
from gateway.telemetry import families
from gateway.telemetry.events import FIELDS
from gateway.telemetry.logs import RequestLine

ROOT: Final = Path(__file__).parents[2]
RELEASED: Final = Path(__file__).with_name("released.txt")
_HEAD: Final = "# What version {} promised: python -m tests.surfaces writes it. Nobody edits it.\n"
_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "minLength", "maxLength", "minItems", "maxItems")
_METHODS: Final = (
    "books.get", "books/get", "core_node.create", "eth_getBalance", "system.listMethods", "Player.Open", "über.all",
    "a b", "-", "x" * 70, "y." * 70,
)  # fmt: skip
_ARGUMENTS: Final = ("plain", "$filter", "Transaction hash", "über", "a.b")
_SCHEMA: Final = {
    "type": "object",
    "required": ["b", "a"],
    "properties": {"a": {"type": "integer"}, "b": {"enum": [1]}},
}


class Promise(NamedTuple):
    """Name one thing that users rely on, and the surface that it is of."""

    surface: str
    name: str


Surfaces = Mapping[Promise, str]
"""What each promise is worth: the default of a knob, the labels of a metric."""


def current() -> dict[Promise, str]:
    """Return all promises as the code keeps them, sorted."""
    made = (_knobs, _exit_codes, _log_fields, _metrics, _tool_names, _pin_fields, _audit_members)
    return dict(
        sorted((Promise(of.__name__[1:].replace("_", " "), name), value) for of in made for name, value in of())
    )


def _knobs() -> Iterator[tuple[str, str]]:
    """Yield each knob, and each member of a document, with type, default and bounds; and each word that it may be."""
    found = [*knobs()]
    found += [
        (f"{path}.{one.alias or name}", one) for path, model in documents() for name, one in model.model_fields.items()
    ]
    for path, field in found:
        words = _words(path, field)
        default = "required" if field.is_required() else json.dumps(default_of(field), ensure_ascii=False, default=str)
        yield path, " ".join(["/".join(_types(field)), default, *_bounds(field)])
        yield from ((f"{path}: {word}", "") for word in words)


def _types(field: FieldInfo) -> list[str]:
    found = [part["type"] for part in _schemas(field) if "type" in part]
    return sorted({kind for kinds in found for kind in (kinds if isinstance(kinds, list) else [kinds])}) or ["any"]


def _bounds(field: FieldInfo) -> list[str]:
    return [f"{name} {part[name]:g}" for part in _schemas(field) for name in _BOUNDS if name in part]


def _words(path: str, field: FieldInfo) -> list[str]:
    """Return the words that a knob may be, of the registries too, which no type has."""
    if path.endswith("credentials.mode"):
        return [credentials.AUTO, *credentials.MODES]
    if path == "backend.listing.dialect":
        return ["auto", *DIALECTS]
    return [
        str(word) for part in _schemas(field) for word in part.get("enum", [part["const"]] if "const" in part else [])
    ]


def _schemas(field: FieldInfo) -> Iterator[dict[str, Any]]:
    """Yield the JSON Schema of a knob, or each of those that it may match."""
    whole = TypeAdapter(Annotated[field.annotation, None, *field.metadata]).json_schema()
    for part in (whole, *whole.get("anyOf", ())):
        yield whole["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part


def _exit_codes() -> Iterator[tuple[str, str]]:
    yield "exit code 0", "success"
    for meaning, code in vars(options).items():
        if isinstance(code, int) and meaning.isupper():
            yield f"exit code {code}", meaning.lower()


def _log_fields() -> Iterator[tuple[str, str]]:
    """Yield the fields of a request's line, in their places, and those of the other events."""
    yield from ((name, "") for name in FIELDS)
    yield from ((name, f"of a request, {place}") for place, name in enumerate(RequestLine.__struct_fields__))


def _metrics() -> Iterator[tuple[str, str]]:
    for family in families.FAMILIES:
        yield family.name, f"{family.kind} {' '.join(family.labels)}".strip()


def _tool_names() -> Iterator[tuple[str, str]]:
    """Yield what some methods and arguments are called, and the tools of tool search."""
    for method, names in assign_names(_METHODS, {}).items():
        yield method, f"{names[NameStyle.MCP]} {names[NameStyle.LLM]}"
    _, renamed = publish_names({"type": "object", "properties": {name: {} for name in _ARGUMENTS}})
    yield from ((f"argument {own}", name) for name, own in renamed.items())
    yield from ((tool.name, "of tool search") for tool in SEARCH_CATALOG.tools)


def _pin_fields() -> Iterator[tuple[str, str]]:
    yield from ((field.name, getattr(field.type, "__name__", str(field.type))) for field in fields(Pin))
    yield "digest of a schema", schema_digest(_SCHEMA)


def _audit_members() -> Iterator[tuple[str, str]]:
    """Yield each member of a line, with every schema that the published one has for it."""
    schema = json.loads((ROOT / "config" / "audit.schema.json").read_text(encoding="utf-8"))
    found: dict[str, list[str]] = {}
    for name, member in _members(schema):
        text = json.dumps({key: value for key, value in member.items() if key != "description"}, sort_keys=True)
        found.setdefault(name, []).append(text)
    yield from ((name, " ".join(sorted(set(texts)))) for name, texts in found.items())


def _members(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for key, child in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if key == "properties":
            yield from child.items()
        yield from _members(child)


def text_of(version: str, promises: Surfaces) -> str:
    """Return the promises of a version as a text: a line for each, so that two branches seldom change the same one."""
    lines = ["\t".join((*promise, value)).rstrip("\t") + "\n" for promise, value in promises.items()]
    return _HEAD.format(version) + "".join(lines)


def read(text: str) -> tuple[str, dict[Promise, str]]:
    """Return the version that such a text is of, and what it promised."""
    head, *lines = text.splitlines()
    rows = (line.split("\t") for line in lines)
    return head.split()[3], {Promise(row[0], row[1]): "".join(row[2:]) for row in rows}
