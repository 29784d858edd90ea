"""What ``/metrics`` says of reloads of a file, refused and good ones."""

from __future__ import annotations

from pathlib import Path

from aiohttp import ClientSession

from tests.e2e.test_reload import RELOADED, serving, written
from tests.fault.scripted import ScriptedBackend
from tests.scrape import Scrape, scrape
from tests.waiting import until

RELOADS = "mcp_gateway_config_reloads_total"


async def test_a_refused_reload_shows_until_a_good_one(backend: ScriptedBackend, tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    written(file, backend.url)
    async with serving(file) as (program, _), ClientSession() as session:
        admin = (await program.logged("gateway started"))["admin_port"]

        async def reloads() -> tuple[float, float, float]:
            found = await scrape(session, admin)
            ended = (found.value(RELOADS, result=result) for result in ("ok", "refused"))
            return (*ended, found.value("mcp_gateway_config_last_reload_successful"))  # type: ignore[return-value]

        before = await scrape(session, admin)
        assert await reloads() == (0, 0, 1)
        written(file, backend.url, limits="{discovery: often}")
        await program.logged("configuration refused, the old one stays")
        assert await until(reloads, lambda seen: seen[1]) == (0, 1, 0)
        assert when(await scrape(session, admin)) == when(before)
        written(file, backend.url, limits="{discovery: 7/minute}")
        await program.logged(RELOADED)
        assert await until(reloads, lambda seen: seen[0]) == (1, 1, 1)
        assert when(await scrape(session, admin)) > when(before)
        file.unlink()
        await until(lambda: missing(session, admin), lambda seen: seen == 1)


def when(found: Scrape) -> float:
    return found.value("mcp_gateway_config_last_reload_timestamp_seconds")


async def missing(session: ClientSession, admin: int) -> float:
    return (await scrape(session, admin)).value("mcp_gateway_config_files_missing")
