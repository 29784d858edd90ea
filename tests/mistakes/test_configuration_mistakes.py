"""Who makes a mistake in the configuration is told what is wrong and what to do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from signal import SIGHUP

import pytest

from tests.configuring import file, put
from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.mistakes.configuration import ROWS
from tests.mistakes.entry_point import told
from tests.mistakes.mistake import Mistake, Told
from tests.mistakes.row import Row
from tests.program import Program


@pytest.fixture(scope="module")
def printed() -> Mapping[str, Told]:
    return told(ROWS)


@each("row", ROWS, ids=lambda row: row.mistake.name)
def test_a_mistake_in_the_configuration_is_told_with_its_remedy(printed: Mapping[str, Told], row: Row) -> None:
    row.mistake.judge(printed[row.mistake.name])


RELOADS = (
    (Mistake("a reload with a faulty file", "catalog.ttl", "5m", None), "catalog: {ttl: 5 minutes}\n", "catalog.ttl"),
    (
        Mistake("a reload of what needs a restart", "server.max_connections", "restart", None),
        "server: {max_connections: 5000}\n",
        "server.max_connections",
    ),
)


@pytest.fixture
async def serving(backend: ScriptedBackend, tmp_path: Path) -> AsyncIterator[tuple[Program, Path, str]]:
    text = f"backend: {{url: {backend.url}}}\nauth: {{mode: off}}\n"
    path = file(tmp_path, text)
    ports = ("--set", "server.port=0", "--set", "server.admin_port=0")
    async with Program("serve", "--config", str(path), *ports) as program:
        await program.logged("listing refreshed")
        yield program, path, text


@each("mistake, more, seen", RELOADS, ids=None)
async def test_a_mistake_at_a_reload_is_logged_with_its_remedy(
    serving: tuple[Program, Path, str], mistake: Mistake, more: str, seen: str
) -> None:
    program, path, text = serving
    put(path, text + more)
    program.signal(SIGHUP)
    await program.said(seen)
    mistake.judge(Told(None, program.output))


def test_there_are_at_least_38_mistakes_of_different_names() -> None:
    names = {row.mistake.name for row in ROWS} | {mistake.name for mistake, _, _ in RELOADS}
    assert len(names) == len(ROWS) + len(RELOADS) >= 38
