"""What people install: wheel and sdist, each in a fresh environment of each Python, where the README's session runs.
And the wheel as pipx and uvx install it.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from lab.bench.machine import Unusable
from lab.bench.peers.environments import interpreter
from lab.image.lock import TOOLS as UV_TOOLS
from lab.release.distributions import TOOLS, run
from lab.release.tree import ROOT, Refused
from tests import readme_session

PYTHONS: Final = ("3.11", "3.12", "3.13")
_CLIENT: Final = "mcp==2.3.*"
"""The official client, which the README's session installs beside the gateway."""


def interpreters() -> dict[str, str]:
    """Return an interpreter for each version. Raise :class:`Refused` with what to install if one is missing."""
    found, missing = {}, []
    for version in PYTHONS:
        try:
            found[version] = interpreter(version)
        except Unusable as reason:
            missing.append(str(reason))
    if missing:
        raise Refused("; ".join(missing))
    return found


def tried(distribution: Path, interpreters: dict[str, str], version: str) -> Iterator[str]:
    """Yield a line for each environment in which the session printed what the README shows."""
    for name, base in interpreters.items():
        with tempfile.TemporaryDirectory(prefix="release-") as folder:
            home = Path(folder) / "environment"
            python = home / "bin" / "python"
            run("bash", ROOT / "tests" / "venv.sh", base, home)
            run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", distribution, _CLIENT)
            # Elsewhere than in a checkout, or Python would import the gateway from there.
            empty = Path(folder) / "empty"
            empty.mkdir()
            place = run(python, "-c", "import gateway; print(gateway.__file__)", cwd=empty)
            assert place.startswith(f"{home}/"), f"the gateway is imported from {place}"
            said = run(home / "bin" / "jsonrpc-mcp-gateway", "--version", cwd=empty)
            assert said == f"jsonrpc-mcp-gateway, version {version}\n", said
            assert (home / "share" / "jsonrpc-mcp-gateway" / "config" / "gateway.yaml").is_file()
            asyncio.run(readme_session.replay(str(python), empty))
        yield f"Python {name}, {distribution.name}: installed, and the README's session prints what it shows"


def tried_as_command(wheel: Path, python: str, version: str) -> Iterator[str]:
    """Yield a line for each program that installs a command in an environment of its own, and then ran it."""
    wanted = f"jsonrpc-mcp-gateway, version {version}\n"
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        places: dict[str, Any] = {f"PIPX_{name}": f"{folder}/{name}" for name in ("HOME", "BIN_DIR", "MAN_DIR")}
        run(TOOLS / "pipx", "install", "--python", python, wheel, **places)
        said = run(f"{folder}/BIN_DIR/jsonrpc-mcp-gateway", "--version", cwd=Path(folder))
        assert said == wanted, said
        yield "pipx install: the command runs"
        command = (UV_TOOLS / "uv", "tool", "run", "--isolated", "--python", python, "--from", wheel)
        said = run(*command, "jsonrpc-mcp-gateway", "--version", cwd=Path(folder))
        assert said == wanted, said
        yield "uvx: the command runs"
