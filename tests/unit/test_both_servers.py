"""Count the behaviors that run on both HTTP servers, with auth on and off. Who runs on one alone says why."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.http_servers import first_row_on_aiohttp

TESTS = Path(__file__).parents[1]
FUNCTIONS, FILES = 150, 25
FIXTURE = "both_servers"


def marks(found: list[ast.expr]) -> dict[str, list[object]]:
    """Return the marks among these expressions by name, with their arguments."""
    calls = [mark for mark in found if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Attribute)]
    return {call.func.attr: [ast.unparse(argument) for argument in call.args] for call in calls}  # type: ignore[attr-defined]


def opted_in(path: Path) -> Iterator[str]:
    """Yield the test functions of a file that run on both servers, each once."""
    tree = ast.parse(path.read_text())
    of_file = [node.value for node in tree.body if isinstance(node, ast.Assign) and _is_named(node, "pytestmark")]
    whole = repr(FIXTURE) in marks(of_file).get("usefixtures", [])
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            own = marks(node.decorator_list)
            if "own_server" not in own and (whole or repr(FIXTURE) in own.get("usefixtures", [])):
                yield node.name


def _is_named(node: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)


def counted(folder: str) -> dict[str, int]:
    found = {path.name: len([*opted_in(path)]) for path in sorted((TESTS / folder).glob("test_*.py"))}
    return {name: count for name, count in found.items() if count}


def test_enough_behaviors_run_on_both_servers() -> None:
    without_auth, with_auth = counted("protocol"), counted("authorization")
    both = [*without_auth.values(), *with_auth.values()]
    assert sum(both) >= FUNCTIONS
    assert len(both) >= FILES
    assert sum(with_auth.values()) >= FUNCTIONS // 5
    assert sum(without_auth.values()) >= FUNCTIONS // 2


def test_who_runs_on_one_server_alone_says_why() -> None:
    for path in [*(TESTS / "protocol").glob("test_*.py"), *(TESTS / "authorization").glob("test_*.py")]:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                reason = marks(node.decorator_list).get("own_server")
                assert reason is None or len(reason[0].split()) > 2, f"{path.name}: {node.name}"  # type: ignore[attr-defined]


def test_of_the_rows_of_a_test_the_first_alone_runs_on_aiohttp_by_day() -> None:
    rows = ["own-1", "own-2", "own-3", "aiohttp-1", "aiohttp-2", "aiohttp-3"]
    kept = first_row_on_aiohttp(rows, lambda row: row.partition("-")[0])
    assert kept == ["own-1", "own-2", "own-3", "aiohttp-1"]
    assert first_row_on_aiohttp(["1", "2"], lambda _: None) == ["1", "2"]
