"""Format what the command line prints about catalogs, differences and failures."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Final, Self

from gateway import jsonrpc
from gateway.catalog.curation import list_some
from gateway.catalog.diff import CatalogDiff
from gateway.catalog.lint import lacks_description
from gateway.listing.dialect import Step
from gateway.mcp.modern import PROJECTOR
from gateway.model import Catalog, NameStyle, Tool
from gateway.process.parent import DIVIDED, OF_EACH
from gateway.settings import ServiceSettings
from gateway.settings.server import ServerSettings
from gateway.text import masked_url, printable, shorten

_SLOW: Final = 1.0


class Progress:
    """Print on standard error, if it is a terminal, what the command waits for once that takes longer than a second."""

    def __init__(self, url: str) -> None:
        self._url = masked_url(url)
        self._stage = "contacting the backend"
        self._slow = False
        self._timer = threading.Timer(_SLOW, self._show)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        if sys.stderr is not None and sys.stderr.isatty():
            self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._timer.cancel()

    def note(self, stage: str) -> None:
        self._stage = f"asking for a listing: {stage}"
        if self._slow:
            self._show()

    def _show(self) -> None:
        self._slow = True
        print(f"{self._url}: {self._stage} …", file=sys.stderr)  # noqa: T201, the command line's output


def remarks(sentences: Iterable[str]) -> Iterator[str]:
    yield "remarks"
    yield from (f"  {sentence}" for sentence in sentences)


def heading(settings: ServiceSettings) -> str:
    """Return the heading of the report on one of several services."""
    return f"\nservice      {settings.name}, at {settings.mount}/mcp; its knobs are under services.{settings.name}"


def check(settings: ServiceSettings, catalog: Catalog, remarked: list[str]) -> Iterator[str]:
    yield f"backend      {masked_url(settings.backend.url)}"
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
    if remarked:
        yield from remarks(remarked)


def workers(server: ServerSettings) -> Iterator[str]:
    """Yield a line about several workers."""
    if server.workers > 1:
        yield f"workers      {server.workers}, which divide {DIVIDED}; each has for itself: {OF_EACH}"


def tools_table(catalog: Catalog, name_style: NameStyle) -> Iterator[str]:
    """Yield a line for each tool: its name, its arguments (optional ones in brackets), its description's first line."""
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


def tools_json(catalog: Catalog, name_style: NameStyle) -> str:
    projector = PROJECTOR.with_name_style(name_style)
    return jsonrpc.pretty({"tools": [projector.project(tool) for tool in catalog.tools]})


def differences(found: CatalogDiff) -> Iterator[str]:
    """Yield lines as ``diff`` does: + is new, - is gone, ~ has changed, with a line for each difference."""
    yield from (f"+ {snapshot.name}({', '.join(sorted(snapshot.pin.arguments))})" for snapshot in found.added)
    yield from (f"- {snapshot.name}" for snapshot in found.removed)
    for change in found.changed:
        yield f"~ {change.name}"
        yield from (f"    {line}" for line in change.differences)
    counts = (f"{len(found.added)} new", f"{len(found.removed)} gone", f"{len(found.changed)} changed")
    yield ", ".join(counts) if found else "no difference"


def no_listing(settings: ServiceSettings, steps: Iterable[Step]) -> Iterator[str]:
    """Yield that there is no listing, and each request with its answer. Requests with the same answer are one line."""
    yield f"{masked_url(settings.backend.url)} gave no listing of its methods."
    for questions, answer in fold_steps(steps):
        asked = questions[0] if len(questions) == 1 else f"{len(questions)} questions"
        yield f"  {asked}: {answer}"


def fold_steps(steps: Iterable[Step]) -> Iterator[tuple[list[str], str]]:
    """Return the questions of each answer, in the order in which the answers came first. Answers that quote their own
    question are the same otherwise."""
    folded: dict[str, list[Step]] = {}
    for step in steps:
        folded.setdefault(step.answer.summary.replace(step.question, "…"), []).append(step)
    for answer, same in folded.items():
        yield [step.question for step in same], answer if len(same) > 1 else same[0].answer.summary
