"""Leave out the defaults that their own schema refuses. Strict clients refuse such a schema, and a model that sends the
default is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gateway.model.schema_keywords import with_schemas
from gateway.schema.bundling import UnsoundSchema
from gateway.schema.validation import ValidatorCache


def without_refused_defaults(schema: Mapping[str, Any], validators: ValidatorCache) -> Mapping[str, Any]:
    """Return a self-contained schema without such defaults, at any depth; the same object where there are none."""
    owners: list[Mapping[str, Any]] = []

    def collect(owner: Mapping[str, Any]) -> bool:
        owners.append(owner)
        return False

    _without_defaults(schema, collect)
    if not owners:
        return schema
    try:
        # All of them in one schema, which is compiled once: a stranger may list many.
        validator = validators.compile({"prefixItems": owners, "$defs": schema.get("$defs", {})})
        refused = validator.faulty_items([owner["default"] for owner in owners])
    except UnsoundSchema:  # together they cost too much to be checked
        refused = set(range(len(owners)))
    ids = {id(owners[place]) for place in refused}
    changed: Mapping[str, Any] = _without_defaults(schema, lambda owner: id(owner) in ids) if ids else schema
    return changed


def _without_defaults(schema: Any, is_refused: Callable[[Mapping[str, Any]], bool]) -> Any:
    """Return a schema without the defaults of those parts of it for which ``is_refused``, which gets each that has
    one."""
    if not isinstance(schema, Mapping):
        return schema
    drops = "default" in schema and is_refused(schema)
    return {
        keyword: with_schemas(keyword, content, lambda part: _without_defaults(part, is_refused))
        for keyword, content in schema.items()
        if not (drops and keyword == "default")
    }
