"""What a run says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

_MOST_TESTS: Final = 8


def line_of(row: dict[str, Any]) -> str:
    """Return what is said of a verdict at once."""
    mutant = row["mutant"]
    by = f" by {row['by'].splitlines()[-1]}" if row.get("by") else ""
    return f"{mutant['number']:4} {row['verdict']}{by}  {mutant['file']}:{mutant['line']}  {row['seconds']} s"


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """Return the counts. The share is that of the mutants which a test noticed, be it by having no end."""
    count = Counter(row["verdict"] for row in rows)
    judged = len(rows) - count["error"]
    share = f"{100 * (count['killed'] + count['timed out']) / judged:.1f} %" if judged else "none"
    return (
        f"{len(rows)} mutants: {count['killed']} killed, {count['survived']} survived, {count['timed out']} timed out, "
        f"{count['error']} not judged; noticed: {share}"
    )


def survivors(rows: Iterable[dict[str, Any]]) -> str:
    """Return each mutant that no test noticed, and each that was not judged, with the tests that reach it."""
    return "\n\n".join(_survivor(row) for row in rows if row["verdict"] in ("survived", "error"))


def _survivor(row: dict[str, Any]) -> str:
    mutant, reaching = row["mutant"], row["reaching"]
    reached = {"line": "run this line", "function": "run its function, none this line", "file": "run its file alone"}
    also = ", or its file, which runs it on import" if row["on_import"] and row["how"] == "line" else ""
    said = [
        f"{mutant['file']}:{mutant['line']} {mutant['function'] or '(no function)'} [{row['verdict']}]",
        f"    {mutant['note']}",
        f"    {mutant['text']}",
        f"    {row.get('ran', 0)} tests asked of {len(reaching)} that {reached[row['how']]}{also}:",
        *(f"      {name}" for name in reaching[:_MOST_TESTS]),
    ]
    if row["verdict"] == "error":
        said.append(f"    {row['by']}")
    return "\n".join(said)
