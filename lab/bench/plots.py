"""Plots as plain SVG: lines over points that stand at equal distances, from zero up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

_WIDTH, _HEIGHT = 640, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 64, 56
_COLORS: Final = ("#0b62a4", "#c2410c", "#4d7c0f", "#7e22ce")
_TICKS: Final = 5
_STYLE: Final = "text{font:13px sans-serif;fill:#222}.title{font-weight:bold;font-size:15px}.grid{stroke:#ddd}"


def plot(title: str, across: str, up: str, points: Sequence[str], lines: Mapping[str, Sequence[float | None]]) -> str:
    """An SVG document. ``across`` and ``up`` name the axes, ``points`` stand on the first; each line has a value for
    each point, None for what was not measured."""
    top = _top([value for values in lines.values() for value in values if value is not None])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        _text(_LEFT, 22, title, "title"),
        *_axes(across, up, points, top),
    ]
    for number, (name, values) in enumerate(lines.items()):
        parts += _line(name, values, top, _COLORS[number % len(_COLORS)], _LEFT + number * 270)
    return "\n".join([*parts, "</svg>", ""])


def _top(values: list[float]) -> float:
    """A round number that none of the values is over."""
    most = max(values, default=0) or 1
    step: float = 10 ** math.floor(math.log10(most))
    return next(step * factor for factor in (1, 2, 2.5, 5, 10) if step * factor >= most)


def _x(at: int, count: int) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (at + 0.5) / count


def _y(value: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / top


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'


def _axes(across: str, up: str, points: Sequence[str], top: float) -> list[str]:
    parts = []
    for tick in range(_TICKS + 1):
        value = top * tick / _TICKS
        y = _y(value, top)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(_LEFT - 8, y + 4, f"{value:,.4g}", anchor="end"))
    parts += [
        _text(_x(at, len(points)), _HEIGHT - _BOTTOM + 20, point, anchor="middle") for at, point in enumerate(points)
    ]
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    turned = _text(0, 0, up, anchor="middle").replace(
        "<text ", f'<text transform="translate(16 {middle}) rotate(-90)" '
    )
    return [*parts, turned, _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 12, across, anchor="middle")]


def _line(name: str, values: Sequence[float | None], top: float, color: str, left: float) -> list[str]:
    """A line, a dot for each value, and its name above the plot."""
    found = [(_x(at, len(values)), _y(value, top), value) for at, value in enumerate(values) if value is not None]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in found)
    parts = [f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>']
    parts += [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"><title>{value:.4g}</title></circle>'
        for x, y, value in found
    ]
    key = f'<rect x="{left}" y="38" width="14" height="4" fill="{color}"/>'
    return [*parts, key, _text(left + 20, 44, name if found else f"{name} (not measured)")]
