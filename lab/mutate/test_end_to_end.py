"""A small program with tests, whose mutants are made, mapped, killed and missed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.mutate.copies import Refused, python
from lab.mutate.lines import HOOK
from lab.mutate.mutants import Mutant, candidates
from lab.mutate.plan import Asked, Map
from lab.mutate.report import summary, survivors
from lab.mutate.running import Ground, draw_map, tried

FILES = {
    "pytest.ini": "[pytest]\n",
    "sample/__init__.py": "def whole(number):\n    return number + 0.0\n",
    "sample/late.py": "def halved(number):\n    return number / 1 + 1\n",
    "sample/sums.py": """LIMIT = 3

def capped(number):
    if number > LIMIT:
        return LIMIT
    return number

def doubled(number):
    return number * 2

def counted(number):
    while number > 0:
        number -= 1
    return number

def named(number):
    return f"{number} of {_most()}"

def _most():
    return 7

TEXT = named(1)
""",
    "sample/__main__.py": """import sys
from sample.sums import capped

print(capped(int(sys.argv[1])))
""",
    "hook/sitecustomize.py": f"{HOOK}\n{HOOK}\n",
    "test_sums.py": """import os, subprocess, sys
from pathlib import Path
import pytest
import sample
from sample import sums

def test_capped():
    assert sums.capped(1) == 1

def test_doubled():
    assert sums.doubled(0) == 0

def test_counted():
    assert sums.counted(2) == 0

def test_text():
    assert sums.TEXT == "1 of 7"

def test_late():
    from sample.late import halved
    assert halved(1) == 2

def test_whole():
    assert sample.whole(1) == 1

def test_broken():
    assert sums.capped(1) == 2

def test_leaves_a_process():
    left = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    Path("left.txt").write_text(str(left.pid))
    assert sums.doubled(1) == 2
""",
    "test_program.py": """import os, subprocess, sys

def test_program():
    environ = {**os.environ, "PYTHONPATH": "hook"}
    ran = subprocess.run([sys.executable, "-m", "sample", "9"], env=environ, capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("3\\n", "")
""",
}
CAPPED, DOUBLED, COUNTED, TEXT, LATE, WHOLE, BROKEN, LEAVES = (
    f"test_sums.py::test_{name}"
    for name in ("capped", "doubled", "counted", "text", "late", "whole", "broken", "leaves_a_process")
)
PROGRAM = "test_program.py::test_program"
LONG = 60.0


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("project")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    with pytest.MonkeyPatch.context() as environ:
        environ.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # a start takes a third of the time
        yield folder


def mutant(project: Path, note: str, number: int = 0) -> Mutant:
    files = [f"sample/{name}.py" for name in ("sums", "late", "__init__")]
    (found,) = (one for one in candidates(project, files) if one.note == note)
    return Mutant(**{**found.row, "number": number})


def verdicts(project: Path, limit: float, *asked: Asked) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []
    rows = tried([Ground(project, sys.executable, "sample")], project / "home", asked, limit, told.append)
    assert sorted(told, key=str) == sorted(rows, key=str)
    return rows


TRIALS = (
    ("`number > LIMIT` -> `number >= LIMIT`", [CAPPED, PROGRAM], False),
    ("nothing under `if number > LIMIT`", [CAPPED, PROGRAM], False),
    ("`number * 2` -> `number / 2`", [DOUBLED], False),
    ("`return number * 2` -> return None", [DOUBLED], False),
    ("3 -> 4", [CAPPED, PROGRAM], False),
    ("7 -> 8", [TEXT], True),
    ("`number * 2` -> `number / 2`", [LEAVES], False),
    ("`return LIMIT` -> return None", [BROKEN, CAPPED], False),
    ("`number / 1 + 1` -> `number / 1 - 1`", [LATE], False),
    ("`return number + 0.0` -> return None", [WHOLE], False),
)


@pytest.fixture(scope="module")
def rows(project: Path) -> Iterator[list[dict[str, Any]]]:
    asked = [
        Asked(mutant(project, note, number), "line", tests, tests, on_import)
        for number, (note, tests, on_import) in enumerate(TRIALS)
    ]
    yield verdicts(project, LONG, *asked)
    assert (project / "sample" / "sums.py").read_text() == FILES["sample/sums.py"]


@pytest.mark.parametrize(
    ("number", "verdict", "by"),
    [
        (0, "survived", None),
        (1, "killed", PROGRAM),  # a program that a test starts
        (2, "survived", None),
        (3, "killed", DOUBLED),  # a function of the process that has collected
        (4, "killed", PROGRAM),  # a constant
        (5, "killed", TEXT),  # a function that was called while its module was imported
        (6, "killed", LEAVES),
        (7, "survived", None),  # a test that fails anyway notices nothing
        (8, "killed", LATE),  # a module that nobody has imported yet
        (9, "killed", WHOLE),
    ],
)
def test_a_mutant_is_killed_by_a_test_that_notices(
    rows: list[dict[str, Any]], number: int, verdict: str, by: str | None
) -> None:
    assert (rows[number]["verdict"], rows[number].get("by")) == (verdict, by), rows[number]


def test_what_a_test_of_a_mutant_left_running_is_ended(project: Path, rows: list[dict[str, Any]]) -> None:
    assert rows[6]["verdict"] == "killed"
    assert not Path("/proc", (project / "left.txt").read_text()).exists()


def test_a_mutant_without_end_times_out(project: Path) -> None:
    endless = Asked(mutant(project, "without `number -= 1`"), "line", [COUNTED], [COUNTED], False)
    assert [row["verdict"] for row in verdicts(project, 0.5, endless)] == ["timed out"]


def test_a_report_names_the_survivors(rows: list[dict[str, Any]]) -> None:
    assert summary(rows) == "10 mutants: 7 killed, 3 survived, 0 timed out, 0 not judged; noticed: 70.0 %"
    said = survivors(rows)
    assert "sample/sums.py:9 doubled [survived]\n    `number * 2` -> `number / 2`\n    return number * 2\n" in said
    assert "1 tests asked of 1 that run this line:\n      test_sums.py::test_doubled" in said


HAND_MADE = (
    {"test": "", "seconds": 0, "lines": {"sample/sums.py": f"{1 << 1 | 1 << 20:x}"}},
    {"test": CAPPED, "seconds": 0.1, "lines": {"sample/sums.py": f"{1 << 4 | 1 << 6:x}"}},
    {"test": PROGRAM, "seconds": 0.2, "lines": {}},
    {"test": PROGRAM, "lines": {"sample/sums.py": f"{1 << 4 | 1 << 5:x}"}},
    {"test": "test_of_a_test.py::test_inner", "lines": {"sample/sums.py": f"{1 << 4:x}"}},
)


@pytest.mark.parametrize(
    ("note", "seconds", "how", "tests", "on_import"),
    [
        ("`number > LIMIT` -> `number >= LIMIT`", 9, "line", [CAPPED, PROGRAM], False),
        ("`number > LIMIT` -> `number >= LIMIT`", 0.2, "line", [CAPPED], False),
        ("`return LIMIT` -> return None", 9, "line", [PROGRAM], False),
        ("`return number * 2` -> return None", 9, "file", [CAPPED, PROGRAM], False),
        ("3 -> 4", 9, "file", [CAPPED, PROGRAM], True),
        ("7 -> 8", 9, "file", [CAPPED, PROGRAM], True),
    ],
)
def test_who_runs_the_line_is_asked_the_cheapest_first(
    project: Path, note: str, seconds: float, how: str, tests: list[str], on_import: bool
) -> None:
    path = project / "map.jsonl"
    path.write_text("{}\n" + "".join(json.dumps(row) + "\n" for row in HAND_MADE))
    changed = mutant(project, note)
    asked = Map(path, {changed.file}).asked(project, changed, seconds)
    assert (asked.how, asked.tests, asked.on_import) == (how, tests, on_import)


def test_a_map_says_what_each_test_runs_also_in_programs_that_it_starts(project: Path) -> None:
    """Before Python 3.12 nothing says it: then there is no map."""
    path = project / "maps" / "map.jsonl"
    ground = Ground(project, sys.executable, "sample")
    if sys.version_info < (3, 12):
        with pytest.raises(Refused, match=r"Python 3\.12"):
            draw_map(ground, project / "home", path, {}, [], 1)
        return
    assert draw_map(ground, project / "home", path, {}, [], 1).startswith("1 failed, 8 passed")
    drawn = Map(path, {"sample/sums.py"})
    of_limit = drawn.asked(project, mutant(project, "`return LIMIT` -> return None"), LONG)
    assert (of_limit.how, of_limit.tests) == ("line", [PROGRAM])
    of_most = drawn.asked(project, mutant(project, "7 -> 8"), LONG)
    assert of_most.on_import


def test_a_python_that_says_which_lines_run_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if sys.version_info >= (3, 12):
        assert python() == sys.executable
    else:
        with pytest.raises(Refused, match=r"pyenv install 3\.13"):
            python()
