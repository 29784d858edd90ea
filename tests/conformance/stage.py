"""The fixture backend and the gateway before it, for as long as one run takes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tests.conformance.backend import Backend
from tests.conformance.suite import Report, Run, run_suite
from tests.front import ground
from tests.program import Program, settings

CONFIGURATION: Final = Path(__file__).with_name("gateway.yaml")


def operator_knobs() -> list[str]:
    """What an operator has to set for these results, a line for each knob: the fixture's own file, and that it is open
    to all. Addresses aside, the rest are defaults."""
    opened = [knob.replace("=", ": ", 1) for knob in ground("") if knob.startswith("auth.")]
    return sorted([*opened, *_lines(yaml.safe_load(CONFIGURATION.read_text()), "")])


def _lines(value: Any, path: str) -> Iterator[str]:
    """Each leaf with its path. A tool's overrides are one leaf."""
    if isinstance(value, dict) and path.rpartition(".")[0] != "catalog.tools":
        for name, child in value.items():
            yield from _lines(child, f"{path}.{name}".lstrip("."))
    else:
        written = yaml.safe_dump([value], default_flow_style=True, width=1000).strip()
        yield f"{path}: {written[1:-1]}"


async def conform(run: Run, folder: Path) -> Report:
    """Run a suite against a gateway of its own. Raises as :func:`run_suite` does.

    An error that the gateway logs is unexpected, whatever the suite thought of the answer.
    """
    async with (
        Backend() as backend,
        Program("serve", "--config", str(CONFIGURATION), *settings(backend.url)) as program,
    ):
        await program.logged("listing refreshed")
        started = await program.logged("gateway started")
        report = await run_suite(run, f"http://127.0.0.1:{started['port']}/mcp", folder)
    errors = tuple(f"the gateway logged {line}" for line in program.lines if _is_error(line))
    return dataclasses.replace(report, unexpected=report.unexpected + errors)


def _is_error(line: str) -> bool:
    try:
        entry: Any = json.loads(line)
    except ValueError:
        return True  # an interpreter's last words; the gateway itself logs JSON
    return not isinstance(entry, dict) or entry.get("level") not in ("debug", "info", "warning")
