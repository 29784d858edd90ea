"""The lines of a service in ``/metrics``: which tools have a name there, and what a reload makes of them."""

from __future__ import annotations

from typing import Any

from aiohttp import ClientSession

from gateway.process.server import Server
from gateway.telemetry.cells import MOST_TOOLS
from tests.fault.methods import METHODS, Rpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.talk import Client, request
from tests.protocol.test_swapping import running, several
from tests.scrape import Scrape, scrape

TOOLS = "mcp_gateway_tool_calls_total"
REQUESTS = "mcp_gateway_requests_total"
SERVICE = 'service="{}"'
MANY = [*METHODS, *(Rpc(f"tool{number:04}", {}) for number in range(300))]
LISTED = sorted(method.name for method in MANY)


async def call(session: ClientSession, server: Server, service: str, tool: str, arguments: Any = None) -> None:
    client = Client(session, server.port)
    answer = await client.post(f"/{service}/jsonrpc", request(tool, arguments or {}))
    assert b'"result"' in answer.body


async def test_the_first_200_tools_of_the_listing_are_counted_by_name() -> None:
    async with (
        ScriptedBackend(MANY) as backend,
        ClientSession() as session,
        running(several({"first": {"url": backend.url}})) as server,
    ):
        for tool in (LISTED[MOST_TOOLS - 1], *LISTED[MOST_TOOLS : MOST_TOOLS + 3]):
            await call(session, server, "first", tool)
        found = await scrape(session, server.admin_port)
    assert found.value(TOOLS, service="first", gen_ai_tool_name=LISTED[MOST_TOOLS - 1], outcome="ok") == 1
    assert found.value(TOOLS, service="first", gen_ai_tool_name="_other", outcome="ok") == 3
    assert len(list(found.lines(TOOLS, service="first"))) == 4


async def test_a_tool_that_was_called_keeps_its_name_when_the_listing_loses_it() -> None:
    async with (
        ScriptedBackend(MANY) as backend,
        ClientSession() as session,
        running(several({"losing": {"url": backend.url}})) as server,
    ):
        await call(session, server, "losing", "tool0000")
        kept = several({"losing": {"url": backend.url, "catalog": {"include": ["tool02*", "tool0000", "add"]}}})
        await server.reload(kept)
        await call(session, server, "losing", "tool0000")
        await call(session, server, "losing", "tool0299")
        found = await scrape(session, server.admin_port)
    assert found.value(TOOLS, service="losing", gen_ai_tool_name="tool0000", outcome="ok") == 2
    assert found.value(TOOLS, service="losing", gen_ai_tool_name="tool0299", outcome="ok") == 1


async def test_a_reload_keeps_the_counters_of_a_changed_service_and_ends_the_lines_of_a_removed_one() -> None:
    async with ScriptedBackend() as one, ScriptedBackend() as other, ClientSession() as session:
        both = several({"stays": {"url": one.url}, "goes": {"url": one.url}})
        async with running(both) as server:
            for service in ("stays", "goes"):
                await call(session, server, service, "add", {"a": 1, "b": 2})
            before = await scrape(session, server.admin_port)
            await server.reload(several({"stays": {"url": other.url}}))
            await server.wait_until_listed()
            after = await scrape(session, server.admin_port)
            assert SERVICE.format("goes") in before.text
            assert SERVICE.format("goes") not in after.text
            stayed = {line: value for line, value in before.counters.items() if ("service", "stays") in line[1]}
            assert len(stayed) > 30
            assert {line for line, value in stayed.items() if after.counters[line] < value} == set()
            refreshes = "mcp_gateway_catalog_refreshes_total"
            assert after.grown(before, refreshes, service="stays", result="ok") == 1
            await call(session, server, "stays", "add", {"a": 1, "b": 2})
            assert (await scrape(session, server.admin_port)).grown(after, REQUESTS, service="stays", outcome="ok") == 1


async def test_the_configuration_in_force_has_a_digest() -> None:
    async with ScriptedBackend() as backend, ClientSession() as session:
        made = several({"one": {"url": backend.url}})
        async with running(made) as server:
            first = await scrape(session, server.admin_port)
            await server.reload(several({"one": {"url": backend.url, "limits": {"streams": 7}}}))
            other = await scrape(session, server.admin_port)
            await server.reload(several({"one": {"url": backend.url}}))
            again = await scrape(session, server.admin_port)
    digests = [digest_of(one) for one in (first, other, again)]
    assert digests[0] == digests[2] != digests[1]
    assert first.value("mcp_gateway_config_last_reload_successful") == 1
    assert first.value("mcp_gateway_config_files_missing") == 0


def digest_of(found: Scrape) -> str:
    (family,) = (one for one in found.families if one.name == "mcp_gateway_config_info")
    (sample,) = family.samples
    return sample.labels["hash"]
