"""Find the target of a ``$ref``: within its own schema, or within the listing around it. Never anywhere else.

A reference may be a JSON pointer, an anchor (``#pet``), an identifier that the schema itself declares (``$id``, draft
4's ``id``; RFC 3986), or the bare name of a member of the listing's own map of types (Kodi's ``Audio.Fields``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, urljoin

from gateway.jsonrpc import resolve
from gateway.model.schema_keywords import DATA, MAPS
from gateway.schema.drafts import draft_of

_Schema: TypeAlias = Mapping[str, Any] | bool

_TYPE_MAPS: Final = ("#/types", "#/definitions", "#/$defs", "#/components/schemas")
_MOST_INDEXED: Final = 20_000
_META_SCHEMAS: Final = ("http://json-schema.org/", "https://json-schema.org/")
_A_SCHEMA: Final = {"type": ["object", "boolean"], "description": "A JSON Schema."}


@dataclass(frozen=True, slots=True)
class SchemaScope:
    """Hold where a subschema stands: the document, the resource in it that ``#`` means, its base URI, its draft."""

    document: Mapping[str, Any]
    resource: Mapping[str, Any]
    draft: int | None = None
    base: str = ""

    @classmethod
    def of(cls, document: Mapping[str, Any], draft: int | None = None) -> SchemaScope:
        draft = draft_of(document, draft)
        identifier = _identifier(document, draft) or ""
        return cls(document, document, draft, "" if identifier.startswith("#") else identifier)

    def within(self, schema: Mapping[str, Any]) -> SchemaScope:
        """Return the scope of the subschemas of ``schema``, which stands in this scope."""
        if schema is self.resource or schema.keys().isdisjoint(("$schema", "$id", "id")):
            return self
        draft = draft_of(schema, self.draft)
        identifier = _identifier(schema, draft)
        if identifier is None or identifier.startswith("#"):
            return replace(self, draft=draft)
        return SchemaScope(self.document, schema, draft, _resolve_uri(self.base, identifier))


@dataclass
class _NameIndex:
    """Hold what a resource declares, by name. ``dynamic`` counts the targets of dynamic references."""

    anchors: dict[str, _Schema] = field(default_factory=dict)
    identifiers: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    dynamic: int = 0


class ReferenceResolver:
    """Find the targets of references. ``listing`` is the document around the schemas."""

    def __init__(self, listing: Mapping[str, Any]) -> None:
        self._listing = listing
        self._members: dict[str, _Schema] | None = None
        self._indexes: dict[int, tuple[Mapping[str, Any], _NameIndex]] = {}

    def find_target(self, reference: str, scope: SchemaScope) -> tuple[_Schema, SchemaScope] | None:
        """Return the target with its scope, None where the listing does not have it."""
        name, mark, fragment = reference.partition("#")
        if not name:
            return self._in_place(fragment, scope) if mark else None
        identifiers = self._index(scope.document).identifiers
        joined = _resolve_uri(scope.base, name)
        resource = identifiers.get(name, identifiers.get(joined))
        if resource is not None:
            found = SchemaScope(scope.document, resource, draft_of(resource, scope.draft), joined)
            return self._in_place(fragment, found)
        outside = SchemaScope.of(scope.document, scope.draft)
        if name in (self._listing.get("$id"), self._listing.get("id")):
            return self._in_place(fragment, outside) if fragment else None
        member = self._types().get(unquote(name))
        target = resolve(member, f"#{fragment}")
        if isinstance(target, Mapping | bool):
            return target, outside
        return (_A_SCHEMA, outside) if name.startswith(_META_SCHEMAS) else None

    def dynamic_targets(self, scope: SchemaScope) -> int:
        """Return how many targets a dynamic reference could have, depending on the path to it."""
        return self._index(scope.document).dynamic

    def _in_place(self, fragment: str, scope: SchemaScope) -> tuple[_Schema, SchemaScope] | None:
        if not fragment:
            return scope.resource, scope
        # Pointers mean a resource with an identifier before the listing around it.
        homes = (scope.resource, self._listing) if scope.base else (self._listing, scope.resource)
        for home in homes:
            target = resolve(home, f"#{fragment}")
            if isinstance(target, Mapping | bool):
                return target, scope
        for resource in (scope.resource, scope.document):
            anchors = self._index(resource).anchors
            if unquote(fragment) in anchors:
                return anchors[unquote(fragment)], scope
        target = self._types().get("#" + unquote(fragment))
        return None if target is None else (target, scope)

    def _types(self) -> dict[str, _Schema]:
        """Return the members of the listing's maps of types, by key and by identifier."""
        if self._members is None:
            self._members = {}
            for pointer in _TYPE_MAPS:
                found = resolve(self._listing, pointer)
                for key, member in found.items() if isinstance(found, Mapping) else ():
                    if isinstance(member, Mapping | bool):
                        self._members.setdefault(key, member)
                        identifier = _identifier(member, None) if isinstance(member, Mapping) else None
                        if identifier is not None:
                            self._members.setdefault(identifier, member)
        return self._members

    def _index(self, resource: Mapping[str, Any]) -> _NameIndex:
        known = self._indexes.get(id(resource))
        if known is None:
            index = _NameIndex()
            for schema, base in _subschemas(resource):
                _enter(index, schema, base)
            # The index goes by id(), so the resource is kept: no other object may get its id.
            known = self._indexes[id(resource)] = (resource, index)
        return known[1]


def _enter(index: _NameIndex, schema: Mapping[str, Any], base: str) -> None:
    for keyword in ("$anchor", "$dynamicAnchor"):
        if isinstance(schema.get(keyword), str):
            index.anchors.setdefault(schema[keyword], schema)
    index.dynamic += isinstance(schema.get("$dynamicAnchor"), str) or schema.get("$recursiveAnchor") is True
    identifier = _identifier(schema, None)
    if identifier is not None and identifier.startswith("#"):
        index.anchors.setdefault(identifier[1:], schema)
    elif identifier is not None:
        index.identifiers.setdefault(identifier, schema)
        index.identifiers.setdefault(base, schema)


def _subschemas(resource: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield each object of a resource that may be a schema, with its base URI; at most ``_MOST_INDEXED`` of them."""
    pending: list[tuple[Any, str]] = [(resource, "")]
    for _ in range(_MOST_INDEXED):  # a schema with more cannot be published anyway
        if not pending:
            return
        value, base = pending.pop()
        if isinstance(value, Mapping):
            identifier = _identifier(value, None)
            if identifier is not None and not identifier.startswith("#"):
                base = _resolve_uri(base, identifier)
            yield value, base
            for keyword, child in value.items():
                if keyword in MAPS and isinstance(child, Mapping):
                    pending += [(schema, base) for schema in child.values()]
                elif keyword not in DATA:
                    pending.append((child, base))
        elif isinstance(value, list):
            pending += [(child, base) for child in value]


def _identifier(schema: Mapping[str, Any], draft: int | None) -> str | None:
    """Return ``$id`` without an empty fragment, or ``id`` up to draft 4; None where there is neither."""
    identifier = schema.get("$id")
    if identifier is None and (draft is None or draft <= 4):
        identifier = schema.get("id")
    return (identifier.removesuffix("#") or None) if isinstance(identifier, str) else None


def _resolve_uri(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference)
    except ValueError:
        return reference
