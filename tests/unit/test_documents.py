"""The documents are whole: links lead somewhere, indexes have each page, names and floors are those of the code."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from tests.each import each
from tests.unit.test_structure import FLOORS, GATEWAY

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), ROOT / "tests" / "README.md",
    ROOT / "lab" / "README.md",
]  # fmt: skip
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors_of(page: Path) -> set[str]:
    """The fragments of its headings, as the usual viewers make them."""
    headings = re.findall(r"^#+ (.+)$", without_code(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def leads_astray(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    return not target.exists() or bool(anchor and anchor not in anchors_of(target))


def test_every_relative_link_leads_somewhere() -> None:
    links = {(page, link) for page in PAGES for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page))}
    relative = {(page, link) for page, link in links if not re.match(r"[a-z]+:", link)}
    assert len(relative) > 50
    assert {f"{page.relative_to(ROOT)}: {link}" for page, link in relative if leads_astray(page, link)} == set()


def test_decisions_are_numbered_once() -> None:
    numbers = Counter(page.name.partition("-")[0] for page in DECISIONS)
    assert [number for number, times in numbers.items() if times > 1] == []


def test_decisions_are_few_and_each_is_one_page() -> None:
    assert 0 < len(DECISIONS) <= 30
    assert [page.name for page in DECISIONS if lines_of(page) > 60] == []


def test_a_decision_that_is_named_has_a_page() -> None:
    """In the code, in tests, and in documents: ``decision 44``, and ``decisions/0044``."""
    numbers = {int(page.name.partition("-")[0]) for page in DECISIONS}
    files = [*GATEWAY.rglob("*.py"), *our_tests(), *PAGES]
    pattern = re.compile(r"\b[Dd]ecisions? (\d+)|\bdecisions/0*(\d+)")
    named = {(int(first or second), file) for file in files for first, second in pattern.findall(file.read_text())}
    assert len(named) > 20
    assert [f"{file.relative_to(ROOT)}: {number}" for number, file in named if number not in numbers] == []


def lines_of(page: Path) -> int:
    return page.read_text().count("\n")


def our_tests() -> list[Path]:
    """Return the files of tests and of lab. Below tests/services stand packages that are not ours."""
    found = (path for folder in ("tests", "lab") for path in (ROOT / folder).rglob("*.py"))
    return [path for path in found if not {".venv", "node_modules"} & {*path.parts}]


@each(("page", "most"), [("README.md", 250), ("CONTRIBUTING.md", 90)])
def test_a_first_page_can_be_read_at_once(page: str, most: int) -> None:
    assert lines_of(ROOT / page) <= most


def words_of(page: Path) -> int:
    """Return how many words a page has, its examples too, tables apart."""
    return sum(len(line.split()) for line in page.read_text().splitlines() if not line.startswith("|"))


def test_the_readme_is_short() -> None:
    assert 500 < words_of(ROOT / "README.md") <= 1200


README_ORDER = [
    "One command for your service", "A session", "Connect a client", "What it reaches", "A team without OAuth",
    "OAuth", "Deploy", "Built on",
    "Documentation",
]  # fmt: skip


def test_the_readme_says_first_what_people_need_first() -> None:
    assert re.findall(r"^## (.+)$", without_code(ROOT / "README.md"), re.MULTILINE) == README_ORDER


def releases() -> dict[str, str]:
    """What the changelog says, by release."""
    _, *parts = re.split(r"^## \[(.+?)\].*$", CHANGELOG, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


@each("release", [*releases()])
def test_a_release_has_each_heading_once_and_in_order_and_nothing_twice(release: str) -> None:
    before, *parts = re.split(r"^### (.+)$", releases()[release], flags=re.MULTILINE)
    headings, lists = parts[::2], parts[1::2]
    assert before.strip() == ""
    assert headings == [kind for kind in KINDS if kind in headings]
    assert all(entries.startswith("\n\n- ") for entries in lists), "an empty line, then the list"
    assert all(entries.endswith("\n\n") or entries is lists[-1] for entries in lists), "an empty line before a heading"
    entries = Counter(entry for text in lists for entry in re.findall(r"^- .+(?:\n  .+)*", text, re.MULTILINE))
    assert [entry for entry, times in entries.items() if times > 1] == []


def test_the_architecture_page_has_the_floors_that_the_imports_keep() -> None:
    """It is one line each: the names, and behind two spaces what is there."""
    block = ARCHITECTURE.split("## The floors")[1].split("```")[1]
    assert tuple(line.split("  ")[0] for line in block.strip().splitlines()) == FLOORS


def definitions(module: Path) -> set[str]:
    """Return the names that a module defines at its top, and the members of its classes as ``Class.member``."""
    found: set[str] = set()
    for node in ast.parse(module.read_text()).body:
        found |= names_defined(node)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{member}" for item in node.body for member in names_defined(item)}
    return found


def names_defined(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


def file_named(path: str) -> Path:
    """Return the file that the architecture page names: below gateway/, or in another folder of the repository."""
    return ROOT / path if (ROOT / path).is_file() else GATEWAY / path


def test_the_architecture_page_names_files_that_exist() -> None:
    named = set(re.findall(r"`([\w/]+\.py)`", ARCHITECTURE))
    assert len(named) > 50
    assert [path for path in sorted(named) if not file_named(path).is_file()] == []


def test_the_architecture_page_names_what_stands_in_the_named_file() -> None:
    """A name, or several with commas, follows its file: ``file.py`: `Name`, `Other.member```."""
    follows = re.findall(r"`([\w/]+\.py)`: (`[\w.]+`(?:,\s+`[\w.]+`(?!:))*)", ARCHITECTURE)
    named = {(path, name) for path, names in follows for name in re.findall(r"`([\w.]+)`", names)}
    assert len(named) > 50
    absent = [f"{path}: {name}" for path, name in sorted(named) if name not in definitions(file_named(path))]
    assert absent == []


def test_the_architecture_page_names_only_what_is_defined() -> None:
    spans = set(re.findall(r"`((?:_|[A-Z])\w*(?:\.\w+)?)`", ARCHITECTURE))
    known = {name for module in [*GATEWAY.rglob("*.py"), *our_tests()] for name in definitions(module)}
    assert sorted(spans - known) == []


@each("folder", ["docs", "docs/decisions", "docs/issuers"])
def test_each_page_is_in_the_index_of_its_folder(folder: str) -> None:
    index = ROOT / folder / "README.md"
    pages = {page.name for page in index.parent.glob("*.md")} - {"README.md"}
    linked = set(re.findall(r"\]\(([^)#\s]+\.md)\)", index.read_text()))
    assert pages - linked == set()


def test_the_indexes_are_in_the_index_of_docs() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    folders = [page.parent.name for page in (ROOT / "docs").glob("*/README.md")]
    assert [folder for folder in folders if f"({folder}/README.md)" not in index] == []


def test_the_index_of_decisions_has_their_titles_in_their_order() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text()
    listed = re.findall(r"^\| \[(\d+)\]\(([^)]+)\) \| ([^|]+?) \|", index, re.MULTILINE)
    titles = [(page, re.match(r"# (\d+)\. (.+)", page.read_text())) for page in DECISIONS]
    assert listed == [(title[1], page.name, title[2]) for page, title in titles if title]


@each("house", ["tests", "lab"])
def test_the_page_of_tests_names_every_folder(house: str) -> None:
    page = (ROOT / house / "README.md").read_text()
    folders = {file.parent.name for file in (ROOT / house).glob("*/*.py")}
    assert {folder for folder in folders if f"`{house}/{folder}`" not in page} == set()


def test_contributing_names_every_command_of_the_makefile() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    commands = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert [command for command in commands if command != "help" and f"make {command}" not in page] == []
