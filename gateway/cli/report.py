"""Format what the command line prints about catalogs, differences and failures."""

import os
import shlex
import shutil
import sys
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import click

from gateway.catalog.curation import lacks_description, list_some
from gateway.catalog.diff import CatalogDiff
from gateway.cli import COMMAND
from gateway.cli.options import Given, program
from gateway.listing.dialect import Step
from gateway.model import Catalog, NameStyle, Tool
from gateway.process.parent import DIVIDED, OF_EACH
from gateway.settings import ResourceSettings, ServiceSettings, Settings
from gateway.settings.server import ServerSettings
from gateway.text import masked_url, printable, shorten
from gateway.web.clients import KEY_VARIABLE

_SLOW: Final = 1.0


@contextmanager
def progress(url: str) -> Iterator[Callable[[str], None]]:
    """Print on a terminal's standard error what a wait of a second is for. Yield a function that notes it."""
    stage, slow = "contacting the backend", False

    def show() -> None:
        nonlocal slow
        slow = True
        print(f"{masked_url(url)}: {stage} …", file=sys.stderr)  # noqa: T201, the command line's output

    def note(asked: str) -> None:
        nonlocal stage
        stage = f"asking for a listing: {asked}"
        if slow:
            show()

    timer = threading.Timer(_SLOW, show)
    timer.daemon = True
    if sys.stderr is not None and sys.stderr.isatty():
        timer.start()
    try:
        yield note
    finally:
        timer.cancel()


def warnings(sentences: Iterable[str]) -> Iterator[str]:
    yield "remarks"
    yield from (f"  {sentence}" for sentence in sentences)


def heading(settings: ResourceSettings) -> str:
    kind = settings.section.removesuffix("s")
    return (
        f"\n{kind:<12} {settings.name}, at {settings.mount}/mcp; its knobs are under {settings.section}.{settings.name}"
    )


def check(settings: ResourceSettings, catalog: Catalog, warned: list[str]) -> Iterator[str]:
    yield from (f"backend      {masked_url(service.backend.url)}" for service in settings.services)
    yield f"dialect      {catalog.dialect}"
    yield f"tools        {len(catalog.tools)}"
    yield from (f"  {line}" for line in tools_table(catalog, NameStyle(settings.catalog.names)))
    yield f"quarantined  {len(catalog.quarantined)}"
    for method in catalog.quarantined:
        place = f" at {method.pointer}" if method.pointer else ""
        yield printable(f"  {method.name}: {method.reason}{place}")
        yield printable(f"    remedy: {method.remedy}")
    if catalog.hidden:
        knob = settings.knob("catalog.include")
        yield printable(f"hidden       {len(catalog.hidden)} by {knob} and exclude: {list_some(catalog.hidden)}")
    if warned:
        yield from warnings(warned)


def advice(tokens: int, rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what would let agents succeed more often, the worst first, with the YAML to paste."""
    yield f"agents       {tokens:,} tokens of a model's context in the list"
    for row in rows:
        yield printable(f"  {list_some(row['tools'])}: {row['why']}" if row["tools"] else f"  {row['why']}")
        yield from (f"    {line}" for line in row["yaml"].splitlines())


def workers(server: ServerSettings) -> Iterator[str]:
    if server.workers > 1:
        yield f"workers      {server.workers}, which divide {DIVIDED}; each has for itself: {OF_EACH}"


def tools_table(catalog: Catalog, name_style: NameStyle) -> Iterator[str]:
    """Yield a line for each tool: name, arguments (optional ones in brackets), first line of the description."""
    rows = []
    for tool in catalog.tools:
        description = "" if lacks_description(tool) else tool.description.partition("\n")[0]
        rows.append((f"{tool.name_for(name_style)}({arguments_of(tool)})", description))
    width = min(max((len(head) for head, _ in rows), default=0), 48)
    room = max(shutil.get_terminal_size((120, 24)).columns - width - 6, 30)
    for head, description in rows:
        yield f"{head:<{width}}  {shorten(description, room)}".rstrip()


def arguments_of(tool: Tool) -> str:
    """Return the names of a tool's arguments, optional ones in brackets."""
    required = tool.input_schema.get("required", ())
    return ", ".join(name if name in required else f"[{name}]" for name in tool.input_schema.get("properties", {}))


def differences(found: CatalogDiff) -> Iterator[str]:
    """Yield lines as ``diff`` does: + is new, - is gone, ~ has changed, with a line for each difference."""
    yield from (f"+ {snapshot.name}({', '.join(sorted(snapshot.pin.arguments))})" for snapshot in found.added)
    yield from (f"- {snapshot.name}" for snapshot in found.removed)
    for name, lines in found.changed:
        yield f"~ {name}"
        yield from (f"    {line}" for line in lines)
    counts = (f"{len(found.added)} new", f"{len(found.removed)} gone", f"{len(found.changed)} changed")
    yield ", ".join(counts) if found else "no difference"


def no_listing(settings: ServiceSettings, steps: Iterable[Step]) -> Iterator[str]:
    """Yield that there is no listing, and each request with its response; equal responses are one line."""
    yield f"{masked_url(settings.backend.url)} gave no listing of its methods."
    for questions, answer in fold_steps(steps):
        asked = questions[0] if len(questions) == 1 else f"{len(questions)} questions"
        yield f"  {asked}: {answer}"


def fold_steps(steps: Iterable[Step]) -> Iterator[tuple[list[str], str]]:
    """Yield the questions of each answer, in the order of the answers. One may quote its own question."""
    folded: dict[str, list[Step]] = {}
    for step in steps:
        folded.setdefault(step.answer.summary.replace(step.question, "…"), []).append(step)
    for answer, same in folded.items():
        yield [step.question for step in same], answer if len(same) > 1 else same[0].answer.summary


# Print colors, a table, and what to type next on a terminal. ``NO_COLOR`` leaves colors out there (no-color.org).
_PAINTS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("  FAULT ", {"fg": "red", "bold": True}),
    ("    remedy: ", {"fg": "green"}),
    ("+ ", {"fg": "green"}),
    ("- ", {"fg": "red"}),
    ("~ ", {"fg": "yellow"}),
)
_GAP: Final = 2
_LEAST: Final = 24
_NAME_SHARE: Final = 0.4  # share of the width that each column but the last may take


def say(*lines: str) -> None:
    """Print the lines of a report, in colors on a terminal."""
    if lines:
        _echo("\n".join(map(_paint, "\n".join(lines).split("\n"))))


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
    return sys.stdout is not None and sys.stdout.isatty()


def show_tools(catalog: Catalog, name_style: NameStyle) -> None:
    """Print a line for each tool; on a terminal, a table as wide as it is."""
    layout = _tools_table if is_terminal() else tools_table
    _echo("\n".join(layout(catalog, name_style)))


def _tools_table(catalog: Catalog, name_style: NameStyle) -> Iterator[str]:
    rows = []
    for tool in catalog.tools:
        description = "" if lacks_description(tool) else tool.description
        rows.append((tool.name_for(name_style), arguments_of(tool), _hint(tool), description))
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
    urls = [f"{origin}{one.mount}/mcp" for one in settings.resources]
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
    words += ["--key-env", KEY_VARIABLE] if first.auth.takes_keys and not first.auth.traits.has_issuers else []
    page = [f"Look at {click.style(f'{origin}/', bold=True)} in a browser"] if server.shown_page != "off" else []
    lines = ["", *page, *(f"MCP is at {click.style(url, bold=True)}" for url in urls), ""]
    lines += ["Type in another terminal:", ""]
    if not first.auth.traits.authenticates:
        lines.append(f"  curl -s {urls[0]}/tools/list")
    lines.append(f"  {shlex.join(words)} --client claude-code --write")
    lines += ["", "connect --help names the other clients. Ctrl-C ends the gateway.", ""]
    _echo("\n".join(lines))
