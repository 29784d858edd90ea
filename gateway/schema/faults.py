"""Say what is wrong with a value, in words that a model can act on: what to send instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway import jsonrpc
from gateway.text import did_you_mean, excerpt

MAX_FAULT: Final = 400
"""Maximum bytes of one fault."""
_MAX_LABELS: Final = 20
_MAX_ALTERNATIVES: Final = 5
_FAULTS_PER_ALTERNATIVE: Final = 2
_NARROWEST: Final = 60
"""Minimum bytes of a fault among several."""


def describe_fault(error: Any, schema: Mapping[str, Any], most: int = MAX_FAULT) -> str:
    """Return where a value is wrong, and how, in at most ``most`` bytes. ``schema`` is the one of the whole value."""
    alternatives = getattr(error.kind, "context", None)
    if alternatives:
        nearest = _nearest(alternatives, len(error.instance_path))
        if nearest is not None:  # its own faults say more than that nothing fits
            shown = nearest[:_FAULTS_PER_ALTERNATIVE]
            return "; ".join(describe_fault(inner, schema, most // len(shown)) for inner in shown)
        text = f"{error.message} ({'; '.join(_each_alternative(alternatives, len(error.instance_path)))})"
    else:
        text = _text(error, schema)
    path = "/".join(map(str, error.instance_path))
    return excerpt(f"{path}: {text}" if path else text, max(most, _NARROWEST))


def _text(error: Any, schema: Mapping[str, Any]) -> str:
    kind = error.kind
    if kind.name == "enum" and len(kind.options) <= _MAX_LABELS:
        labels = [option for option in kind.options if isinstance(option, str)]
        value, options = jsonrpc.encode(error.instance), (jsonrpc.encode(option).decode() for option in kind.options)
        return f"{value.decode()} is not one of {', '.join(options)}{did_you_mean(error.instance, labels)}"
    # Of the whole value: the names that a part of the schema knows are not all.
    if error.schema_path == ["additionalProperties"] and "patternProperties" not in schema:
        known = list(schema.get("properties", {}))
        if not known:
            return "it takes no arguments"
        unexpected = " and ".join(f"'{name}'" for name in kind.unexpected[:_MAX_ALTERNATIVES])
        were = "was" if len(kind.unexpected) == 1 else "were"
        return f"{unexpected} {were} unexpected{did_you_mean(kind.unexpected[0], known)}; valid are {', '.join(known)}"
    return str(error.message)


def _nearest(alternatives: list[list[Any]], depth: int) -> list[Any] | None:
    """Return the faults of the alternative that a value comes closest to, None where none stands out: of those for its
    type, one whose constants fit, the one that fits deepest, and then the one with the fewest faults. ``depth`` is that
    of the value."""
    if not all(alternatives):  # under oneOf, two that fit are a fault too
        return None
    of_type = [
        errors
        for errors in alternatives
        if not any(one.kind.name == "type" and len(one.instance_path) == depth for one in errors)
    ]
    ranked = sorted(of_type, key=_rank)
    stands_out = len(ranked) == 1 or (len(ranked) > 1 and _rank(ranked[0]) < _rank(ranked[1]))
    return ranked[0] if stands_out else None


def _rank(errors: list[Any]) -> tuple[bool, int, int]:
    # A constant tells alternatives apart, so a value with another one is not meant for this one.
    is_other = any(error.kind.name == "const" or len(getattr(error.kind, "options", ())) == 1 for error in errors)
    return is_other, -max(len(error.instance_path) for error in errors), len(errors)


def _each_alternative(alternatives: list[list[Any]], depth: int) -> Iterator[str]:
    """Yield what is wrong with each of the first alternatives. Paths begin at the value."""
    for number, errors in enumerate(alternatives[:_MAX_ALTERNATIVES], 1):
        faults = []
        for error in errors[:_FAULTS_PER_ALTERNATIVE]:
            path = "/".join(map(str, error.instance_path[depth:]))
            faults.append(f"{path}: {error.message}" if path else error.message)
        yield f"alternative {number}: {', '.join(faults) or 'it fits'}"
