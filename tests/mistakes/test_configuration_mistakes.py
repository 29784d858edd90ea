"""Who makes a mistake in the configuration is told what is wrong and what to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from signal import SIGHUP

import pytest
import trustme

from tests.configuring import file, put
from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.mistakes.mistake import Mistake, Told
from tests.mistakes.reading import read_rows
from tests.mistakes.row import Row
from tests.mistakes.telling import tell
from tests.program import Program


class Reload(Mistake, frozen=True, kw_only=True):
    """Hold a mistake in a file that is read anew: ``more`` is added to it, ``seen`` is awaited in the log."""

    more: str
    seen: str


HERE = Path(__file__).parent
ROWS = read_rows(HERE / "configuration.yaml", Row)
RELOADS = read_rows(HERE / "reloads.yaml", Reload)


@pytest.fixture(scope="module")
def told() -> Mapping[str, Told]:
    leaf = trustme.CA().issue_cert("gateway.example.com")
    pems = {"<cert.pem>": leaf.cert_chain_pems[0], "<key.pem>": leaf.private_key_pem}
    return asyncio.run(tell(ROWS, {name: pem.bytes().decode() for name, pem in pems.items()}))


@each("row", ROWS, ids=lambda row: row.name)
def test_a_mistake_in_the_configuration_is_told_with_its_remedy(told: Mapping[str, Told], row: Row) -> None:
    row.judge(told[row.name])


@pytest.fixture
async def serving(backend: ScriptedBackend, tmp_path: Path) -> AsyncIterator[tuple[Program, Path, str]]:
    text = f"backend: {{url: {backend.url}}}\nauth: {{mode: off}}\n"
    path = file(tmp_path, text)
    ports = ("--set", "server.port=0", "--set", "server.admin_port=0")
    async with Program("serve", "--config", str(path), *ports) as program:
        await program.logged("listing refreshed")
        yield program, path, text


@each("row", RELOADS, ids=lambda row: row.name)
async def test_a_mistake_at_a_reload_is_logged_with_its_remedy(serving: tuple[Program, Path, str], row: Reload) -> None:
    program, path, text = serving
    put(path, text + row.more)
    program.signal(SIGHUP)
    await program.said(row.seen)
    row.judge(Told(None, program.output))


def test_there_are_at_least_38_mistakes() -> None:
    assert len(ROWS) + len(RELOADS) >= 38
