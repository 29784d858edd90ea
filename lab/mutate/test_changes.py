"""What can be changed in a file, and what is left alone."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from lab.mutate.changes import changes_of
from lab.mutate.mutants import Misfit, Mutant, candidates, chosen, replayed, written

SOURCE = '''"""Says what é is."""
from asyncio import Lock, shield

LIMIT: "int" = 3
log = {}


class Store:
    """Holds numbers."""

    lock = Lock()

    def __init__(self, most=4):
        self.most = most

    async def take(self, number, other):
        """Return a number."""
        assert number > 7
        log.warning("taken", number=number)
        async with self.lock:
            self.count += 1
        try:
            if number > LIMIT and not other:
                raise ValueError(f"{number} is over {LIMIT + 1}")
        finally:
            self.note(number)
        self.last = number
        for one in [one for one in other if one]:
            if one == "crm.add":
                continue
            break
        return {**other, "sum": min(number + 1, other)} if other else swap(number, other)
'''


def broken(source: str) -> dict[str, str]:
    """Return what the file's changes make of it, by their notes."""
    made = {}
    for change in changes_of(source):
        start, end = change.span
        as_bytes = source.encode()
        made[change.note] = (as_bytes[:start] + change.new.encode() + as_bytes[end:]).decode()
    return made


@pytest.mark.parametrize(
    ("note", "was", "now"),
    [
        ("3 -> 4", "LIMIT: \"int\" = 3", "LIMIT: \"int\" = (4)"),
        ("3 -> 2", "LIMIT: \"int\" = 3", "LIMIT: \"int\" = (2)"),
        ("default 4 -> 5 of __init__", "most=4", "most=5"),
        ("without `async with self.lock`", "async with self.lock:", "if True:"),
        ("without `self.count += 1`", "self.count += 1", "pass"),
        ("`self.count += 1` -> `self.count -= 1`", "self.count += 1", "self.count -= 1"),
        ("`number > LIMIT` -> `number >= LIMIT`", "number > LIMIT", "(number >= LIMIT)"),
        ("`number > LIMIT and (not other)` with `or`", "number > LIMIT and not other", "(number > LIMIT or not other)"),
        ("`not other` without not", "not other", "(other)"),
        ("nothing in `finally`: `self.note(number)`", "self.note(number)", "pass"),
        ("without `self.last = number`", "self.last = number", "pass"),
        ("comprehension without `if` `one`", "if one]", "if True]"),
        ("'crm.add' -> 'crm.addx'", '"crm.add"', "'crm.addx'"),
        ("continue -> break", "continue", "break"),
        ("break -> continue", "            break", "            continue"),
        ("a dict without ** of `other`", "**other", "**{}"),
        ("`number + 1` -> `number - 1`", "number + 1, other", "(number - 1), other"),
        ("`min(number + 1, other)` -> `max(number + 1, other)`", "min(number", "max(number"),
        ("`swap(number, other)` with its first two arguments swapped", "swap(number, other)", "swap(other, number)"),
    ],
)  # fmt: skip
def test_a_change_is_one_that_a_person_could_have_made(note: str, was: str, now: str) -> None:
    assert SOURCE.count(was) == 1
    assert broken(SOURCE)[note] == SOURCE.replace(was, now)


def test_each_change_is_python_and_another_program() -> None:
    programs = [ast.dump(ast.parse(made)) for made in broken(SOURCE).values()]
    assert len(programs) > 25
    assert ast.dump(ast.parse(SOURCE)) not in programs


def test_what_nobody_reads_is_left_alone() -> None:
    kept = ('"""Says', '"""Holds', '"""Return', '"int"', "assert number > 7", 'log.warning("taken", number=number)')
    for note, made in broken(SOURCE).items():
        if not note.startswith("without `raise"):
            assert 'f"{number} is over {LIMIT + 1}"' in made or note.startswith("nothing under"), note
        assert all(text in made for text in kept), note


def sample(folder: Path) -> list[Mutant]:
    (folder / "store.py").write_text(SOURCE)
    return candidates(folder, ["store.py"])


def test_a_seed_chooses_the_same_again(tmp_path: Path) -> None:
    pool = sample(tmp_path)
    first, again, other = (chosen(tmp_path, pool, 8, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert [mutant.number for mutant in first] == list(range(1, 9))


def test_one_mutant_of_a_line_is_chosen(tmp_path: Path) -> None:
    places = [mutant.place for mutant in chosen(tmp_path, sample(tmp_path), 100, 1)]
    assert len(places) == len(set(places)) > 10


def test_a_mutant_is_written_and_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "store.py"
    mutant = next(one for one in sample(tmp_path) if one.note == "continue -> break")
    before = path.stat().st_mtime_ns
    with written(tmp_path, mutant):
        assert path.read_text() == SOURCE.replace("continue", "break")
        assert path.stat().st_mtime_ns != before
    assert path.read_text() == SOURCE
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize("verdicts", [(), ("killed",), ("survived",)])
def test_results_are_mutants_again(tmp_path: Path, verdicts: tuple[str, ...]) -> None:
    one, two = sample(tmp_path)[:2]
    rows = [{"verdict": "killed", "mutant": one.row}, {"verdict": "survived", "mutant": two.row}]
    results = tmp_path / "results.jsonl"
    results.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = {(): [one, two], ("killed",): [one], ("survived",): [two]}
    assert replayed(tmp_path, results, *verdicts) == found[verdicts]


def of_before(mutant: Mutant) -> dict[str, Any]:
    """Return it as lists of mutants once named things."""
    names = {"number": "id", "kind": "op", "function": "func"}
    return {**{names.get(name, name): value for name, value in mutant.row.items()}, "group": "store", "first": 3}


def test_a_mutant_of_another_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mutants.json"
    mutant = next(one for one in sample(tmp_path) if one.note == "continue -> break")
    path.write_text(json.dumps([of_before(mutant)]))
    assert replayed(tmp_path, path) == [mutant]
    (tmp_path / "store.py").write_text("\n" + SOURCE)
    with pytest.raises(Misfit, match=r"store.py:\d+ was 'continue' and is 'if one == "):
        replayed(tmp_path, path)
