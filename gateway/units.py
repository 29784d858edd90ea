"""Parse and format durations, sizes and rates as people write them: ``30s``, ``5m``, ``1MiB``, ``60/minute``."""

import re
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_DURATIONS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZES: Final = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
PERIODS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
"""Seconds of each period that a rate can have."""
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


def parse_duration(value: Any) -> float:
    """Return seconds. A number without a unit is seconds. Raises :class:`ValueError`."""
    return _parse(value, _DURATIONS, "s", "a duration such as 500ms, 30s, 5m, 1h or 1d")


def parse_size(value: Any) -> int:
    """Return bytes. A number without a unit is bytes. Raises :class:`ValueError`."""
    return int(_parse(value, _SIZES, "B", "a size such as 512KiB or 1MiB"))


def _parse(value: Any, units: dict[str, Any], default: str, wanted: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"must be {wanted}")  # noqa: TRY004, pydantic collects ValueError
    match = _NUMBER.fullmatch(str(value).strip())
    unit = (match[2] or default) if match else ""
    if match is None or unit not in units:
        raise ValueError(f'must be {wanted}, not "{value}"')
    return float(float(match[1]) * units[unit])


def format_duration(seconds: float) -> str:
    return _format(seconds, _DURATIONS)


def format_size(size: int) -> str:
    return _format(size, _SIZES)


def _format(amount: float, units: dict[str, Any]) -> str:
    for unit, factor in reversed(units.items()):  # the largest first
        if amount >= factor and (amount / factor) % 1 == 0:
            return f"{amount / factor:.0f}{unit}"
    smallest = next(iter(units))
    return f"{amount / units[smallest]:g}{smallest}"


def parse_rate(value: Any) -> str:
    """Return ``COUNT/PERIOD`` without spaces. Raises :class:`ValueError`."""
    text = value if isinstance(value, str) else ""
    match = re.fullmatch(r"\s*([1-9]\d{0,8})\s*/\s*(second|minute|hour|day)\s*", text)
    if match is None:
        shown = f', not "{text}"' if text else ""
        raise ValueError(f"must be a rate such as 60/minute (per {', '.join(PERIODS)}){shown}")
    return f"{match[1]}/{match[2]}"


Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration),
    WithJsonSchema({"type": ["string", "number"], "pattern": r"^\d+(\.\d+)?\s*(ms|s|m|h|d)?$"}),
]
Size = Annotated[
    int,
    BeforeValidator(parse_size),
    PlainSerializer(format_size),
    WithJsonSchema({"type": ["string", "integer"], "pattern": r"^\d+(\.\d+)?\s*(B|KiB|MiB|GiB)?$"}),
]
Rate = Annotated[
    str,
    BeforeValidator(parse_rate),
    WithJsonSchema({"type": "string", "pattern": r"^\s*[1-9]\d{0,8}\s*/\s*(second|minute|hour|day)\s*$"}),
]
