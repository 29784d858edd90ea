"""The wheel and the sdist: built twice with the same bytes, with the files that they shall have and no others."""

from __future__ import annotations

import os
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from lab.release.tree import DISTRIBUTED

TOOLS: Final = Path(__file__).parent / ".venv" / "bin"
NAME: Final = "jsonrpc_mcp_gateway"
_SHARED: Final = {"config": "share/jsonrpc-mcp-gateway/config", "docs": "share/doc/jsonrpc-mcp-gateway"}
_MADE: Final = frozenset({"PKG-INFO", ".gitignore"})
"""What the build adds to an sdist."""


def build(tree: Path, target: Path, time: str) -> tuple[Path, Path]:
    """Build wheel and sdist of ``tree`` into ``target``, twice. Return their paths. Raise AssertionError if the second
    build has other bytes. Files have the ``time`` that is given, in seconds since 1970."""
    names = _build(tree, target, time)
    with tempfile.TemporaryDirectory(prefix="release-") as again:
        assert _build(tree, Path(again), time) == names
        other = [name for name in names if (target / name).read_bytes() != (Path(again) / name).read_bytes()]
        assert not other, f"the second build of {other} has other bytes"
    sdist, wheel = names
    return target / wheel, target / sdist


def _build(tree: Path, target: Path, time: str) -> list[str]:
    """Build into a folder, and return the names of its files: that of the sdist first."""
    run(TOOLS / "python", "-m", "build", "--no-isolation", "--outdir", target, tree, SOURCE_DATE_EPOCH=time)
    names = [file.name for pattern in (f"{NAME}-*.tar.gz", f"{NAME}-*.whl") for file in target.glob(pattern)]
    assert len(names) == 2, names
    return names


def check(wheel: Path, sdist: Path) -> None:
    """Run twine's check and check-wheel-contents, which raise RuntimeError with what they say."""
    run(TOOLS / "twine", "check", "--strict", wheel, sdist)
    run(TOOLS / "check-wheel-contents", wheel)


def check_contents(wheel: Path, sdist: Path, tree: Path, version: str) -> tuple[int, int]:
    """Compare what is in both with the files of ``tree``. Return how many files each has. Raise AssertionError if one
    is missing or is too much."""
    stem = f"{NAME}-{version}"
    wanted = {path for path in files_of(tree) if path.partition("/")[0] in DISTRIBUTED}
    with tarfile.open(sdist) as archive:
        packed = {member.name.removeprefix(f"{stem}/") for member in archive.getmembers() if member.isfile()}
    _compare("sdist", packed, wanted | _MADE)
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if not name.startswith(f"{stem}.dist-info/")}
        assert f"{stem}.dist-info/licenses/LICENSE" in archive.namelist(), "the wheel has no licence"
    _compare("wheel", held, {_place_in_wheel(path, stem) for path in wanted} - {""})
    return len(held), len(packed)


def _place_in_wheel(path: str, stem: str) -> str:
    """Return where a file stands in the wheel, "" if it is not there."""
    top, _, rest = path.partition("/")
    if top == "gateway":
        return path
    return f"{stem}.data/data/{_SHARED[top]}/{rest}" if top in _SHARED else ""


def _compare(what: str, found: AbstractSet[str], wanted: AbstractSet[str]) -> None:
    missing, surplus = sorted(wanted - found), sorted(found - wanted)
    assert not missing, f"the {what} lacks {missing[:5]}"
    assert not surplus, f"the {what} has {surplus[:5]}, which nobody asked for"


def files_of(tree: Path) -> set[str]:
    """Return the paths of all files below ``tree``."""
    return {path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()}


def run(*command: str | Path, cwd: Path | None = None, **environ: str) -> str:
    """Run a command to its end, and return what it prints. Raise RuntimeError with its words where it fails."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=cwd, timeout=900, env={**os.environ, **environ}
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout
