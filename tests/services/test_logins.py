"""The configurations of docs/credentials.md in front of real services; Deluge and Tryton have files of their own."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from pathlib import Path

from structlog.testing import capture_logs

from tests.front import front
from tests.presets import ROOT, preset
from tests.services.launch import LOGIN_PASSWORD
from tests.services.process import Service
from tests.services.test_services_answer import fetch

METHODS = ROOT / "config" / "examples" / "methods"


async def test_transmission_gives_its_id_with_a_409_and_a_new_one_after_a_restart(
    transmission: Service, tmp_path: Path
) -> None:
    (tmp_path / "methods.yaml").write_text("methods: {session-stats: {params: {}}}")
    assert fetch(transmission.url, {"method": "session-stats"})[0] == 401
    listing = f"backend.listing={{dialect: static, file: {tmp_path / 'methods.yaml'}}}"
    file = preset(tmp_path, "Transmission", transmission.url, LOGIN_PASSWORD)
    with capture_logs() as lines:
        async with front(transmission.url, listing, file=file) as gateway:
            for _ in range(2):
                # Version 3 answers {"arguments": {…}, "result": "success"}.
                assert (await gateway.call("modern", "session-stats", {})).value == "success"
                transmission.restart()
    assert [line["method"] for line in lines if line["event"].startswith("logged in")] == ["session-get"] * 2
    assert LOGIN_PASSWORD not in repr(lines)


async def test_monerod_gets_the_answer_to_each_connections_challenge(monerod: Service, tmp_path: Path) -> None:
    shutil.copytree(METHODS, tmp_path / "methods")
    file = preset(tmp_path, "monerod", monerod.url, LOGIN_PASSWORD)
    async with front(monerod.url, file=file) as gateway:
        calls = [gateway.call("modern", "get_block_count", {}) for _ in range(200)]
        outcomes = Counter(called.text for called in await asyncio.gather(*calls) if called.failed)
        assert outcomes == {}
        assert (await gateway.call("modern", "get_block_count", {})).value["count"] == 1
    wrong = preset(tmp_path, "monerod", monerod.url, "not-the-pa55word")
    async with front(monerod.url, file=wrong) as gateway:
        refused = await gateway.call("modern", "get_block_count", {})
    assert refused.message == "The backend does not accept the gateway's credential"
