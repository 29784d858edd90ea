"""The house keeps its shape: floors, homes of libraries, sizes (decision 48 says why)."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.tokens import tokens_of

GATEWAY = Path(__file__).parents[2] / "gateway"
TESTS = Path(__file__).parents[1]
LAB = TESTS.parent / "lab"
MODULES = sorted(
    ".".join(path.relative_to(GATEWAY.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in GATEWAY.rglob("*.py")
)

# Floors, from the top. A file imports from a lower floor, or from its own folder. docs/architecture.md shows the same.
FLOORS = (
    "__main__",
    "cli",
    "aiohttp_app",
    "process",
    "service",
    "web",
    "mcp",
    "invocation",
    "discovery config diagnosis",
    "listing catalog credentials http_server",
    "limits auth schema backend",
    "model store http_client",
    "telemetry",
    "settings jsonrpc",
    "errors networks signing concurrency",
    "text units",
)
STEP = {name: number for number, floor in enumerate(reversed(FLOORS)) for name in floor.split()}

# A library, and who may name it.
HOMES = {
    "aiohttp.web": ("aiohttp_app",),
    "aiohttp": ("http_client.session", "http_client.digest", "http_client.websocket"),
    "websockets": ("http_client.websocket",),
    "jwt": ("auth",),
    "cryptography": ("auth", "signing", "http_client.tls"),
    "yaml": ("config.migration", "config.strict_yaml", "cli", "listing.documents", "listing.static"),
    "httptools": ("http_client.lean_connection", "http_server.request_reader"),
    "msgspec": ("jsonrpc",),
    "jsonschema_rs": ("schema.validation",),
    "jsonschema": ("listing.static",),
    "jsonpath_rfc9535": ("settings.custom",),
    "click": ("cli", "cli.options"),
    "uvloop": ("cli",),
    "tomlkit": ("cli.client_entries", "web.clients"),
    "jinja2": ("web.pages",),
    "redis": ("store",),
    "prometheus_client": ("telemetry.metrics", "telemetry.figures"),
    "opentelemetry": ("telemetry.spans",),
    "pydantic": ("settings", "units", "config.source", "config.key_file", "cli.config_reference"),
}
EVERYWHERE = {"msgspec.Struct", "msgspec.field", "msgspec.structs", "msgspec.UNSET", "msgspec.UnsetType"}
"""What may be named in any file. A struct is made in a third of a dataclass's time, and a call makes some twenty."""
WITHIN_FUNCTIONS = {
    ("gateway.cli.options", "uvloop"),
    ("gateway.store.choice", "gateway"),
    ("gateway.telemetry.tracing", "gateway"),
    ("gateway.listing.static", "jsonschema"),
    ("gateway.listing.static", "referencing"),
    ("gateway.settings.custom", "jsonpath_rfc9535"),
    ("gateway.web.clients", "tomlkit"),
    ("gateway.web.pages", "jinja2"),
}
TOO_VAGUE = {"utils", "util", "helpers", "common", "core", "base", "misc", "manager"}
MAX_LINES = 400
MOST_TOKENS_OF_TESTS = 690_000


class Import(NamedTuple):
    """A module that is imported, and whether within a function."""

    module: str
    inner: bool


def path_of(module: str) -> Path:
    path = GATEWAY.parent.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def imports(module: str) -> tuple[Import, ...]:
    return tuple(_imports(ast.parse(path_of(module).read_text()), False))


def _imports(node: ast.AST, inner: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, inner) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            yield from (Import(f"{child.module}.{alias.name}", inner) for alias in child.names)
        else:
            yield from _imports(child, inner or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))


def own(module: str) -> set[str]:
    """The gateway's modules that one imports; a name out of a module counts as that module."""
    found = set()
    for name, _ in imports(module):
        if name.partition(".")[0] == "gateway":
            found.add(name if name in MODULES else name.rpartition(".")[0])
    return found - {"gateway"}


def top(module: str) -> str:
    return module.split(".")[1]


INNER = [module for module in MODULES if module != "gateway"]


def test_every_part_of_the_house_stands_on_a_step() -> None:
    assert {top(module) for module in INNER} <= set(STEP)


def test_a_file_imports_only_from_below_or_from_its_own_folder() -> None:
    above = {
        f"{module} is not above {used}"
        for module in INNER
        for used in own(module)
        if top(used) != top(module) and STEP[top(used)] >= STEP[top(module)]
    }
    assert above == set()


def test_the_http_server_could_leave_the_house() -> None:
    """It names no other part of the gateway but these, so that its reader needs no other either."""
    outside = {used for module in MODULES if top(f"{module}.") == "http_server" for used in own(module)}
    allowed = {
        "gateway.errors", "gateway.networks", "gateway.telemetry.sampling", "gateway.concurrency.turns",
        "gateway.concurrency.collector",
    }  # fmt: skip
    assert {used for used in outside if not used.startswith("gateway.http_server")} == allowed


def test_nobody_imports_in_a_circle() -> None:
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join((*trail[trail.index(module) :], module))
        if module not in done:
            for used in sorted(own(module)):
                visit(used, (*trail, module))
            done.add(module)

    for module in MODULES:
        visit(module, ())


def test_imports_stand_at_the_top() -> None:
    inner = {(module, name.partition(".")[0]) for module in MODULES for name, within in imports(module) if within}
    assert inner == WITHIN_FUNCTIONS


def library_of(name: str) -> str | None:
    """The longest library in HOMES that an imported name belongs to."""
    if any(name == one or name.startswith(f"{one}.") for one in EVERYWHERE):
        return None
    parts = name.split(".")
    prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((prefix for prefix in prefixes if prefix in HOMES), None)


def is_at_home(module: str, library: str | None) -> bool:
    place = module.removeprefix("gateway.")
    return any(place == home or place.startswith(f"{home}.") for home in HOMES.get(library or "", (place,)))


def test_each_library_is_named_in_its_home_alone() -> None:
    astray = {
        f"{module} imports {name}"
        for module in INNER
        for name, _ in imports(module)
        if not is_at_home(module, library_of(name))
    }
    assert astray == set()


def test_the_homes_are_not_empty_words() -> None:
    used = {library_of(name) for module in MODULES for name, _ in imports(module)}
    assert used >= HOMES.keys()


def test_a_file_is_named_after_what_it_is_about() -> None:
    assert [module for module in MODULES if TOO_VAGUE & set(module.split("."))] == []


def test_a_file_can_be_held_in_the_head() -> None:
    """A file of tests, too."""
    files = (*GATEWAY.rglob("*.py"), *files_of_tests())
    lines = {str(path.relative_to(GATEWAY.parent)): path.read_text().count("\n") for path in files}
    assert len(lines) > len(MODULES) > 100
    assert {path: count for path, count in lines.items() if count > MAX_LINES} == {}, "each is two files"


def files_of_tests() -> Iterator[Path]:
    """Yield the files of tests and of lab, without what they install among them."""
    for folder in (TESTS, LAB):
        for path in folder.rglob("*.py"):
            if not any(part.startswith(".") or part == "node_modules" for part in path.relative_to(folder).parts):
                yield path


def test_tests_need_nothing_of_the_lab() -> None:
    """The lab imports from tests, and never the reverse."""
    asked = {
        f"{path.relative_to(TESTS.parent)}: {name}"
        for path in files_of_tests()
        if path.is_relative_to(TESTS)
        for name, _ in _imports(ast.parse(path.read_text()), False)
        if name.partition(".")[0] == "lab"
    }
    assert asked == set()


def test_tests_stay_of_a_size_that_can_be_known() -> None:
    """The tests of the lab count, too. Rows that run equal lines are one table, and texts are data."""
    files = [path for path in files_of_tests() if path.is_relative_to(TESTS) or path.name.startswith("test_")]
    tokens = sum(tokens_of(path.read_text()) for path in files)
    assert 400_000 < tokens <= MOST_TOKENS_OF_TESTS


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("# a comment\n\n", 0),
        ('"""A docstring\nof two lines."""\n', 1),
        ("a = 1  # one\n", 3),
        ("a = f\"{b} and {c + 1:>{width}} and {f('x')}\"\n", 3),
        ('print(f"a{f"{b}"}c" if x else y)\n' if sys.version_info >= (3, 12) else "print(f'a' if x else y)\n", 8),
        ("def f(a, *, b=2):\n    return a\n", 14),
    ],
)
def test_a_token_is_a_word_a_sign_or_a_whole_text(text: str, tokens: int) -> None:
    assert tokens_of(text) == tokens


def test_a_file_says_what_it_is() -> None:
    assert [module for module in MODULES if not ast.get_docstring(ast.parse(path_of(module).read_text()))] == []


def test_a_class_name_stands_once() -> None:
    nodes = (node for module in MODULES for node in ast.walk(ast.parse(path_of(module).read_text())))
    classes = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    assert {name for name, count in classes.items() if count > 1} == set()
