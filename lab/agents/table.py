"""The figures as a table, and the floors that they may not fall below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from lab.agents.measure import Asked, Judged, Measured
from lab.agents.mistakes import MISTAKES
from lab.agents.model import Talk

BEGIN: Final = "<!-- make agents writes these tables -->\n"
END: Final = "<!-- up to here -->"
MIN_FOUND: Final = 50
MIN_FOUND_TRYTON: Final = 11
MIN_TRIES: Final = 250
MIN_RIGHT: Final = 0.9
MAX_TOKENS: Final = 3000


def table(rows: Sequence[Measured]) -> str:
    """Return the tables of docs/agents.md: one of the listings, and one of the mistakes."""
    asked = [one for row in rows for one in row.asked]
    lines = [
        "| listing | tools | its list | with search, median | found in the first five | with its arguments "
        "| right after a wrong try |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {row.name.capitalize()} | {row.tools:,} | {row.tokens:,} tokens | {_tokens(row.asked):,} tokens "
            f"| {_found(row.asked)} of {len(row.asked)} | {_whole(row.asked)} | {_right(_tries(row.asked))} |"
            for row in rows
        ),
        f"| **all** | | | **{_tokens(asked):,} tokens** | **{_found(asked)} of {len(asked)}** "
        f"| **{_whole(asked)}** | **{_right(_tries(asked))}** |",
        "",
        "| mistake | right after it |",
        "|---|---|",
        *(
            f"| {mistake} | {_right([one for one in _tries(asked) if one.wrong.mistake == mistake])} |"
            for mistake in MISTAKES
        ),
    ]
    return "\n".join(lines) + "\n"


def with_table(page: str, figures: str) -> str:
    """Return the page with these tables in place of those that it has."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{begin}\n{figures}{end}{after}"


def table_of_talks(talks: Sequence[Talk]) -> str:
    """Return a table of what a model answered."""
    lines = ["| listing | answered rightly | calls for each | tokens of prompts for each |", "|---|---|---|---|"]
    for name in dict.fromkeys(talk.question.listing for talk in talks):
        own = [talk for talk in talks if talk.question.listing == name]
        right = sum(talk.is_right for talk in own)
        calls, tokens = sum(talk.calls for talk in own) / len(own), sum(talk.tokens for talk in own) // len(own)
        lines.append(f"| {name.capitalize()} | {right} of {len(own)} | {calls:.1f} | {tokens:,} |")
    return "\n".join(lines) + "\n"


def missed(rows: Sequence[Measured]) -> Iterator[str]:
    """Yield each floor that is missed, in words."""
    asked = [one for row in rows for one in row.asked]
    tries = _tries(asked)
    for one in asked:
        if one.fault:
            yield f"the answer is wrong: {one.question.text} {one.fault}"
    if _found(asked) < MIN_FOUND:
        yield f"{_found(asked)} wanted tools are in the first five, at least {MIN_FOUND} should be"
    of_tryton = [one for one in asked if one.question.listing == "tryton"]
    if _found(of_tryton) < MIN_FOUND_TRYTON:
        yield f"{_found(of_tryton)} of Tryton's are, at least {MIN_FOUND_TRYTON} should be"
    if len(tries) < MIN_TRIES:
        yield f"{len(tries)} wrong tries are left, at least {MIN_TRIES} should be"
    if sum(one.is_right for one in tries) < MIN_RIGHT * len(tries):
        yield f"{_right(tries)} calls after a wrong try are right, at least {MIN_RIGHT:.0%} should be"
    if _tokens(asked) > MAX_TOKENS:
        yield f"{_tokens(asked):,} tokens are read with search, at most {MAX_TOKENS:,} should be"


def details(rows: Sequence[Measured]) -> Iterator[str]:
    """Yield a line for each question whose tool is not found, and for each wrong try that stays wrong."""
    for row in rows:
        for one in row.asked:
            if one.rank is None:
                yield f"not found: {one.question.listing}: {one.question.text}"
            for judged in one.tries:
                if not judged.is_right:
                    wrong = judged.wrong
                    yield f"not mended: {wrong.mistake}: {wrong.tool}{dict(wrong.arguments)}: {judged.text}"


def _tries(asked: Sequence[Asked]) -> list[Judged]:
    return [judged for one in asked for judged in one.tries]


def _found(asked: Sequence[Asked]) -> int:
    return sum(one.rank is not None for one in asked)


def _whole(asked: Sequence[Asked]) -> int:
    return sum(one.is_whole for one in asked)


def _right(tries: Sequence[Judged]) -> str:
    right = sum(one.is_right for one in tries)
    return f"{right} of {len(tries)} ({100 * right / len(tries):.0f} %)" if tries else "none"


def _tokens(asked: Sequence[Asked]) -> int:
    return round(median(one.tokens for one in asked)) if asked else 0
