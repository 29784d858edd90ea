"""Print for a person on a terminal: colors, a table, and what to type next. Elsewhere lines are plain.

``click.echo`` leaves the colors out where its stream is no terminal; ``NO_COLOR`` leaves them out everywhere
(no-color.org).
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click

from gateway.catalog.lint import lacks_description
from gateway.cli import COMMAND, report
from gateway.cli.options import Given, program
from gateway.model import Catalog, NameStyle, Tool
from gateway.settings import Settings

_PAINTS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("  FAULT ", {"fg": "red", "bold": True}),
    ("    remedy: ", {"fg": "green"}),
    ("+ ", {"fg": "green"}),
    ("- ", {"fg": "red"}),
    ("~ ", {"fg": "yellow"}),
)
_GAP: Final = 2
_LEAST: Final = 24
_NAME_SHARE: Final = 0.4
"""Share of the width that each column but the last may take."""


def say(text: str) -> None:
    """Print the lines of a report, in colors on a terminal."""
    _echo("\n".join(map(_paint, text.split("\n"))))


def _echo(text: str) -> None:
    click.echo(text, color=False if os.environ.get("NO_COLOR") else None)


def _paint(line: str) -> str:
    for beginning, paint in _PAINTS:
        if line.startswith(beginning):
            return click.style(line, **paint)
    label, gap, rest = line.partition("  ")
    is_label = label.islower() and label.replace(" ", "").isalpha() and bool(rest)
    return click.style(label, bold=True) + gap + rest if is_label else line


def is_terminal() -> bool:
    """Tell whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def show_tools(catalog: Catalog, name_style: NameStyle) -> None:
    """Print a line for each tool; on a terminal, a table as wide as it is."""
    layout = _tools_table if is_terminal() else report.tools_table
    _echo("\n".join(layout(catalog, name_style)))


def _tools_table(catalog: Catalog, name_style: NameStyle) -> Iterator[str]:
    rows = [
        (
            tool.name_for(name_style),
            report.arguments_of(tool),
            _hint(tool),
            "" if lacks_description(tool) else tool.description,
        )
        for tool in catalog.tools
    ]
    yield from table(("TOOL", "ARGUMENTS", "", "DESCRIPTION"), rows, shutil.get_terminal_size((120, 24)).columns)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield the lines of a table. The text of each cell is wrapped; the last column takes the width that is left."""
    cells = [[" ".join(cell.split()) for cell in row] for row in rows]
    longest = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    most = max(int(width * _NAME_SHARE), _LEAST)
    widths = [min(size, most) for size in longest[:-1]]
    taken = sum(size + _GAP for size in widths if size)
    widths.append(max(min(longest[-1], width - taken), _LEAST))
    yield click.style(_line(headings, widths), bold=True)
    for row in cells:
        columns = [textwrap.wrap(cell, size or 1) for cell, size in zip(row, widths, strict=True)]
        for number in range(max(1, *map(len, columns))):
            yield _line([column[number] if number < len(column) else "" for column in columns], widths)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return (" " * _GAP).join(f"{cell:<{size}}" for cell, size in zip(cells, widths, strict=True) if size).rstrip()


def _hint(tool: Tool) -> str:
    """Return what the tool's annotations warn of, or promise."""
    if tool.annotations.get("readOnlyHint") is True:
        return "reads"
    return "destroys" if tool.annotations.get("destructiveHint") is True else ""


def guide(settings: Settings, port: int, given: Given) -> None:
    """Print on a terminal where the gateway serves, and what to type next. ``port`` is the bound one."""
    if not is_terminal():
        return
    server, services = settings.server, settings.by_mount
    origin = server.model_copy(update={"port": port}).origin
    urls = [f"{origin}{mount}/mcp" for mount in services]
    first = next(iter(services.values()))
    command = (COMMAND,) if shutil.which(COMMAND) else program()
    words = [*command, "connect", *([given.url] if given.url else []), "--http"]
    if given.file is not None:
        words += ["--config", str(given.file)]
    for override in given.overrides:
        words += ["--set", override] if override.startswith("server.") else []
    if port != server.port:
        words += ["--set", f"server.port={port}"]
    words += ["--service", first.name] if first.name else []
    lines = ["", *(f"MCP is at {click.style(url, bold=True)}" for url in urls), "", "Type in another terminal:", ""]
    if first.auth.mode == "off":
        lines.append(f"  curl -s {urls[0]}/tools/list")
    lines.append(f"  {shlex.join(words)} --client claude-code --write")
    lines += ["", "connect --help names the other clients. Ctrl-C ends the gateway.", ""]
    _echo("\n".join(lines))
