"""A further revision of the stateless era is one row of its table: here on a copy of the package, as a program."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from tests.fault.scripted import ScriptedBackend
from tests.program import Program, settings
from tests.protocol.talk import CAPABILITIES, SERVER

PACKAGE: Final = Path(__file__).parents[2] / "gateway"
NOW: Final = "2026-07-28"
LATER: Final = "2027-01-01"
ROW: Final = f"""\
        ModernRevision("{LATER}", ToolProjector(outputs=False), BLOCKS_2025_06,
            introduces=("name",), identifies=("version",), discover_ttl=7),
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the gateway that serves the later revision as well."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(PACKAGE, folder / "gateway", ignore=shutil.ignore_patterns("__pycache__"))
    era = folder / "gateway" / "mcp" / "modern.py"
    before = era.read_text()
    after = re.sub(rf'(?m)^(?=        ModernRevision\("{NOW}")', ROW, before)
    assert len(after) == len(before) + len(ROW)
    era.write_text(after)
    return folder


class Client:
    """Asks one gateway, at whatever version."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def ask(self, version: str, method: str, **params: Any) -> Any:
        """The response."""
        meta = {"io.modelcontextprotocol/protocolVersion": version, CAPABILITIES: {}}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        headers = {"MCP-Protocol-Version": version, "Mcp-Method": method, "Accept": "application/json"}
        if "name" in params:
            headers["Mcp-Name"] = params["name"]
        async with self._session.post(self._url, json=message, headers=headers) as response:
            return await response.json()

    async def result(self, version: str, method: str, **params: Any) -> Any:
        return (await self.ask(version, method, **params))["result"]


@pytest.fixture
async def client(copy: Path) -> AsyncIterator[Client]:
    environ = {"PYTHONPATH": str(copy), "PYTHONSAFEPATH": "1"}
    async with (
        ScriptedBackend() as backend,
        aiohttp.ClientSession() as session,
        Program("serve", *settings(backend.url), environ=environ) as program,
    ):
        await program.logged("listing refreshed")
        port = (await program.logged("gateway started"))["port"]
        yield Client(session, f"http://127.0.0.1:{port}/mcp")


async def test_the_version_that_a_request_names_picks_the_row(client: Client) -> None:
    for _ in range(2):  # what one version was shown is not kept for the other
        now, later = [await client.result(version, "tools/list") for version in (NOW, LATER)]
        assert [("outputSchema" in page["tools"][0], page["_meta"][SERVER].keys()) for page in (now, later)] == [
            (True, {"name", "title", "version"}),
            (False, {"version"}),
        ]
        call = {"name": "add", "arguments": {"a": 2, "b": 3}}
        now, later = [await client.result(version, "tools/call", **call) for version in (NOW, LATER)]
        assert [("structuredContent" in called, called["content"]) for called in (now, later)] == [
            (True, [{"type": "text", "text": '{"sum":5}'}]),
            (False, [{"type": "text", "text": '{"sum":5}'}]),
        ]


async def test_discover_offers_both_and_introduces_the_server_as_the_row_says(client: Client) -> None:
    now, later = [await client.result(version, "server/discover") for version in (NOW, LATER)]
    assert now["supportedVersions"] == later["supportedVersions"] == [LATER, NOW]
    assert (now["ttlMs"], later["ttlMs"]) == (300_000, 7)
    assert later["_meta"] == {SERVER: {"name": "Scripted backend"}}


async def test_a_version_that_neither_row_has_is_told_of_both(client: Client) -> None:
    error = (await client.ask("2028-01-01", "tools/list"))["error"]
    assert (error["code"], error["data"]["supported"]) == (-32022, [LATER, NOW])
