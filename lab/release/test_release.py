"""What `make release` builds from: the project's address in all links, the files, the versions of Python."""

from __future__ import annotations

import io
import shutil
import tarfile
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from lab.bench.machine import Unusable
from lab.bench.peers.environments import interpreter
from lab.image import builder
from lab.image.lock import BUILD, project
from lab.release.__main__ import main
from lab.release.distributions import check_contents
from lab.release.installed import PYTHONS
from lab.release.tree import DISTRIBUTED, ROOT, Refused, address_of, fill, pages, relative_links

URL = "https://github.com/owner/gateway"
STEM = "jsonrpc_mcp_gateway-0.1.0"
FILES = {
    "gateway/a.py": "",
    "config/gateway.yaml": "",
    "docs/a.md": "[b](b.md#c) ![p](page/p.png) [x](https://x.example/y) [here](#here)\n"
    "```\n[kept](b.md)\n```\n[up](../README.md)\n",
    "docs/b.md": "",
    "LICENSE": "",
    "CHANGELOG.md": "",
    "SECURITY.md": "",
    "README.md": "[a](docs/a.md)",
    "gateway/__init__.py": '__version__ = "0.1.0"\nQUESTIONS: Final = ""\n',
    "pyproject.toml": '[project]\nname = "gateway"\n',
    "tests/test_a.py": "",
}
SDIST = [*(name for name in FILES if not name.startswith("tests/")), "PKG-INFO", ".gitignore"]
WHEEL = [
    "gateway/__init__.py",
    "gateway/a.py",
    f"{STEM}.data/data/share/jsonrpc-mcp-gateway/config/gateway.yaml",
    *(f"{STEM}.data/data/share/doc/jsonrpc-mcp-gateway/{name}" for name in ("a.md", "b.md")),
    f"{STEM}.dist-info/METADATA",
    f"{STEM}.dist-info/licenses/LICENSE",
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "tree"


def test_with_an_address_each_relative_link_outside_of_code_leads_to_the_file_of_the_tag(tree: Path) -> None:
    assert relative_links(tree) == 4
    assert fill(tree, f"{URL}/", "0.1.0") == 4
    assert (tree / "docs/a.md").read_text() == (
        f"[b]({URL}/blob/v0.1.0/docs/b.md#c) ![p]({URL}/raw/v0.1.0/docs/page/p.png) [x](https://x.example/y) "
        f"[here](#here)\n```\n[kept](b.md)\n```\n[up]({URL}/blob/v0.1.0/README.md)\n"
    )
    assert (tree / "README.md").read_text() == f"[a]({URL}/blob/v0.1.0/docs/a.md)"
    assert relative_links(tree) == 0
    urls = tomllib.loads((tree / "pyproject.toml").read_text())["project"]["urls"]
    assert urls["Homepage"] == urls["Source"] == URL
    assert urls["Changelog"] == f"{URL}/blob/v0.1.0/CHANGELOG.md"
    assert f'QUESTIONS: Final = "{URL}/blob/v0.1.0/docs/reach.md"' in (tree / "gateway/__init__.py").read_text()


@pytest.mark.parametrize(
    ("url", "page", "image"),
    [
        (URL, f"{URL}/blob/v1/a.md", f"{URL}/raw/v1/a.svg"),
        ("https://gitlab.com/g/p", "https://gitlab.com/g/p/-/blob/v1/a.md", "https://gitlab.com/g/p/-/raw/v1/a.svg"),
        ("https://codeberg.org/o/p", "https://codeberg.org/o/p/src/tag/v1/a.md", "https://codeberg.org/o/p/raw/tag/v1/a.svg"),
    ],
)  # fmt: skip
def test_each_kind_of_hosting_site_shows_files_in_its_own_place(url: str, page: str, image: str) -> None:
    assert address_of(url, "v1", "a.md") == page
    assert address_of(url, "v1", "a.svg") == image


@pytest.mark.parametrize("url", ["github.com/owner/gateway", "http://x.example/y", "https://x.example", f"{URL}?a=b"])
def test_an_address_that_is_none_of_a_project_is_refused(tree: Path, url: str) -> None:
    with pytest.raises(Refused, match="not the address of a project"):
        fill(tree, url, "0.1.0")


def test_each_link_of_our_own_pages_is_made_one_to_a_file_that_exists(tmp_path: Path) -> None:
    for page in [*pages(ROOT), ROOT / "pyproject.toml", ROOT / "gateway/__init__.py"]:
        copy = tmp_path / page.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(page, copy)
    assert fill(tmp_path, URL, "0.1.0") > 300
    assert f'"{URL}/blob/v0.1.0/docs/reach.md"' in (tmp_path / "gateway/__init__.py").read_text()
    beginnings = tuple(f"{URL}/{kind}/v0.1.0/" for kind in ("blob", "raw"))
    words = " ".join(page.read_text() for page in pages(tmp_path)).replace("(", " ").replace(")", " ").split()
    paths = {
        word.removeprefix(start).partition("#")[0] for word in words for start in beginnings if word.startswith(start)
    }
    assert len(paths) > 50
    assert [path for path in paths if not (ROOT / path).exists()] == []


def packed(folder: Path, wheel: list[str], sdist: list[str]) -> tuple[Path, Path]:
    with zipfile.ZipFile(folder / "a.whl", "w") as archive:
        for name in wheel:
            archive.writestr(name, "")
    with tarfile.open(folder / "a.tar.gz", "w:gz") as files:
        for name in sdist:
            files.addfile(tarfile.TarInfo(f"{STEM}/{name}"), io.BytesIO())
    return folder / "a.whl", folder / "a.tar.gz"


def test_wheel_and_sdist_have_each_file_that_they_should_have(tree: Path, tmp_path: Path) -> None:
    assert check_contents(*packed(tmp_path, WHEEL, SDIST), tree, "0.1.0") == (len(WHEEL) - 2, len(SDIST))


@pytest.mark.parametrize(
    ("wheel", "sdist", "fault"),
    [
        ([*WHEEL, "tests/test_a.py"], SDIST, "the wheel has"),
        (WHEEL, [*SDIST, "tests/test_a.py"], "the sdist has"),
        (WHEEL[1:], SDIST, "the wheel lacks"),
        (WHEEL, SDIST[1:], "the sdist lacks"),
        (WHEEL[:-1], SDIST, "no licence"),
    ],
)
def test_a_file_that_is_missing_or_too_much_ends_the_release(
    tree: Path, tmp_path: Path, wheel: list[str], sdist: list[str], fault: str
) -> None:
    with pytest.raises(AssertionError, match=fault):
        check_contents(*packed(tmp_path, wheel, sdist), tree, "0.1.0")


DIGEST = "0123456789abcdef" * 4


@pytest.mark.parametrize("base", ["python:3.11-slim-bookworm", f"python@sha256:{DIGEST[1:]}", f"python@{DIGEST}", " "])
def test_a_base_without_a_digest_is_refused_before_anything_is_built(
    base: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--base", base, "--no-image"]) == 1
    assert f"BASE={base} has no digest" in capsys.readouterr().err


def test_the_bill_names_a_given_base_with_its_digest() -> None:
    base = builder.base_of(f"registry.example.com:5000/python:3.11@sha256:{DIGEST}")
    assert (base["name"], base["hashes"]) == (
        "registry.example.com:5000/python:3.11", [{"alg": "SHA-256", "content": DIGEST}]
    )  # fmt: skip
    assert "pinned by its digest" in base["description"]


def test_the_project_says_of_itself_what_the_release_tries() -> None:
    said: Mapping[str, list[str]] = project()["project"]
    versions = [
        line.rpartition(" ")[2]
        for line in said["classifiers"]
        if line.startswith("Programming Language :: Python :: 3.")
    ]
    assert tuple(versions) == PYTHONS
    first, *others = PYTHONS
    wanted = SpecifierSet(str(said["requires-python"]))
    assert all(version in wanted for version in (first, *others))
    assert f"3.{int(first.partition('.')[2]) - 1}" not in wanted


def test_a_python_that_is_missing_is_named_with_the_command_that_installs_it() -> None:
    with pytest.raises(Unusable, match=r"there is no Python 3\.99 here\. Install it, for example: pyenv install 3\.99"):
        interpreter("3.99")


def test_the_sdist_is_told_to_hold_what_is_looked_for() -> None:
    told = project()["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"]
    assert {*told, "LICENSE", "pyproject.toml"} == set(DISTRIBUTED)


def test_a_release_is_built_by_the_same_version_as_the_image() -> None:
    pinned = (ROOT / "lab" / "release" / "requirements.txt").read_text().split()
    locked = BUILD.read_text().split()
    assert [line for line in pinned if line.startswith("hatchling==") and line in locked]
