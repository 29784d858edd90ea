"""Make an older version of the gateway: a wheel of a commit, in a virtual environment of its own below ``.cache``."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from lab.deploy.manifests import Image
from lab.release.tree import export

COMMIT: Final = "2468f4bd161b38b1a88974d7d8e6162053a40918"
"""The last one before the part about deployment began: alerts and the page for operators were just there."""
_ROOT: Final = Path(__file__).parents[2]


class CommitMissing(Exception):
    """Raised where the history lacks the commit; the message says which command fetches it."""


def older() -> Image:
    """Return the older version, which is built where it is not there yet. Raises :class:`CommitMissing`."""
    prefix = _ROOT / ".cache" / "deploy" / COMMIT
    stamp = prefix / ".installed"
    if not stamp.exists():
        with tempfile.TemporaryDirectory() as folder:
            _unpack(Path(folder))
            _install(Path(folder), prefix)
        stamp.touch()
    return Image(prefix)


def _unpack(folder: Path) -> None:
    try:
        export(COMMIT, folder)
    except subprocess.CalledProcessError:
        shallow = subprocess.run(["git", "rev-parse", "--is-shallow-repository"], cwd=_ROOT, capture_output=True)
        fetch = "git fetch --unshallow" if shallow.stdout.strip() == b"true" else f"git fetch origin {COMMIT}"
        raise CommitMissing(f"the older version is commit {COMMIT}, which this history lacks. Run: {fetch}") from None


def _install(source: Path, prefix: Path) -> None:
    """Build the wheel, and install it with what the commit itself has locked."""
    _run("bash", _ROOT / "tests" / "venv.sh", sys.executable, prefix)
    pip = (prefix / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check")
    _run(*pip, "wheel", "--no-deps", "--wheel-dir", source / "wheels", source)
    _run(*pip, "install", "--require-hashes", "--only-binary", ":all:", "-r", source / "deploy" / "requirements.txt")
    (wheel,) = (source / "wheels").glob("*.whl")
    _run(*pip, "install", "--no-deps", wheel)


def _run(*command: str | Path) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}"
