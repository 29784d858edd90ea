"""Read a listing from a file, for services that have none: our own short YAML (docs/listings.md), or a saved answer in
another dialect, with or without its JSON-RPC envelope.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml

from gateway.backend.source import with_lists
from gateway.concurrency.threads import read_apart
from gateway.concurrency.turns import run_in_thread
from gateway.listing import describe, drupal, introspection, jsonrpc_mcp, kodi, mopidy, openrpc, plain, smd, truenas
from gateway.listing.dialect import DialectInfo, ListingSource, NoListing, Step
from gateway.listing.documents import inline_documents, read_documents, read_file
from gateway.model import Listing, MessageForm, Method, Parameter, ServiceInfo, SourceAnswer, Structure
from gateway.text import did_you_mean

_FAULTS_SHOWN: Final = 10
_ENVELOPE: Final = {"jsonrpc", "id", "result", "error"}
_SCHEMA: Final = {"type": ["object", "boolean"]}
_ENTRY: Final = {"type": ["object", "null"], "additionalProperties": False}

FILE_SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Methods of a JSON-RPC service",
    "type": "object",
    "required": ["methods"],
    "additionalProperties": False,
    "properties": {
        "title": {"type": "string"}, "version": {"type": "string"}, "description": {"type": "string"},
        "methods": {
            "type": "object",
            "propertyNames": {"type": "string", "minLength": 1, "maxLength": 512},
            "additionalProperties": _ENTRY | {
                "properties": {
                    "title": {"type": "string"}, "description": {"type": "string"},
                    "structure": {"enum": ["by-name", "by-position", "by-name-in-list"]},
                    "params": {
                        "type": ["object", "null"],
                        "propertyNames": {"type": "string"},
                        "additionalProperties": _ENTRY | {
                            "properties": {
                                "schema": _SCHEMA, "required": {"type": "boolean"}, "description": {"type": "string"},
                            },
                        },
                    },
                    "input_schema": {"type": "object"}, "result": _SCHEMA, "annotations": {"type": "object"},
                    "deprecated": {"type": "boolean"}, "endpoint": {"type": "string", "pattern": "^/(?!/)"},
                },
            },
        },
    },
}  # fmt: skip

# Tried in this order: the more a form demands of a document, the earlier it stands.
_SAVED: Final[tuple[tuple[Callable[[Any], bool], Callable[[Any], Listing]], ...]] = (
    (openrpc.recognizes, openrpc.parse_listing),
    (jsonrpc_mcp.recognizes, lambda document: jsonrpc_mcp.parse_listing(document["tools"])),
    (drupal.recognizes, drupal.parse_listing),
    (smd.recognizes, smd.parse_listing),
    (kodi.recognizes, kodi.parse_listing),
    (describe.recognizes, describe.parse_listing),
    (truenas.recognizes, truenas.parse_listing),
    (mopidy.recognizes, mopidy.parse_listing),
    (introspection.is_saved, lambda names: introspection.parse_listing(names, {}, {})),
    (plain.all_named, plain.parse_listing),
)
_KINDS: Final = {"object": "a mapping", "string": "a text", "boolean": "true or false", "null": "empty"}
_REST: Final = {"pattern": "must be a path on the service, such as /rpc",
                "minLength": "a name must not be empty", "maxLength": "the name is too long"}  # fmt: skip


class Static:
    name = "static"
    info = DialectInfo(
        spoken_by="services without a useful listing: a file of yours",
        requests="`backend.listing.file`",
        recognized_by="[our short YAML](listings.md), or a saved answer in any dialect but `help`, `ubus` and `custom`",
        carries=("title", "description", "parameters", "types", "required", "result"),
        params="as `structure` says, without it by name; a saved answer as its dialect does",
        not_carried="Nothing.",
        probed=False,
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        return await _read_listing(source.read_file, source.listing.file or "", await read_documents(source))


async def _read_listing(read: Callable[[str], Awaitable[bytes]], file: str, others: Mapping[str, Any]) -> Listing:
    """Return the listing in a file. Raise :class:`NoListing` with a step for each fault, which names its line."""
    document, raw = await read_file(read, file)
    try:
        return await run_in_thread(parse_listing, document, others)
    except FaultyFile as error:
        lines = await run_in_thread(find_lines, raw, [fault.path for fault in error.args])
        steps = zip(error.args, lines, strict=True)
        raise NoListing(Step(f"{file}:{line}", SourceAnswer(str(fault))) for fault, line in steps) from None
    except RecursionError:
        raise NoListing([Step(file, SourceAnswer("nested too deeply"))]) from None


class FaultyFile(Exception):
    """Raised for a file in no known form, with its first faults (:class:`FileFault`) as our short form."""


def parse_listing(document: Any, others: Mapping[str, Any] = MappingProxyType({})) -> Listing:
    """Return the listing in a file, short or saved. Raise :class:`FaultyFile`."""
    if isinstance(document, dict) and "result" in document and document.keys() <= _ENVELOPE:
        document = document["result"]
    # At the top, they would take a twentieth of the time that stdio takes to start.
    import jsonschema  # noqa: PLC0415
    import referencing  # noqa: PLC0415

    validator = jsonschema.Draft202012Validator(FILE_SCHEMA, registry=referencing.Registry())
    faults = sorted(validator.iter_errors(document), key=lambda fault: [str(part) for part in fault.absolute_path])
    if faults:
        saved = with_lists(document)
        for recognizes, parse in _SAVED:
            if recognizes(saved):
                return parse(inline_documents(saved, others))
        if isinstance(document, dict) and document.keys() & {"openapi", "swagger"}:
            raise FaultyFile(FileFault((), "is an OpenAPI document, of REST: list methods as docs/listings.md shows"))
        raise FaultyFile(*islice(describe_faults(faults), _FAULTS_SHOWN))
    methods = tuple(_method(name, entry or {}) for name, entry in document["methods"].items())
    service = ServiceInfo(document.get("title", ""), document.get("version", ""), document.get("description", ""))
    return Listing(Static.name, methods, service=service)


def _method(name: str, entry: dict[str, Any]) -> Method:
    result, params = entry.get("result"), entry.get("params", {})
    return Method(
        name, title=entry.get("title", ""), description=entry.get("description", ""),
        parameters=None if params is None else tuple(_parameter(key, item or {}) for key, item in params.items()),
        input_schema=entry.get("input_schema"), endpoint=entry.get("endpoint"),
        structure=Structure(entry.get("structure", "unknown" if params is None else "by-name")),
        result=None if result is False else result, notification=result is False,
        annotations=entry.get("annotations", {}), deprecated=entry.get("deprecated", False),
    )  # fmt: skip


def _parameter(name: str, item: dict[str, Any]) -> Parameter:
    return Parameter(name, item.get("schema", True), item.get("required", False), item.get("description", ""))


@dataclass(frozen=True, slots=True)
class FileFault:
    """Hold one fault: the path to the value, and what is wrong with it."""

    path: tuple[str | int, ...]
    text: str

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.path))}: {self.text}" if self.path else self.text


def describe_faults(errors: Iterable[Any]) -> Iterator[FileFault]:
    """Yield what is wrong in a listing file, in the words of YAML."""
    for error in errors:
        path, wanted = tuple(error.absolute_path), error.validator_value
        if error.validator == "additionalProperties":
            known = list(error.schema["properties"])
            for key in error.instance:
                if key not in known:
                    text = f"unknown key; known here: {', '.join(known)}{did_you_mean(key, known)}"
                    yield FileFault((*path, key), text)
        elif error.validator == "type":
            kinds = [wanted] if isinstance(wanted, str) else wanted
            yield FileFault(path, f"must be {' or '.join(_KINDS.get(kind, kind) for kind in kinds)}")
        elif error.validator == "enum":
            yield FileFault(path, f"must be one of {', '.join(wanted)}{did_you_mean(error.instance, wanted)}")
        elif error.validator == "required":
            yield FileFault(path, f"lacks {', '.join(name for name in wanted if name not in error.instance)}")
        else:
            yield FileFault(path, _REST.get(str(error.validator), "cannot be used"))


def find_lines(raw: bytes, paths: Iterable[tuple[str | int, ...]]) -> list[int]:
    """Return the line, from 1 on, of each value in a file that could be read. That of a member is its name's; 1 where
    YAML cannot read the file, because it is JSON with control characters or nested deeply."""
    try:
        root = yaml.compose(raw, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError):
        root = None
    return [_line(root, path) for path in paths]


def _line(node: Any, path: tuple[str | int, ...]) -> int:
    mark = node.start_mark if node is not None else None
    for key in path:
        if isinstance(node, yaml.MappingNode):
            found = next(((name, value) for name, value in node.value if name.value == str(key)), None)
            if found is None:
                break
            mark, node = found[0].start_mark, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int):
            node = node.value[key]
            mark = node.start_mark
    return 1 if mark is None else mark.line + 1


async def read_fallback(file: str, form: MessageForm) -> Listing:
    """Return the operator's listing, ``catalog.fallback``, which is used while the backend gives none. ``form`` is the
    message form of its calls. Raise :class:`~gateway.listing.dialect.NoListing`."""
    listing = await _read_listing(lambda name: read_apart(Path(name).read_bytes), file, {})
    note = f"the backend gave no listing; this is catalog.fallback, {file}"
    return replace(listing, form=form, notes=(*listing.notes, note))
