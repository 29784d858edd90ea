"""Every event of the log is in the registry, with its level and its fields, and the page is made of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from gateway.telemetry.events import EVENTS, FIELDS
from tests.log_page import PAGE, page
from tests.unit.test_structure import MODULES, path_of

LEVELS = {"debug": "debug", "info": "info", "warning": "warning", "error": "error", "exception": "error"}
WRAPPERS = {"_log_refusal": "info", "_warn": "warning"}
"""Functions that write a line whose event is their first argument."""
OF_TWO_LEVELS = {"library"}


class Written(NamedTuple):
    where: str
    event: str
    level: str
    fields: frozenset[str]


def event_of(node: ast.expr) -> str | None:
    """The event of a call, with "…" for what is not constant; None where a variable has it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return None


def is_logger(node: ast.expr) -> bool:
    return ast.unparse(node) in ("log", "structlog.get_logger()")


def written() -> Iterator[Written]:
    for module in MODULES:
        for node in ast.walk(ast.parse(path_of(module).read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            fields = frozenset(keyword.arg for keyword in node.keywords if keyword.arg)
            where, function = f"{module}:{node.lineno}", node.func
            level = ""
            if isinstance(function, ast.Attribute) and is_logger(function.value):
                level, fields = (
                    LEVELS[function.attr],
                    fields | ({"exc_info"} if function.attr == "exception" else set()),
                )
            elif isinstance(function, ast.Attribute) and function.attr in WRAPPERS:
                level = WRAPPERS[function.attr]
            elif isinstance(function, ast.Name) and function.id == "method" and module.endswith("telemetry.logs"):
                level = "warning"
            if level and (event := event_of(node.args[0])) is not None:
                yield Written(where, event, level, fields)


def test_every_call_of_the_logger_is_in_the_registry_with_its_level_and_its_fields() -> None:
    known = {event.name: event for event in EVENTS}
    faults = []
    for line in written():
        event = known.get(line.event)
        if event is None:
            faults.append(f"{line.where}: no event {line.event!r}")
        elif line.level != event.level and line.event not in OF_TWO_LEVELS:
            faults.append(f"{line.where}: level {line.level}, and {event.level} in the registry")
        elif unknown := line.fields - set(event.fields.split()):
            faults.append(f"{line.where}: fields {sorted(unknown)} of {line.event!r}")
    assert not faults, "\n".join(faults)


def test_every_event_of_the_registry_is_written_and_each_of_its_fields_is_explained() -> None:
    # This one is made in the processors of the logger.
    events = {line.event for line in written()} | {"log lines were lost, they could not be written"}
    assert {event.name for event in EVENTS} - events == set()
    assert len({event.name for event in EVENTS}) == len(EVENTS)
    used = {name for event in EVENTS for name in event.fields.split()}
    assert used == set(FIELDS)
    assert list(FIELDS) == sorted(FIELDS)


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text() == page(), "stale: make config"
