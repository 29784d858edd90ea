"""docs/capacity.md: wholly made of one run's results and of the fixed text beside this file, ``page.md``. ``python -m
lab.scale.page`` makes it again of the last run's results."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from lab.bench.page import table
from lab.scale.model import BUSY, CONNECTIONS, Costs, Habit, Needs, Parts, breaking_points, needs

ROOT: Final = Path(__file__).parents[2]
RESULTS: Final = ROOT / "build" / "scale.json"
TEXT: Final = Path(__file__).with_name("page.md")
PAGE: Final = ROOT / "docs" / "capacity.md"
MARK: Final = re.compile(r"\{\{([a-z-]+)\}\}")
CALLERS: Final = (10, 100, 1000, 10_000, 100_000, 1_000_000)
HABIT: Final = Habit()
QUIET: Final = 0.9
"""The share of the cores that other programs must have left, for the figures to say something."""
_SAID: Final = {
    "shared": "a call: the gateway, with limits in Redis and 10,000 callers",
    "commands": "a call: commands to Redis",
    "command": "a command: Redis",
    "listed": "a list of 20 tools: the gateway",
    "newcomer": "a caller's first request: its token is verified, its view made",
    "idle": "memory of a process before it was asked",
    "caller": "memory of a caller: token, principal and view",
    "stream": "memory of an idle stream",
    "redis_caller": "memory in Redis of a caller who calls",
}
_MIB: Final = 1024**2


def page(results: Mapping[str, Any], text: str) -> str:
    """Return the fixed text with each ``{{mark}}`` replaced. Raise KeyError for a mark without a value."""
    parts = tuple(Parts(**one) for one in results["costs"]["parts"])
    costs = Costs(**{**results["costs"], "parts": parts})
    values = {
        "rounds": str(results["rounds"]),
        "machine": table(("what", "which"), results["machine"].items()),
        "parts": _parts(costs),
        "costs": table(("of", "median"), [(said, _figure(getattr(costs, name))) for name, said in _SAID.items()]),
        "calls": f"{HABIT.calls:g}",
        "lists": f"{1 / HABIT.lists:g}",
        "tokens": f"{1 / HABIT.tokens:g}",
        "streams": f"{HABIT.streams:g}",
        "connections": f"{CONNECTIONS:,}",
        "busy": f"{BUSY:.0%}",
        "replicas": _replicas(costs),
        "breaking": _breaking(costs),
        "checks": _checks(results["checks"]),
        "left": left(min(one["left"] for one in results["checks"])),
        "failover": _failover(results["failover"]),
    }
    return MARK.sub(lambda found: values[found[1]], text)


def left(share: float) -> str:
    """Return what to say of the share of the cores that other programs left."""
    said = f"Other programs left {share:.0%} of the cores or more meanwhile; the model counts that."
    return said if share >= QUIET else f"{said} **The machine was not quiet: these figures say little.**"


def _parts(costs: Costs) -> str:
    head = ("calls under way", "the gateway", "the load", "the service")
    return table(
        head, [(one.calls, _figure(one.gateway), _figure(one.load), _figure(one.service)) for one in costs.parts]
    )


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}"


def _replicas(costs: Costs) -> str:
    head = (
        "callers", "calls/s", "cores", "replicas", "memory of each, MiB", "Redis commands/s", "Redis memory, MiB",
        "beside the service, ms", "nearest to its limit",
    )  # fmt: skip
    return table(head, [_row(needs(costs, HABIT, callers)) for callers in CALLERS])


def _row(need: Needs) -> tuple[str, ...]:
    share = need.busy[need.first]
    return (
        f"{need.callers:,}", f"{need.calls:,.0f}", f"{need.cores:,.2f}", f"{need.replicas:,}",
        f"{need.memory / _MIB:,.0f}", f"{need.redis_commands:,.0f}", f"{need.redis_memory / _MIB:,.1f}",
        f"{need.wait * 1000:.1f}",
        f"{need.first}: {f'**{share:.1f} times**' if share > 1 else f'{share:.0%}'}",
    )  # fmt: skip


def _breaking(costs: Costs) -> str:
    points = sorted(breaking_points(costs, HABIT).items(), key=lambda point: point[1])
    of = {"Redis": "all replicas together"}
    return table(
        ("limit", "reached at callers", "of"), [(name, f"{at:,}", of.get(name, "one replica")) for name, at in points]
    )


def _checks(checks: list[Mapping[str, Any]]) -> str:
    head = ("run", "foretold, calls/s", "real, calls/s", "off", "may be", "verdict")
    body = [
        (
            one["what"], f"{one['foretold']:,.0f}", f"{one['real']:,.0f}", f"{one['off']:+.0%}",
            f"±{one['within']:.0%}", "ok" if one["holds"] else "**MISSED**",
        )
        for one in checks
    ]  # fmt: skip
    return table(head, body)


def _failover(found: Mapping[str, Any]) -> str:
    rows = [
        ("calls", found["calls"]),
        ("answered rightly", found["right"]),
        ("wrong answers", found["wrong"]),
        ("calls that ran twice", found["twice"]),
        ("calls without an answer", found["lost"]),
        ("refused by a limit, or as not sent", found["refused"]),
        ("until the Sentinels made a new master, s", f"{found['promoted']:.1f}"),
        ("until both gateways used it, s", f"{found['away']:.1f}"),
    ]
    return table(("what", "how many"), rows)


def write(results: Mapping[str, Any]) -> None:
    """Write the page."""
    PAGE.write_text(page(results, TEXT.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    if not RESULTS.exists():
        sys.exit(f"{RESULTS.relative_to(ROOT)} is missing: run make scale first")
    write(json.loads(RESULTS.read_text(encoding="utf-8")))
