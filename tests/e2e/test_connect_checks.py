"""`connect --write` asks the service before it writes the entry, and says what came of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.mistakes.contact.stand_ins import standing
from tests.mistakes.contact.vocabulary import stand_in
from tests.program import Ran, run
from tests.tls import Authority

FILE = ("--client", "claude-code", "--entry", "shop", "--write", "--file")


async def _written(there: Any, folder: Path, *more: str) -> tuple[Ran, bool]:
    """Return what the command came to, and whether the entry is there."""
    file = folder / "mcp.json"
    async with standing(stand_in(there), Authority(folder)) as port:
        ran = await run("connect", f"http://127.0.0.1:{port}/jsonrpc", *FILE, str(file), *more)
    return ran, "shop" in json.loads(file.read_text())["mcpServers"]


async def test_the_number_of_tools_is_said(tmp_path: Path) -> None:
    ran, is_written = await _written({"listed": ["add", "sub"]}, tmp_path)
    assert (ran.code, is_written) == (0, True)
    assert "shop: checked, 2 tools." in ran.err


async def test_what_is_wrong_is_said_and_the_entry_is_written_for_the_day_when_it_is_mended(tmp_path: Path) -> None:
    ran, is_written = await _written({"greeting": {"first": "SSH-2.0-OpenSSH_9.2p1\r\n"}}, tmp_path)
    assert (ran.code, is_written) == (0, True)
    assert 'shop: checked, and it cannot be used yet. It does not speak HTTP: it sends "SSH-2.0' in ran.err
    assert "Set backend.url to the JSON-RPC endpoint" in ran.err


async def test_unchecked_asks_nobody(tmp_path: Path) -> None:
    ran, is_written = await _written("listed", tmp_path, "--unchecked")
    assert (ran.code, is_written) == (0, True)
    assert "checked" not in ran.err
