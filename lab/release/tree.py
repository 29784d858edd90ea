"""The tree that a release is built from: the commit that is checked out, with the project's address if one is given."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

import tomlkit

ROOT: Final = Path(__file__).parents[2]
DISTRIBUTED: Final = (
    "gateway",
    "config",
    "docs",
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "pyproject.toml",
)
"""What is in the sdist."""
_LINK: Final = re.compile(r"(\]\()([^)\s]+)(\))")
_QUESTIONS: Final = re.compile(r'^QUESTIONS: Final = ""$', re.MULTILINE)
_FENCED: Final = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
_IMAGES: Final = frozenset({".png", ".svg"})
_FORMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "gitlab": "{url}/-/{kind}/{tag}/{path}",
        "codeberg": "{url}/{kind}/tag/{tag}/{path}",
        "gitea": "{url}/{kind}/tag/{tag}/{path}",
        "": "{url}/{kind}/{tag}/{path}",
    }
)
"""Where a hosting site shows a file, by a word in its name; the last form is that of GitHub."""


class Refused(Exception):
    """The release cannot be made: the message says why, and what to do."""


def commit() -> str:
    """Return the commit that is checked out. Raise :class:`Refused` where files differ from it."""
    if changed := _git("status", "--porcelain").splitlines():
        files = ", ".join(line[3:] for line in changed[:5])
        raise Refused(f"a release is built from a commit, and files differ from it: {files}. Commit them, or git stash")
    return _git("rev-parse", "HEAD")


def time_of(commit: str) -> str:
    """Return when the commit was made, in seconds since 1970: files of the release have this time."""
    return _git("show", "--no-patch", "--format=%ct", commit)


def export(commit: str, folder: Path) -> None:
    """Write the files of a commit into ``folder``. Raise CalledProcessError where the history lacks it."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")


def pages(tree: Path) -> Iterator[Path]:
    """Yield the Markdown files that are distributed."""
    for name in DISTRIBUTED:
        path = tree / name
        yield from sorted(path.rglob("*.md")) if path.is_dir() else [path] * (path.suffix == ".md")


def relative_links(tree: Path) -> int:
    """Return how many links of the distributed pages lead to a file by a relative path."""
    return sum(map(_is_relative, (link for page in pages(tree) for link in _links_of(page))))


def fill(tree: Path, url: str, version: str) -> int:
    """Write the project's address into pyproject.toml and into what services are told of us, and make relative links
    absolute: to the files of the tag of this version. Return how many links were changed. Raise :class:`Refused` where
    ``url`` is none of a project."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or not parts.path.strip("/") or parts.query or parts.fragment:
        raise Refused(
            f"URL={url} is not the address of a project, such as https://github.com/owner/jsonrpc-mcp-gateway"
        )
    url = url.rstrip("/")
    changed = 0
    for page in pages(tree):

        def absolute(link: re.Match[str], page: Path = page) -> str:
            nonlocal changed
            if not _is_relative(link[2]):
                return link[0]
            changed += 1
            path, mark, anchor = link[2].partition("#")
            target = (page.parent / path).resolve().relative_to(tree.resolve())
            return f"{link[1]}{address_of(url, f'v{version}', target.as_posix())}{mark}{anchor}{link[3]}"

        chunks = _FENCED.split(page.read_text(encoding="utf-8"))
        chunks[::2] = [_LINK.sub(absolute, chunk) for chunk in chunks[::2]]
        page.write_text("".join(chunks), encoding="utf-8")
    _name_urls(tree / "pyproject.toml", url, version)
    package = tree / "gateway/__init__.py"
    named = f'QUESTIONS: Final = "{address_of(url, f"v{version}", "docs/reach.md")}"'
    package.write_text(_QUESTIONS.sub(lambda _: named, package.read_text(encoding="utf-8"), 1), encoding="utf-8")
    return changed


def address_of(url: str, tag: str, path: str) -> str:
    """Return where the hosting site of ``url`` shows the file ``path`` of ``tag``, or has the bytes of an image."""
    host = urlsplit(url).hostname or ""
    word = next(word for word in _FORMS if word in host)
    page = "src" if word in ("codeberg", "gitea") else "blob"
    kind = "raw" if PurePosixPath(path).suffix in _IMAGES else page
    return _FORMS[word].format(url=url, kind=kind, tag=tag, path=path)


def _name_urls(pyproject: Path, url: str, version: str) -> None:
    document = tomlkit.parse(pyproject.read_text(encoding="utf-8"))
    tag = f"v{version}"
    document["project"]["urls"] = {
        "Homepage": url,
        "Documentation": address_of(url, tag, "docs/README.md"),
        "Changelog": address_of(url, tag, "CHANGELOG.md"),
        "Source": url,
    }
    pyproject.write_text(tomlkit.dumps(document), encoding="utf-8")


def _links_of(page: Path) -> Iterator[str]:
    for chunk in _FENCED.split(page.read_text(encoding="utf-8"))[::2]:
        yield from (link[2] for link in _LINK.finditer(chunk))


def _is_relative(link: str) -> bool:
    return not link.startswith("#") and not urlsplit(link).scheme


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.rstrip("\n")
