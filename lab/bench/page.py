"""docs/performance.md and its plots: wholly made of one run's results and of the
fixed text beside this file, ``page.md``. ``python -m lab.bench.page`` makes them again of the last run's results."""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lab.bench import lanes
from lab.bench.plots import plot
from lab.bench.rows import record

ROOT: Final = Path(__file__).parents[2]
RESULTS: Final = ROOT / "build" / "bench.json"
TEXT: Final = Path(__file__).with_name("page.md")
PAGE: Final = ROOT / "docs" / "performance.md"
PLOTS: Final = ROOT / "docs" / "performance"
MARK: Final = re.compile(r"^\{\{([a-z-]+)\}\}$", re.MULTILINE)
_FOLDERS: Final = re.compile(r"(?<![\w.:/])/(?:[\w.@+-]+/)+")
"""Where something is on this machine, which is nobody's business: the name of the file stays."""
_ABSENT: Final = "not measured"

Results = Mapping[str, Any]
"""What a run found, as JSON: see :func:`lab.bench.__main__.results`."""


def page(results: Results, text: str) -> str:
    """The fixed text with each ``{{mark}}`` in place of its table. Raises :class:`KeyError` for a mark without one."""
    tables: dict[str, str] = {name: _lanes(results, names) for name, names in lanes.TABLES.items()}
    tables |= {
        "targets": _rows(results["targets"]),
        "bounds": _rows(results["bounds"]),
        "machine": table(("what", "which"), results["machine"].items()),
        "memory": table(("program", "memory before it was asked, MiB"), _memory(results)),
        "profile": _profile(results),
        "streams": _streams(results),
        "missing": _missing(results),
    }
    tables |= {f"plot-{name}": f"![{name}](performance/{name}.svg)" for name in plots(results)}
    return MARK.sub(lambda found: tables[found[1]], text)


def plots(results: Results) -> dict[str, str]:
    """Each plot by its name, as SVG."""
    up = "CPU per request, µs"

    def line(names: Sequence[str]) -> list[float | None]:
        return [_middle(results, name, "cpu") for name in names]

    streams = results["streams"]
    return {
        "tools": plot(
            "A list, by the number of tools",
            "tools",
            up,
            [f"{tools:,}" for tools in lanes.TOOLS],
            {
                "gateway": line([lanes.listed(tools) for tools in lanes.TOOLS]),
                "static answer of aiohttp": line([lanes.static(tools) for tools in lanes.TOOLS]),
            },
        ),
        "callers": plot(
            "A call, by the number of callers",
            "callers, who take turns",
            up,
            [f"{callers:,}" for callers in lanes.CALLERS],
            {"gateway": line([lanes.called_by(callers) for callers in lanes.CALLERS])},
        ),
        "streams": plot(
            "A call, beside idle streams",
            "idle streams",
            f"{up}; MiB",
            [f"{point['streams']:,}" for point in streams],
            {
                "CPU of a call": [point["cpu"] for point in streams],
                "memory of the gateway": [point["memory"] for point in streams],
            },
        ),
        "payload": plot(
            "A call, by the size of its result",
            "size of the result",
            up,
            list(lanes.PAYLOADS),
            {who: line([lanes.paid(who, size) for size in lanes.PAYLOADS]) for who in (lanes.GATEWAY, lanes.BARE)},
        ),
        "services": plot(
            "A call, by the number of services in one process",
            "services",
            f"{up}; MiB",
            [str(count) for count in lanes.SERVICES],
            {
                "CPU of a call": line([lanes.served(count) for count in lanes.SERVICES]),
                "memory of the gateway": [results["idle"].get(lanes.served(count)) for count in lanes.SERVICES],
            },
        ),
    }


def write(results: Results) -> None:
    """Write the page, its plots, and the ratio for the guard."""
    PLOTS.mkdir(exist_ok=True)
    for name, drawn in plots(results).items():
        (PLOTS / f"{name}.svg").write_text(drawn)
    PAGE.write_text(page(results, TEXT.read_text()))
    ratios = _ratios(results, lanes.GATEWAY, "cpu")
    if ratios:
        record(statistics.median(ratios))


def table(head: Sequence[str], body: Iterable[Sequence[object]]) -> str:
    """A table in Markdown, the first column to the left and all others to the right."""
    rule = "|" + "|".join("---" if at == 0 else "--:" for at in range(len(head))) + "|"
    return "\n".join([_row(head), rule, *map(_row, body)])


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def _number(value: float | None, digits: int = 0) -> str:
    return _ABSENT if value is None else f"{value:,.{digits}f}"


def _figures(results: Results, name: str, figure: str) -> list[float]:
    return [one[figure] for one in results["lanes"].get(name, [])]


def _middle(results: Results, name: str, figure: str) -> float | None:
    values = _figures(results, name, figure)
    return statistics.median(values) if values else None


def _ratios(results: Results, name: str, figure: str) -> list[float]:
    """Against the bare proxy, round by round."""
    pairs = zip(_figures(results, name, figure), _figures(results, lanes.BARE, figure), strict=False)
    return [one / bare for one, bare in pairs]


def _ratio(results: Results, name: str, figure: str) -> str:
    ratios = _ratios(results, name, figure)
    return f"{statistics.median(ratios):.2f}" if ratios else _ABSENT


def _lanes(results: Results, names: Sequence[str]) -> str:
    head = ("who", "CPU, µs", "requests/s", "p50, ms", "p99, ms", "p99.9, ms", "CPU / bare", "requests/s / bare")
    body = []
    for name in names:
        if name not in results["lanes"]:
            body.append((name, _ABSENT, *[""] * 6))
            continue
        cpu = _figures(results, name, "cpu")
        latencies = [_number((_middle(results, name, figure) or 0) / 1000, 1) for figure in ("p50", "p99", "p999")]
        spread = f"{statistics.median(cpu):,.0f} ({min(cpu):,.0f}-{max(cpu):,.0f})"
        ratios = [_ratio(results, name, figure) for figure in ("cpu", "rate")]
        body.append((name, spread, _number(_middle(results, name, "rate")), *latencies, *ratios))
    return table(head, body)


def _rows(rows: Sequence[Mapping[str, str]]) -> str:
    head = ("what", "measured: median (least-most)", "must", "verdict", "stretch", "reached")
    body = []
    for row in rows:
        measured = f"{row['measured']}: {_why(row['why'])}" if row["why"] else row["measured"]
        verdict = row["verdict"] if row["verdict"] == "ok" else f"**{row['verdict']}**"
        stretched = {"reached": "yes", "not reached": "no"}.get(row["stretched"], "")
        body.append((row["what"], measured, row["must"], verdict, row["stretch"], stretched))
    return table(head, body)


def _memory(results: Results) -> list[tuple[str, str]]:
    shown = dict.fromkeys((*lanes.TABLES["peers"], *map(lanes.served, lanes.SERVICES)))
    return [(name, _number(results["idle"].get(name), 1)) for name in shown]


def _profile(results: Results) -> str:
    shares, cpu = results["profile"], _middle(results, lanes.GATEWAY, "cpu")
    if not shares or cpu is None:
        return f"Not measured: {_why(results['unprofiled'])}"
    body = [(stage, f"{share:.0%}", f"{share * cpu:.1f}") for stage, share in shares.items()]
    return table(("stage", "share", "µs of a call"), [*body, ("all", "100%", f"{cpu:.1f}")])


def _streams(results: Results) -> str:
    head = ("idle streams", "CPU of a call, µs", "memory of the gateway, MiB")
    return table(head, [(p["streams"], _number(p["cpu"]), _number(p["memory"], 1)) for p in results["streams"]])


def _why(reason: str) -> str:
    return _FOLDERS.sub("", " ".join(reason.split()))[:300]


def _missing(results: Results) -> str:
    if not results["missing"]:
        return "Everything was measured."
    return table(("not measured", "why"), [(name, _why(why)) for name, why in results["missing"].items()])


if __name__ == "__main__":
    if not RESULTS.exists():
        sys.exit(f"{RESULTS.relative_to(ROOT)} is missing: run make bench first")
    write(json.loads(RESULTS.read_text()))
