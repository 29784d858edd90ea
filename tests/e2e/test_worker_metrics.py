"""``/metrics`` of several workers: their parent has the sums, and no counter goes back."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import ClientSession

from tests.configuring import file, put
from tests.e2e.test_reload import until
from tests.e2e.test_workers import ENDED, STARTED, both, two_workers
from tests.fault.scripted import ScriptedBackend
from tests.front import Front
from tests.program import Program
from tests.scrape import Scrape, scrape

REQUESTS = "mcp_gateway_requests_total"
TOOLS = "mcp_gateway_tool_calls_total"
ADD = {"a": 2, "b": 3}
CALLS = 40


async def call_many(gateway: Front) -> None:
    """Call on a connection for each call, so that both workers get some."""
    for _ in range(CALLS):
        async with ClientSession() as session:
            assert (await Front(gateway.port, session).call("rest", "add", ADD)).status == 200


def lines(program: Program) -> int:
    return sum('"event":"request"' in line for line in program.lines)


async def test_the_parent_has_the_sums_of_its_workers_and_keeps_those_of_one_that_was_killed(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    async with two_workers(backend, tmp_path) as (program, gateway, admin), ClientSession() as session:
        port = urlsplit(admin).port
        assert port is not None

        async def counted(calls: int) -> Scrape:
            async def is_counted() -> bool:
                return (await scrape(session, port)).value(REQUESTS, outcome="ok") == calls

            await until(is_counted)
            return await scrape(session, port)

        await both(admin)
        await call_many(gateway)
        before = await counted(CALLS)
        assert before.value(TOOLS, gen_ai_tool_name="add", outcome="ok") == CALLS
        assert before.value("mcp_gateway_workers") == before.value("mcp_gateway_workers_configured") == 2
        assert before.value("mcp_gateway_catalog_tools") == 4
        killed, _ = await both(admin)
        os.kill(killed, signal.SIGKILL)
        await program.logged(ENDED)
        without = await scrape(session, port)
        assert {line for line, value in before.counters.items() if without.counters[line] < value} == set()
        await program.logged(STARTED, 3)
        await both(admin)
        await call_many(gateway)
        after = await counted(2 * CALLS)
        assert {line for line, value in before.counters.items() if after.counters[line] < value} == set()
        assert after.value("mcp_gateway_workers_replaced_total") == 1
        assert after.value("mcp_gateway_workers") == 2

        async def all_are_written() -> bool:
            return lines(program) == 2 * CALLS

        await until(all_are_written)


async def test_the_page_has_what_all_workers_refused_what_is_not_offered_and_where_values_come_from(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    more = ("catalog.exclude=[echo]", "catalog.tools={add: {scopes: [sums]}}")
    async with two_workers(backend, tmp_path, *more) as (_, gateway, admin), ClientSession() as session:
        await both(admin)
        for _ in range(CALLS):
            async with ClientSession() as one:
                assert (await Front(gateway.port, one).call("rest", "add", {"a": "two"})).status != 200

        async def page() -> str:
            async with session.get(f"{admin}/") as response:
                assert response.status == 200
                return await response.text()

        text = await until(page, lambda text: text.count("<bdi>add</bdi>") == CALLS, 20.0)
        assert "hidden by catalog.exclude: &#34;echo&#34;" in text
        assert "catalog.exclude" in text.partition('id="configuration"')[2]
        async with session.post(f"{admin}/reload", headers={"Origin": admin}) as response:
            assert response.status == 200


async def test_with_workers_the_page_says_once_why_a_configuration_was_refused(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    good = "catalog: {exclude: [echo]}\n"
    path = file(tmp_path, good)
    async with two_workers(backend, tmp_path, config=path) as (_, _, admin), ClientSession() as session:
        await both(admin)

        async def asked(verb: str, where: str) -> tuple[int, str]:
            async with session.request(verb, f"{admin}/{where}", headers={"Origin": admin}) as response:
                return response.status, await response.text()

        assert await asked("POST", "refresh") == (200, "listed anew\n")
        put(path, "catalog: {exclude: [echo], ttl: often}\n")
        status, said = await asked("POST", "reload")
        assert (status, said.count("catalog.ttl")) == (409, 1)

        async def page() -> str:
            return (await asked("GET", ""))[1]

        refused = await until(page, lambda text: text.count("the configuration was refused") == 1, 20.0)
        assert "1 thing to look at" in refused
        assert "Correct the file. It is read again by itself" in refused
        assert f"{path}:1" in refused
        put(path, good)
        assert await asked("POST", "reload") == (200, "reloaded\n")
        await until(page, lambda text: "the configuration was refused" not in text, 20.0)
