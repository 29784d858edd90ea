"""The size and the shape of ``gateway/``: ``python -m tests.house`` prints them, and fails beyond :data:`LIMITS`.

A file's *head* is what stands before its first statement: docstring and imports. Packages whose ``__init__`` holds a
docstring alone count as rooms, and not as files. Exit code: 0 where all limits are kept, 1 where one is not.
"""

from __future__ import annotations

import ast
import asyncio
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.settings.paths import knobs
from gateway.telemetry import logs
from tests import request_path
from tests.unit.test_structure import FLOORS, GATEWAY

_NOT_LOOSE: Final = ("__init__.py", "__main__.py")


@dataclass(frozen=True)
class House:
    """The figures, or the maximum of each. ``head`` is per cent of all lines."""

    loose: int
    rooms: int
    files: int
    head: float
    floors: int
    knobs: int
    lines: int

    def beyond(self, limits: House) -> Iterator[str]:
        """Yield a line for each figure that is beyond its limit."""
        for name, most in vars(limits).items():
            if (found := getattr(self, name)) > most:
                yield f"{name}: {found:g}, at most {most:g}"


LIMITS: Final[Mapping[int, House]] = {
    14: House(loose=8, rooms=30, files=190, head=12.5, floors=16, knobs=112, lines=31_900),
    15: House(loose=8, rooms=30, files=198, head=12.5, floors=16, knobs=118, lines=33_200),  # metrics, traces, audit
    16: House(loose=8, rooms=30, files=202, head=12.5, floors=16, knobs=121, lines=34_330),  # config, TLS; decision 48
    17: House(loose=8, rooms=30, files=204, head=12.5, floors=16, knobs=123, lines=35_230),  # the pages
    18: House(loose=8, rooms=30, files=208, head=12.5, floors=16, knobs=124, lines=35_830),  # first contact
    19: House(loose=8, rooms=30, files=217, head=12.5, floors=16, knobs=130, lines=37_130),  # keys, headers, groups
    20: House(loose=8, rooms=30, files=220, head=12.5, floors=16, knobs=135, lines=37_630),  # agents
    21: House(loose=8, rooms=30, files=228, head=12.5, floors=16, knobs=136, lines=38_830),  # sockets
    26: House(loose=8, rooms=30, files=228, head=12.5, floors=16, knobs=137, lines=38_830),  # a good guest
}
"""The limits after each part of the work; the last one holds. A later part adds one file for each 150 lines that it may
grow, and the knobs that its issue names."""


def count(root: Path = GATEWAY) -> House:
    """Count the files below ``root``."""
    texts = {path: path.read_text(encoding="utf-8") for path in root.rglob("*.py")}
    lines = {path: text.count("\n") for path, text in texts.items()}
    heads = {path: head_lines(text) for path, text in texts.items()}
    # A file without statements is all head.
    files = [path for path in texts if path.name != "__init__.py" or heads[path] < lines[path]]
    return House(
        loose=sum(path.parent == root and path.name not in _NOT_LOOSE for path in texts),
        rooms=len({path.parent for path in texts} - {root}),
        files=len(files),
        head=round(100 * sum(heads.values()) / sum(lines.values()), 1),
        floors=len(FLOORS),
        knobs=len([*knobs()]),
        lines=sum(lines.values()),
    )


def head_lines(text: str) -> int:
    """Return how many lines stand before the first statement that is neither a docstring nor an import."""
    for node in ast.parse(text).body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_docstring and not isinstance(node, ast.Import | ast.ImportFrom):
            decorators = getattr(node, "decorator_list", [])
            return min([node.lineno, *(decorator.lineno for decorator in decorators)]) - 1
    return text.count("\n")


def main() -> int:
    """Print the figures, their limits, and the ways of a call and of a list."""
    logs.configure("warning", "json")
    house, limits = count(), LIMITS[max(LIMITS)]
    for name, found in vars(house).items():
        print(f"{name:7} {found:>8g}   at most {getattr(limits, name):g}")
    ways = asyncio.run(request_path.counted())
    for method, way in ways.items():
        print(next(line for line in request_path.table(method, way, request_path.TARGETS[method]) if ", ours:" in line))
    faults = [*house.beyond(limits)]
    faults += [f"the way of {method}" for method, way in ways.items() if not way.meets(request_path.TARGETS[method])]
    print("\n".join(["", *faults] if faults else []), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
