"""What pyproject.toml declares is what the code needs: libraries, and the one name of the command."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

from gateway import __version__, cli
from tests.each import each
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
OTHER_NAMES = re.compile(rf"python -m gateway|(?:\\$ |`)gateway (?:{'|'.join(cli.main.commands)})")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def normalized(name: str) -> str:
    """The name of a distribution as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def imported_modules() -> set[str]:
    """The modules that the gateway imports."""
    names: set[str] = set()
    for file in (ROOT / "gateway").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
    return names


def imported() -> set[str]:
    """The packages of others that the gateway imports."""
    return {name.partition(".")[0] for name in imported_modules()} - sys.stdlib_module_names - {"gateway"}


def test_every_library_that_is_imported_is_declared_and_every_declared_one_is_imported() -> None:
    homes = packages_distributions()
    used = {normalized(distribution) for package in imported() - {"opentelemetry"} for distribution in homes[package]}
    lines = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["redis"]]
    declared = {normalized(re.split(r"[\[<>=!~; ]", line, maxsplit=1)[0]) for line in lines}
    assert used == declared


def test_there_is_no_extra_that_adds_nothing() -> None:
    assert set(PROJECT["optional-dependencies"]) == {"dev", "redis", "otel"}


def test_the_extra_of_traces_has_the_two_distributions_that_are_imported() -> None:
    """Many distributions share the package ``opentelemetry``."""
    modules = {name for name in imported_modules() if name.startswith("opentelemetry.")}
    assert modules == {
        "opentelemetry.exporter.otlp.proto.http.trace_exporter",
        "opentelemetry.sdk.resources",
        "opentelemetry.sdk.trace",
        "opentelemetry.sdk.trace.export",
        "opentelemetry.sdk.util.instrumentation",
        "opentelemetry.trace",  # of the API, which the SDK needs in its own version
    }
    names = {re.split(r"[<>=]", line, maxsplit=1)[0] for line in PROJECT["optional-dependencies"]["otel"]}
    assert names == {"opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"}


def test_the_command_has_the_name_of_the_distribution() -> None:
    assert PROJECT["scripts"] == {PROJECT["name"]: "gateway.cli:main"}
    assert PROJECT["name"] == cli.COMMAND


@each(
    "start",
    {"script": [str(Path(sys.executable).with_name(cli.COMMAND))], "module": [sys.executable, "-m", "gateway"]},
)
def test_it_calls_itself_by_that_name_however_it_is_started(start: list[str]) -> None:
    for arguments, said in (
        (["--help"], f"Usage: {cli.COMMAND} [OPTIONS]"),
        (["call", "--help"], f"Usage: {cli.COMMAND} call [OPTIONS] [URL] TOOL"),
        (["--version"], f"{cli.COMMAND}, version {__version__}\n"),
        (["call"], f"Usage: {cli.COMMAND} call [OPTIONS] [URL] TOOL"),
    ):
        ran = subprocess.run([*start, *arguments], capture_output=True, text=True, timeout=PATIENCE)
        assert (ran.stdout + ran.stderr).startswith(said)


def test_the_pages_call_it_by_that_name_too() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "config").rglob("*.yaml")]
    pages = [page for page in pages if page.parent.name != "decisions"]
    told = {str(page.relative_to(ROOT)): OTHER_NAMES.findall(page.read_text()) for page in pages}
    assert {name: found for name, found in told.items() if found} == {"docs/command-line.md": ["python -m gateway"]}
