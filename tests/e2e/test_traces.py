"""Traces of gateways that are processes: one id in all four places, replicas, workers, stdio, and a collector that is
away or slow."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.e2e.test_workers import STARTED, options
from tests.fault.scripted import ScriptedBackend
from tests.otlp import Collector
from tests.program import Program, run, serving, settings, started
from tests.protocol.talk import JSON, Client, modern_headers, modern_request, request
from tests.redis_server import RedisServer
from tests.scrape import OPEN, scrape
from tests.services.process import free_port
from tests.waiting import until

TRACES = "telemetry.traces=on"
ADD = {"a": 2, "b": 3}
CALL = {"name": "add", "arguments": ADD}
CALLED = "tools/call add"
LOST = "mcp_gateway_spans_lost_total"
TOLD = "spans were lost, the collector did not take them"
OPERATIONS = "mcp_server_operation_duration_seconds_bucket"


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    async with Collector() as collector:
        yield collector


async def exemplars(session: aiohttp.ClientSession, admin_port: int) -> set[str]:
    """The ids of the traces that ``/metrics`` names."""
    found = await scrape(session, admin_port, OPEN)
    samples = (sample for family in found.families for sample in family.samples if sample.name == OPERATIONS)
    return {sample.exemplar.labels["trace_id"] for sample in samples if sample.exemplar}


def audited(file: Path) -> list[str]:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return [line["trace_id"] for line in lines if line["event"] in ("call", "begun", "ended")]


def logged(program: Program) -> list[str]:
    lines = [json.loads(line) for line in program.lines if '"event":"request"' in line]
    return [line["trace_id"] for line in lines if line["method"] == "tools/call"]


async def call(surface: str, client: Client) -> None:
    """Call ``add``. In the older era that takes a session."""
    if surface == "modern":
        await client.mcp(modern_request("tools/call", CALL), modern_headers("tools/call", "add"))
    elif surface == "legacy":
        session = await client.initialize("2025-06-18")
        headers = {**JSON, "MCP-Protocol-Version": "2025-06-18", "Mcp-Session-Id": session}
        answer = await client.send("POST", "/mcp", json.dumps(request("tools/call", CALL)).encode(), headers)
        assert answer.status == 200
    elif surface == "rest":
        assert (await client.post("/mcp/tools/invoke", CALL)).status == 200
    else:
        assert (await client.post("/jsonrpc", request("add", ADD))).status == 200


@pytest.mark.parametrize("surface", ["modern", "legacy", "rest", "jsonrpc"])
async def test_one_call_is_seen_by_one_id_in_four_places(
    surface: str, backend: ScriptedBackend, collector: Collector, tmp_path: Path
) -> None:
    audit = tmp_path / "audit.jsonl"
    knobs = (TRACES, f"telemetry.audit.to={audit}", "telemetry.audit.required=true")
    async with serving(backend.url, *knobs, environ=collector.environ) as (program, gateway):
        admin_port = (await program.logged("gateway started"))["admin_port"]
        async with aiohttp.ClientSession() as session:
            await call(surface, Client(session, gateway.port))
            span = await collector.span(CALLED)
            assert span.trace_id in await exemplars(session, admin_port)
        (sent,) = await collector.spans("add")
        seen = await until(lambda: audited(audit), lambda seen: len(seen) == 2)
        assert seen == [span.trace_id] * 2
        assert await until(lambda: logged(program)) == [span.trace_id]
        assert (sent.trace_id, sent.parent) == (span.trace_id, span.id)
        parents = [one.headers["traceparent"] for one in backend.requests if one.method == "add"]
        assert parents == [f"00-{span.trace_id}-{sent.id}-01"]


async def test_a_call_through_each_of_two_replicas_is_seen_by_its_own_id(
    backend: ScriptedBackend, collector: Collector, secret: str, tmp_path: Path
) -> None:
    """A session that one replica began goes on at the other, and its parent's id with it."""
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    audits = [tmp_path / "one", tmp_path / "two"]
    with RedisServer() as redis:
        shared = (TRACES, secret, f"store.url={redis.url}", "server.public_url=http://127.0.0.1:9999")
        first = serving(backend.url, *shared, f"telemetry.audit.to={audits[0]}", environ=collector.environ)
        second = serving(backend.url, *shared, f"telemetry.audit.to={audits[1]}", environ=collector.environ)
        async with first as (_, one), second as (program, two), aiohttp.ClientSession() as session:
            id = await Client(session, one.port).initialize("2025-06-18")
            headers = {**JSON, "MCP-Protocol-Version": "2025-06-18", "Mcp-Session-Id": id, "traceparent": parent}
            body = json.dumps(request("tools/call", CALL)).encode()
            assert (await Client(session, two.port).send("POST", "/mcp", body, headers)).status == 200
            span = await collector.span(CALLED)
            began = await collector.span("initialize")
            admin_port = (await program.logged("gateway started"))["admin_port"]
            assert (span.trace_id, span.parent) == (parent[3:35], parent[36:52])
            assert span.trace_id in await exemplars(session, admin_port)
            assert await until(lambda: audited(audits[1])) == [span.trace_id]
            assert await until(lambda: logged(program)) == [span.trace_id]
    assert began.resource["service.instance.id"] != span.resource["service.instance.id"]


async def test_each_worker_sends_its_own_spans(backend: ScriptedBackend, collector: Collector, tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    with RedisServer() as redis:
        knobs = options(backend, tmp_path, redis, TRACES, f"telemetry.audit.to={audit}")
        async with Program("serve", *knobs, environ=collector.environ) as program, aiohttp.ClientSession() as session:
            ports = await program.logged("gateway started")
            await program.logged(STARTED, 2)

            async def both_answer() -> bool:
                async with aiohttp.ClientSession() as fresh:  # on a connection of its own, for either worker
                    await call("rest", Client(fresh, ports["port"]))
                return len({span.resource["service.instance.id"] for span in collector.named(CALLED)}) == 2

            await until(both_answer)

            def ids() -> tuple[set[str], ...]:
                return {span.trace_id for span in collector.named(CALLED)}, {*logged(program)}, {*audited(audit)}

            spans, _, _ = await until(ids, lambda found: found[0] == found[1] == found[2])
            kept = await until(lambda: exemplars(session, ports["admin_port"]), lambda found: found & spans)
            assert kept & spans


async def test_stdio_has_the_same_id_in_three_places(
    backend: ScriptedBackend, collector: Collector, tmp_path: Path
) -> None:
    audit, log = tmp_path / "audit.jsonl", tmp_path / "log"
    knobs = settings(backend.url, TRACES, f"telemetry.audit.to={audit}")
    with log.open("wb") as output:
        environ = {**collector.environ, "OTEL_BSP_SCHEDULE_DELAY": "600000"}
        pipe = asyncio.subprocess.PIPE
        process = await started("stdio", *knobs, environ=environ, given=pipe, output=pipe, errors=output.fileno())
        parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        message = modern_request("tools/call", {**CALL, "_meta": {"traceparent": parent}})
        out, _ = await process.communicate(json.dumps(message).encode() + b"\n")
    assert json.loads(out)["result"]["isError"] is False
    assert process.returncode == 0
    span = await collector.span(CALLED)  # it was sent before the end, though spans wait for others
    (line,) = (json.loads(line) for line in log.read_text().splitlines() if '"event":"request"' in line)
    assert (span.trace_id, span.parent) == (parent[3:35], parent[36:52])
    assert audited(audit) == [line["trace_id"]] == [span.trace_id]
    assert span.attributes["network.transport"] == "pipe"


async def test_a_collector_that_is_away_costs_no_call(backend: ScriptedBackend) -> None:
    away = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{free_port()}", "OTEL_BSP_SCHEDULE_DELAY": "10"}
    async with serving(backend.url, TRACES, environ=away) as (program, gateway), aiohttp.ClientSession() as session:
        client = Client(session, gateway.port)
        for _ in range(20):
            await call("rest", client)
        failure = await program.logged("library")
        assert failure["logger"].startswith("opentelemetry.exporter.otlp")
        admin_port = (await program.logged("gateway started"))["admin_port"]
        await until(lambda: scrape(session, admin_port), lambda found: found.value(LOST) > 0)
        await call("rest", client)
        program.signal(signal.SIGTERM)
        assert await program.ended() == 0
    assert backend.calls("add") == 21


async def test_a_collector_that_does_not_answer_costs_no_call_and_the_oldest_spans_are_lost(
    backend: ScriptedBackend, collector: Collector
) -> None:
    collector.open.clear()
    few = {"OTEL_BSP_MAX_QUEUE_SIZE": "8", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "4"}
    environ = {**collector.environ, **few}
    async with serving(backend.url, TRACES, environ=environ) as (program, gateway), aiohttp.ClientSession() as session:
        client = Client(session, gateway.port)
        await until(lambda: collector.raw)  # from here on the thread that sends waits
        for _ in range(20):
            await call("rest", client)
        assert backend.calls("add") == 20
        full = await program.logged("library")
        assert full["message"] == "Queue full, dropping Span."
        collector.open.set()
        await until(lambda: len(collector.received) >= 9)
        lost = (await scrape(session, (await program.logged("gateway started"))["admin_port"])).value(LOST)
        program.signal(signal.SIGTERM)
        assert await program.ended() == 0
        assert (await program.logged(TOLD))["spans"] == lost > 10
    assert len(collector.received) < 30
    last = logged(program)[-1]
    assert last in {span.trace_id for span in collector.named(CALLED)}


async def test_a_stop_sends_what_waits(backend: ScriptedBackend, collector: Collector) -> None:
    late = {**collector.environ, "OTEL_BSP_SCHEDULE_DELAY": "600000"}
    async with serving(backend.url, TRACES, environ=late) as (program, gateway), aiohttp.ClientSession() as session:
        await call("rest", Client(session, gateway.port))
        assert collector.raw == []
        program.signal(signal.SIGTERM)
        assert await program.ended() == 0
    assert len(collector.named(CALLED)) == 1


async def test_a_stop_does_not_wait_for_a_collector_that_hangs(backend: ScriptedBackend, collector: Collector) -> None:
    """The SDK alone would wait for 30 s, and send again for 10."""
    collector.open.clear()
    environ = {**collector.environ, "OTEL_EXPORTER_OTLP_TIMEOUT": "600"}
    async with serving(backend.url, TRACES, environ=environ) as (program, gateway), aiohttp.ClientSession() as session:
        await call("rest", Client(session, gateway.port))
        await until(lambda: collector.raw)
        program.signal(signal.SIGTERM)
        assert await program.ended() == 0
        assert (await program.logged(TOLD))["spans"] >= 2
    assert collector.received == []


@pytest.mark.parametrize("command", ["serve", "stdio"])
async def test_without_the_extra_traces_are_a_fault_that_names_it(
    command: str, backend: ScriptedBackend, tmp_path: Path
) -> None:
    (tmp_path / "opentelemetry").mkdir()
    (tmp_path / "opentelemetry" / "__init__.py").touch()  # hides the real one
    hidden = {"PYTHONPATH": str(tmp_path)}
    ran = await run(command, *settings(backend.url, TRACES), **hidden)
    assert ran.code == 2
    assert "telemetry.traces: on needs the extra otel: pip install 'jsonrpc-mcp-gateway[otel]'" in ran.err
    async with serving(backend.url, environ=hidden) as (_, gateway):
        assert (await gateway.call("rest", "add", ADD)).status == 200


async def test_without_traces_nothing_of_opentelemetry_is_imported(backend: ScriptedBackend) -> None:
    """Python writes a line for each import, and its name stands at the end."""
    async with serving(backend.url, environ={"PYTHONPROFILEIMPORTTIME": "1"}) as (program, gateway):
        await gateway.call("rest", "add", ADD)
        names = {line.rpartition("|")[2].strip() for line in program.lines if line.startswith("import time:")}
    assert "gateway.telemetry.tracing" in names
    assert {name for name in names if name.startswith(("opentelemetry", "google", "requests"))} == set()
