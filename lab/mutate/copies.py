"""Copies of the checkout, each with an environment of its own: the checkout itself is never written to."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from lab.bench.machine import Unusable
from lab.bench.peers.environments import interpreter
from lab.mutate.lines import HOOK

ROOT: Final = Path(__file__).parents[2]
HOME: Final = ROOT / ".cache" / "mutate"
_VERSIONS: Final = ("3.13", "3.12")


class Refused(Exception):
    """It cannot be done; the text says what to do."""


def python() -> str:
    """Return a Python that can say which lines run (``sys.monitoring``). Raises :class:`Refused`."""
    if hasattr(sys, "monitoring"):
        return sys.executable
    for version in _VERSIONS:
        try:
            return interpreter(version)
        except Unusable:
            pass
    raise Refused("there is no Python 3.12 or later here. Install one, for example: pyenv install 3.13")


def copy(number: int) -> Path:
    """Return a copy that is as the checkout is now, also what is not committed, and has all that tests need."""
    folder = HOME / "copies" / str(number)
    if not (folder / ".git").exists():
        _run("git", "clone", "--quiet", str(ROOT), str(folder))
    for command in (("fetch", "--quiet", str(ROOT), "HEAD"), ("reset", "--quiet", "--hard", "FETCH_HEAD")):
        _run("git", "-C", str(folder), *command)
    _run("git", "-C", str(folder), "clean", "--quiet", "--force", "-d")
    for name in (*_git("diff", "--name-only", "HEAD"), *_git("ls-files", "--others", "--exclude-standard")):
        target = folder / name
        if (ROOT / name).exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
        else:
            target.unlink(missing_ok=True)
    print(f"copy {number}: installing what tests need ...", flush=True)
    base = "" if (folder / ".venv").exists() else python()
    _run("make", "-C", str(folder), "services", "VENV=.venv", *([f"PYTHON={base}"] if base else []))
    packages = next((folder / ".venv" / "lib").glob("python3.*")) / "site-packages"
    (packages / "mutate.pth").write_text(f"{HOOK}\n")
    return folder


def interpreter_of(folder: Path) -> str:
    return str(folder / ".venv" / "bin" / "python")


def digest(*folders: str) -> str:
    """Return what the files of these folders come to, without what stands in .gitignore, and without this tool."""
    summed = hashlib.sha256()
    for name in sorted(_git("ls-files", "--cached", "--others", "--exclude-standard", "--", *folders)):
        path = ROOT / name
        if path.is_file() and not path.is_relative_to(Path(__file__).parent):
            summed.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return summed.hexdigest()[:16]


def _git(*arguments: str) -> list[str]:
    """Return the names that a command of git prints."""
    first, *more = arguments
    done = subprocess.run(["git", "-C", str(ROOT), first, "-z", *more], capture_output=True, text=True, check=True)
    return list(filter(None, done.stdout.split("\0")))


def _run(*command: str) -> None:
    """Run a command. Raises :class:`Refused` with what it said."""
    # What was given to an outer `make` is not meant for an inner one.
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    if done.returncode:
        raise Refused(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-2000:]}")
