"""``/metrics`` says what was done: each family grows by what is known to have happened."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import ClientSession
from structlog.testing import capture_logs

from gateway.telemetry.families import FAMILIES
from gateway.telemetry.metrics import render
from tests.each import each
from tests.fault.behaviours import Cut, Hang, error
from tests.fault.methods import METHODS
from tests.fault.scripted import ScriptedBackend
from tests.front import Front, front
from tests.protocol.talk import LEGACY, MODERN, Client, legacy_headers, request
from tests.scrape import OPEN, Scrape, scrape
from tests.tls import Authority
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("both_servers")

ADD: Final = {"a": 2, "b": 3}
TRACE: Final = "0af7651916cd43dd8448eb211c80319c"
REQUESTS: Final = "mcp_gateway_requests_total"
TOOLS: Final = "mcp_gateway_tool_calls_total"
OPERATIONS: Final = "mcp_server_operation_duration_seconds_count"
EXCHANGES: Final = "rpc_client_call_duration_seconds_count"


@pytest.fixture
async def session() -> AsyncIterator[ClientSession]:
    async with ClientSession() as session:
        yield session


async def scraped(gateway: Front, session: ClientSession, accept: str = "") -> Scrape:
    assert gateway.gateway is not None
    return await scrape(session, gateway.gateway.admin_port, accept)


def talk(gateway: Front, session: ClientSession) -> Client:
    return Client(session, gateway.port)


async def test_every_family_of_the_table_is_exported_and_no_other(session: ClientSession) -> None:
    async with ScriptedBackend() as backend, front(backend.url) as gateway:
        found = await scraped(gateway, session)
    kinds = {family.name: family.type for family in found.families if not family.name.startswith("process_")}
    assert kinds == {family.name.removesuffix("_total"): family.kind for family in FAMILIES}
    assert found.value("process_open_fds") > 0


@each(("surface", "revision"), [("modern", MODERN), ("legacy", LEGACY[0]), ("rest", ""), ("tool", ""), ("jsonrpc", "")])
async def test_a_call_is_counted_on_its_surface_by_how_it_ended(surface: str, revision: str) -> None:
    shown = "mcp" if revision else surface
    labels = {"surface": shown, "mcp_protocol_version": revision, "mcp_method_name": "tools/call",
              "gen_ai_operation_name": "execute_tool", "network_transport": "tcp"}  # fmt: skip
    async with ScriptedBackend() as backend, front(backend.url) as gateway, ClientSession() as session:

        async def call(tool: str, arguments: dict[str, Any]) -> None:
            if surface in ("modern", "legacy", "rest"):
                await gateway.call(surface, tool, arguments)  # type: ignore[arg-type]
            else:
                path = f"/mcp/tools/{tool}" if surface == "tool" else "/jsonrpc"
                await gateway.post(gateway.base + path, request(tool, arguments))

        before = await scraped(gateway, session)
        await call("add", ADD)
        await call("add", ADD)
        await call("fail", {})
        after = await scraped(gateway, session)
    code = {"tool": "-32603", "jsonrpc": "-32603"}.get(surface, "")
    failure = {"mcp": "tool_error", "rest": "execution_error"}.get(shown, code)
    assert after.grown(before, REQUESTS, surface=shown, outcome="ok") == 2
    assert after.grown(before, REQUESTS, surface=shown, outcome="execution_error") == 1
    assert after.grown(before, OPERATIONS, error_type="", **labels) == 2
    assert after.grown(before, OPERATIONS, error_type=failure, rpc_response_status_code=code, **labels) == 1
    assert after.grown(before, TOOLS, gen_ai_tool_name="add", outcome="ok") == 2
    assert after.grown(before, TOOLS, gen_ai_tool_name="fail", outcome="failed") == 1
    assert after.grown(before, TOOLS, gen_ai_tool_name="fail", outcome="ok") == 0
    assert after.grown(before, "mcp_gateway_tool_call_seconds_total", gen_ai_tool_name="add") > 0
    assert after.grown(before, EXCHANGES, error_type="", rpc_system_name="jsonrpc") == 2
    assert after.grown(before, EXCHANGES, error_type="_other", rpc_response_status_code="_other") == 1


async def test_the_sum_of_the_counter_is_the_number_of_lines_in_the_log(session: ClientSession) -> None:
    async with ScriptedBackend() as backend, front(backend.url) as gateway:
        client = talk(gateway, session)
        before = await scraped(gateway, session)
        with capture_logs() as logs:
            for surface in ("modern", "legacy", "rest"):
                await gateway.call(surface, "add", ADD)  # type: ignore[arg-type]
                await gateway.call(surface, "fail", {})  # type: ignore[arg-type]
            await client.mcp([request("tools/call", {"name": name}, id=name) for name in ("void", "fail", "no")],
                             legacy_headers("2025-03-26"))  # fmt: skip
            await client.post("/jsonrpc", [request("add", ADD), {"jsonrpc": "2.0"}, request("no_such", {})])
            await client.post("/jsonrpc", request("no_such", {}))
            await client.modern("tools/list")
            await client.modern("no/such")
            await client.mcp(b"{")
            await client.get("/nope")
        after = await scraped(gateway, session)
    lines = [line for line in logs if line["event"] == "request"]
    assert len(lines) == 19
    for outcome in {line["outcome"] for line in lines}:
        number = sum(line["outcome"] == outcome for line in lines)
        assert after.grown(before, REQUESTS, outcome=outcome) == number, outcome
    assert after.grown(before, REQUESTS) == len(lines)
    # neither the two batches, nor the four that have no method
    assert after.grown(before, OPERATIONS) == len(lines) - 2 - 3
    ran = after.grown(before, TOOLS)
    assert ran == sum(backend.calls(tool) for tool in ("add", "fail", "void")) == after.grown(before, EXCHANGES) == 9


async def test_a_sampled_trace_is_an_exemplar_of_its_bucket_in_openmetrics(session: ClientSession) -> None:
    async with ScriptedBackend() as backend, front(backend.url) as gateway:
        for flags in ("00", "01"):
            trace = TRACE.replace("0a", flags)
            await gateway.call("rest", "add", ADD, {"traceparent": f"00-{trace}-b7ad6b7169203331-{flags}"})
        found = await scraped(gateway, session, OPEN)
    (family,) = (one for one in found.families if one.name == "mcp_server_operation_duration_seconds")
    exemplars = {sample.exemplar.labels["trace_id"] for sample in family.samples if sample.exemplar}
    assert TRACE.replace("0a", "01") in exemplars
    assert TRACE.replace("0a", "00") not in exemplars


@pytest.mark.own_server("it is slow, and about what is counted")
async def test_ten_thousand_names_that_a_stranger_makes_up_add_no_line(session: ClientSession) -> None:
    size = 50

    async def ask(client: Client, first: int) -> None:
        made = range(first, first + size)
        await client.post("/jsonrpc", [request(f"tool_{n}", {}, id=n) for n in made])
        odd = [request("tools/call", {"name": f"name_{n}"}, id=n) for n in made[::2]]
        odd += [request(f"method/{n}", {}, id=n) for n in made[1::2]]
        await client.mcp(odd, legacy_headers("2025-03-26"))
        about = {"protocolVersion": LEGACY[0], "capabilities": {}, "clientInfo": {"name": f"c{first}", "version": "1"}}
        await client.mcp(request("initialize", about), {"User-Agent": f"agent {first}"})
        await client.get(f"/path/{first}")

    async with ScriptedBackend() as backend, front(backend.url, "telemetry.log.level=error") as gateway:
        client = talk(gateway, session)
        await ask(client, 0)
        before = await scraped(gateway, session)
        for first in range(size, 10_000 + size, size):
            await ask(client, first)
        after = await scraped(gateway, session)
    assert after.counters.keys() == before.counters.keys()
    assert after.grown(before, REQUESTS) == 200 * (2 * size + 4)


async def test_a_call_that_was_refused_is_none_of_its_tool(session: ClientSession) -> None:
    async with ScriptedBackend() as backend, front(backend.url, "catalog.tools={add: {limit: 1/hour}}") as gateway:
        before = await scraped(gateway, session)
        for _ in range(3):
            await gateway.call("modern", "add", ADD)
        after = await scraped(gateway, session)
    assert after.grown(before, TOOLS, gen_ai_tool_name="add") == 1
    assert after.grown(before, REQUESTS, outcome="rate_limited") == 2
    assert after.grown(before, "mcp_gateway_limits_refused_total", limit="tool") == 2


async def test_limits_say_their_kind(session: ClientSession) -> None:
    knobs = ("limits.discovery=1/hour", "limits.invocation=1/hour", "limits.concurrent=1")
    async with ScriptedBackend() as backend, front(backend.url, *knobs) as gateway:
        before = await scraped(gateway, session)
        for _ in range(2):
            await talk(gateway, session).modern("tools/list")
        backend.on("echo", Hang("nothing"))
        hanging = asyncio.create_task(gateway.call("rest", "echo", {"value": 1}))
        await backend.called("echo")
        for _ in range(10):  # the burst
            await gateway.call("rest", "add", ADD)
        backend.release.set()
        await hanging
        after = await scraped(gateway, session)
    refused = {limit: after.grown(before, "mcp_gateway_limits_refused_total", limit=limit)
               for limit in ("discovery", "invocation", "concurrency", "tool")}  # fmt: skip
    assert refused == {"discovery": 1, "invocation": 1, "concurrency": 9, "tool": 0}


async def test_an_exchange_that_is_made_again_counts_twice_and_one_that_fails_by_its_word(
    session: ClientSession,
) -> None:
    knobs = "catalog.tools={add: {annotations: {idempotentHint: true}}}"
    async with ScriptedBackend() as backend, front(backend.url, knobs) as gateway:
        backend.on("add", Cut("nothing", "reset"))
        backend.on("echo", error(-32601, "gone"))
        before = await scraped(gateway, session)
        await gateway.call("rest", "add", ADD)
        await gateway.call("rest", "echo", {"value": 1})
        after = await scraped(gateway, session)
    assert backend.calls("add") == 2
    assert after.grown(before, "mcp_gateway_resends_total") == 1
    assert after.grown(before, EXCHANGES, error_type="backend_unavailable") == 2
    assert after.grown(before, EXCHANGES, error_type="-32601", rpc_response_status_code="-32601") == 1


async def test_the_exchange_of_a_call_whose_client_has_left_is_counted_when_it_ends(session: ClientSession) -> None:
    async with ScriptedBackend() as backend, front(backend.url) as gateway:
        backend.on("echo", Hang("nothing"))
        before = await scraped(gateway, session)
        call = asyncio.create_task(gateway.call("legacy", "echo", {"value": 1}))
        await backend.called("echo")
        call.cancel()
        await asyncio.wait([call])

        async def left() -> bool:
            return (await scraped(gateway, session)).grown(before, REQUESTS, outcome="left") == 1

        await until(left)
        assert (await scraped(gateway, session)).grown(before, EXCHANGES) == 0
        backend.release.set()

        async def counted() -> bool:
            return (await scraped(gateway, session)).grown(before, EXCHANGES) == 1

        await until(counted)
        assert (await scraped(gateway, session)).grown(before, TOOLS, gen_ai_tool_name="echo") == 0


async def test_queue_and_slots_show_calls_that_wait(session: ClientSession) -> None:
    async with ScriptedBackend() as backend, front(backend.url, "backend.connections=2") as gateway:
        before = await scraped(gateway, session)
        backend.default = Hang("nothing")
        calls = [asyncio.create_task(gateway.call("rest", "echo", {"value": 1})) for _ in range(4)]

        async def one_waits() -> bool:
            found = await scraped(gateway, session)
            return found.value("mcp_gateway_queue_length") == 3 and found.value("mcp_gateway_slots_in_use") == 1

        await until(one_waits)
        assert (await scraped(gateway, session)).value("mcp_gateway_slots") == 2
        backend.release.set()
        await asyncio.gather(*calls)
        after = await scraped(gateway, session)
    assert after.grown(before, "mcp_gateway_queue_wait_seconds_count") == 3
    assert after.value("mcp_gateway_queue_length") == 0


async def test_a_service_that_is_away_is_not_available_and_its_breaker_opens(session: ClientSession) -> None:
    async with ScriptedBackend() as backend, front(backend.url) as gateway:
        good = await scraped(gateway, session)
        assert good.value("mcp_gateway_service_available") == 1
        assert good.value("mcp_gateway_catalog_tools") == len(METHODS)
        await backend.close()
        assert gateway.gateway is not None
        for _ in range(11):
            await gateway.call("rest", "add", ADD)
        await gateway.gateway.refresh_listings()
        bad = await scraped(gateway, session)
        await backend.open()
    assert bad.value("mcp_gateway_service_available") == 0
    assert bad.value("mcp_gateway_breaker_open") == 1
    assert bad.grown(good, "mcp_gateway_breaker_openings_total") == 1
    assert bad.grown(good, "mcp_gateway_catalog_refreshes_total", result="failed") == 1
    assert bad.value("mcp_gateway_catalog_tools") == len(METHODS)


async def test_streams_and_sessions_are_counted_while_they_are_open(session: ClientSession) -> None:
    async with ScriptedBackend() as backend, front(backend.url) as gateway:
        id = await talk(gateway, session).initialize(LEGACY[0])
        headers = {**legacy_headers(LEGACY[0], id), "Accept": "text/event-stream"}
        async with session.get(gateway.mcp, headers=headers) as stream:
            await stream.content.readany()
            found = await scraped(gateway, session)
    assert (found.value("mcp_gateway_streams_open"), found.value("mcp_gateway_sessions_open")) == (1, 1)


@pytest.mark.own_server("aiohttp's has no limit of connections")
async def test_connections_are_counted(session: ClientSession) -> None:
    async with ScriptedBackend() as backend, front(backend.url, "server.max_connections=50") as gateway:
        await gateway.tools()
        found = await scraped(gateway, session)
    assert found.value("mcp_gateway_connections_open") >= 1
    assert found.value("mcp_gateway_connections_limit") == 50


async def test_a_certificate_for_the_service_says_when_it_ends(session: ClientSession, tmp_path: Path) -> None:
    cert = Authority(tmp_path).client_pem()
    files = (f"backend.tls.cert_file={cert}", f"backend.tls.key_file={cert}")
    async with ScriptedBackend() as backend, front(backend.url, *files) as gateway:
        found = await scraped(gateway, session)
    (end,) = found.lines("mcp_gateway_certificate_expiry_seconds", file=str(cert))
    assert end > found.value("mcp_gateway_start_time_seconds")


@pytest.mark.own_server("no gateway is started")
async def test_a_family_that_only_a_newer_worker_knows_hides_no_other() -> None:
    """During an upgrade workers of two versions report to one parent."""
    found = {("mcp_gateway_of_tomorrow", ""): [1.0], ("mcp_gateway_queue_length", ""): [3.0]}
    text, _ = await render((found, {}), [""], "")
    assert b"of_tomorrow" not in text
    assert b'\nmcp_gateway_queue_length{service=""} 3.0\n' in text
