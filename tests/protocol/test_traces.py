"""Traces: which requests have spans, what these say and never say, and what they are part of (OpenTelemetry's
conventions for MCP and for JSON-RPC; docs/tracing.md)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiohttp import ClientSession
from structlog.testing import capture_logs

from gateway.config.source import ConfigError
from gateway.telemetry import tracing
from tests.fault.behaviours import Cut, Honest, InTurn, error, result
from tests.fault.scripted import ScriptedBackend
from tests.front import front
from tests.otlp import CLIENT, SERVER, Collector, Received
from tests.protocol.grouped import grouped
from tests.protocol.talk import JSON, LEGACY, Client, legacy_headers, modern_headers, modern_request, request
from tests.protocol.test_trace import ADD, CALLS, PARENT, STATE, received
from tests.waiting import until

OTHER = "00-beef7651916cd43dd8448eb211c80319-c7ad6b7169203332-01"
CALLED = "tools/call add"

Start = Callable[..., Awaitable[Client]]


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    async with Collector() as collector:
        yield collector


@pytest.fixture
async def trace(
    collector: Collector, backend: ScriptedBackend, session: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Start]:
    """``await trace("section.knob=value", OTEL_NAME="value")`` is the client of a gateway with traces."""
    async with AsyncExitStack() as stack:

        async def started(*knobs: str, **environ: str) -> Client:
            for name, value in {**collector.environ, **environ}.items():
                monkeypatch.setenv(name, value)
            gateway = await stack.enter_async_context(front(backend.url, "telemetry.traces=on", *knobs))
            await until(lambda: collector.named("read listing") or "OTEL_TRACES_SAMPLER" in environ)
            return Client(session, gateway.port)

        yield started


async def call(client: Client, surface: str, status: int = 200, **headers: str) -> dict[str, Any]:
    """Call ``add``, and return the line of its request; of a batch that of its message."""
    path, body, own = CALLS[surface]
    with capture_logs() as logs:
        answer = await client.send("POST", path, json.dumps(body).encode(), {**JSON, **own, **headers})
    assert answer.status == status
    return dict(next(line for line in logs if line["event"] == "request"))


def ids(traceparent: str) -> tuple[str, str]:
    return traceparent[3:35], traceparent[36:52]


async def two(collector: Collector) -> tuple[Received, Received]:
    """The span of the one call, and that of its exchange with the service."""
    return await collector.span(CALLED), await collector.span("add")


@pytest.mark.parametrize("surface", CALLS)
async def test_a_call_has_one_trace_in_its_spans_its_line_and_at_the_service(
    surface: str, trace: Start, collector: Collector, backend: ScriptedBackend
) -> None:
    client = await trace()
    line = await call(client, surface)
    server, sent = await two(collector)
    assert (server.kind, sent.kind) == (SERVER, CLIENT)
    assert line["trace_id"] == server.trace_id == sent.trace_id
    assert sent.parent == server.id
    assert ids(received(backend)["traceparent"]) == (sent.trace_id, sent.id)
    assert received(backend)["traceparent"].endswith("-01")
    assert server.began <= sent.began <= sent.ended <= server.ended
    assert not server.failed
    assert not sent.failed


async def test_spans_have_the_names_and_attributes_of_the_conventions(
    trace: Start, collector: Collector, backend: ScriptedBackend
) -> None:
    client = await trace(OTEL_SERVICE_NAME="books", OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test")
    await call(client, "modern", **{"X-Request-Id": "mine"})
    server, sent = await two(collector)
    assert server.attributes == {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "jsonrpc.request.id": "1",
        "mcp.protocol.version": "2026-07-28",
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "client.address": "127.0.0.1",
        "http.response.status_code": 200,
        "mcp_gateway.surface": "mcp",
        "mcp_gateway.request_id": "mine",
        "mcp_gateway.outcome": "ok",
    }
    assert sent.attributes == {
        "rpc.system.name": "jsonrpc",
        "rpc.method": "add",
        "server.address": "127.0.0.1",
        "server.port": backend.port,
    }
    resource = server.resource
    assert (resource["service.name"], resource["deployment.environment.name"]) == ("books", "test")
    assert resource["service.instance.id"]
    assert resource["telemetry.sdk.name"] == "opentelemetry"


@pytest.mark.parametrize("surface", ["modern", "legacy", "rest", "jsonrpc"])
async def test_a_failure_of_the_service_marks_both_spans(
    surface: str, trace: Start, collector: Collector, backend: ScriptedBackend
) -> None:
    backend.on("add", error(-32000, "no"))
    client = await trace()
    await call(client, surface, status=500 if surface == "rest" else 200)
    server, sent = await two(collector)
    assert server.failed
    assert sent.failed
    assert sent.attributes["error.type"] == sent.attributes["rpc.response.status_code"] == "-32000"
    by_surface = {"rest": "execution_error", "jsonrpc": "-32603"}
    assert server.attributes["error.type"] == by_surface.get(surface, "tool_error")
    assert server.attributes["mcp_gateway.outcome"] == "execution_error"


async def test_a_parent_in_the_body_is_the_parent_and_that_of_http_a_link(
    trace: Start, collector: Collector, backend: ScriptedBackend
) -> None:
    client = await trace()
    body = modern_request("tools/call", ADD | {"_meta": {"traceparent": PARENT, "tracestate": STATE}})
    await client.mcp(body, {**modern_headers("tools/call", "add"), "traceparent": OTHER})
    server, sent = await two(collector)
    assert (server.trace_id, server.parent) == ids(PARENT)
    assert server.links == [ids(OTHER)]
    assert server.state == STATE
    assert sent.parent == server.id
    assert received(backend) == {"traceparent": f"00-{sent.trace_id}-{sent.id}-01", "tracestate": STATE}


@pytest.mark.parametrize("surface", [surface for surface in CALLS if surface != "batch"])
async def test_the_context_of_http_alone_is_the_parent(surface: str, trace: Start, collector: Collector) -> None:
    client = await trace()
    line = await call(client, surface, traceparent=PARENT)
    server, _ = await two(collector)
    assert (server.trace_id, server.parent) == ids(PARENT)
    assert server.links == []
    assert line["trace_id"] == server.trace_id


async def test_a_listing_request_has_the_parent_in_its_body_too(trace: Start, collector: Collector) -> None:
    client = await trace()
    await client.modern("tools/list", {"_meta": {"traceparent": PARENT}})
    span = await collector.span("tools/list")
    assert (span.trace_id, span.parent) == ids(PARENT)


async def test_the_messages_of_a_batch_are_below_it(trace: Start, collector: Collector) -> None:
    client = await trace()
    await client.mcp([request("tools/call", ADD, id=1), request("tools/call", ADD, id=2)], legacy_headers("2025-03-26"))
    whole = await collector.span("batch")
    parts = await collector.spans(CALLED, 2)
    assert {(part.trace_id, part.parent) for part in parts} == {(whole.trace_id, whole.id)}
    assert {part.attributes["jsonrpc.request.id"] for part in parts} == {"1", "2"}


async def test_a_call_that_is_sent_again_has_a_span_for_each_exchange(
    trace: Start, collector: Collector, backend: ScriptedBackend
) -> None:
    backend.on("add", InTurn((Cut("nothing", "reset"), Honest())))
    client = await trace("catalog.tools={add: {annotations: {idempotentHint: true}}}")
    await call(client, "rest")
    first, second = await collector.spans("add", 2)
    assert (first.failed, second.failed) == (True, False)
    assert first.attributes["error.type"] == "backend_unavailable"
    assert first.parent == second.parent == (await collector.span(CALLED)).id
    sent = [ids(one.headers["traceparent"])[1] for one in backend.requests if one.method == "add"]
    assert sent == [first.id, second.id]


async def test_a_refused_request_has_a_span_without_an_exchange(
    trace: Start, collector: Collector, backend: ScriptedBackend
) -> None:
    client = await trace()
    with capture_logs() as logs:
        await client.modern("tools/call", {"name": "no_such_tool", "arguments": {}})
    span = await collector.span("tools/call")
    assert [line["trace_id"] for line in logs if line["event"] == "request"] == [span.trace_id]
    assert span.attributes["gen_ai.tool.name"] == "no_such_tool"
    assert span.failed
    assert span.attributes["error.type"] == span.attributes["rpc.response.status_code"] == "-32602"


async def test_the_name_of_a_span_is_none_that_a_stranger_made_up(trace: Start, collector: Collector) -> None:
    client = await trace()
    await client.modern("made/up")
    await client.send("POST", "/mcp/tools/invoke", b'{"name": "\\ud800", "arguments": {}}', JSON)
    await client.send("GET", "/nope")
    spans = [await collector.span(name) for name in ("_other", "tools/call", "GET")]
    assert [span.failed for span in spans] == [True, True, True]


async def test_a_listing_that_is_read_has_a_span_of_its_own(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in collector.environ.items():
        monkeypatch.setenv(name, value)
    async with grouped("telemetry.traces=on"):
        spans = await collector.spans("read listing", 2)
    assert [(span.kind, span.parent, span.failed) for span in spans] == [(CLIENT, "", False)] * 2
    assert {span.attributes["mcp_gateway.service"] for span in spans} == {"crm", "shop"}


@pytest.mark.parametrize(
    "sampler",
    [
        {"OTEL_TRACES_SAMPLER": "always_off"},
        {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"},
        {"OTEL_TRACES_SAMPLER": "parentbased_always_off"},
    ],
)
async def test_what_is_not_sampled_sends_no_span_and_tells_the_service(
    sampler: dict[str, str], trace: Start, collector: Collector, backend: ScriptedBackend
) -> None:
    """Else each service would decide for itself, and record what nobody sees whole."""
    client = await trace(**sampler)
    assert (await call(client, "rest"))["trace_id"] == ""
    assert received(backend)["traceparent"].endswith("-00")
    unsampled = PARENT[:-2] + "00"
    assert (await call(client, "rest", traceparent=unsampled))["trace_id"] == PARENT[3:35]
    assert received(backend)["traceparent"] == unsampled
    tracing.stop()
    assert collector.raw == []


async def test_the_flag_of_the_parent_decides_before_the_ratio(
    trace: Start, collector: Collector, backend: ScriptedBackend
) -> None:
    client = await trace(OTEL_TRACES_SAMPLER="parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG="0")
    await call(client, "rest")
    await call(client, "rest", traceparent=PARENT[:-2] + "00")
    await call(client, "rest", traceparent=PARENT)
    assert (await collector.span(CALLED)).trace_id == PARENT[3:35]


async def test_without_parentbased_the_ratio_decides_whatever_the_parent_says(
    trace: Start, collector: Collector
) -> None:
    client = await trace(OTEL_TRACES_SAMPLER="traceidratio", OTEL_TRACES_SAMPLER_ARG="0.5")
    low, high = "0" * 16 + "7" * 16, "f" * 32
    await call(client, "rest", traceparent=f"00-{high}-b7ad6b7169203331-01")
    await call(client, "rest", traceparent=f"00-{low}-b7ad6b7169203331-00")
    assert (await collector.span(CALLED)).trace_id == low


SECRETS = {"value": {"password": "canary-1", "note": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJjYW5hcnktMiJ9.canary", "page": 7}}


async def test_spans_have_no_arguments_no_results_and_no_tokens(
    trace: Start, collector: Collector, backend: ScriptedBackend
) -> None:
    backend.on("echo", result({"answer": "canary-3"}))
    client = await trace("backend.credentials.mode=static", "backend.credentials.send.headers.X-Api-Key=canary-4")
    secret = {"Authorization": "Bearer canary-5", "baggage": "user=canary-6"}
    for path, body in (
        ("/mcp/tools/invoke", {"name": "echo", "arguments": SECRETS}),
        ("/jsonrpc", request("echo", SECRETS)),
        ("/mcp/tools/invoke", {"name": "echo", "arguments": {"canary-7": 1}}),
    ):
        await client.send("POST", path + "?key=canary-8", json.dumps(body).encode(), {**JSON, **secret})
    session = await client.initialize(LEGACY[0])
    await collector.spans("echo", 2)
    await collector.span("initialize")
    seen = b"".join(collector.raw)
    assert b"canary" not in seen
    assert session.encode() not in seen
    assert b"gen_ai.tool.call" not in seen


async def test_content_is_shown_only_on_request_and_then_masked_and_cut(
    trace: Start, collector: Collector, backend: ScriptedBackend
) -> None:
    backend.on("echo", result({"token": "canary-3", "text": "é" * 2000}))
    client = await trace("telemetry.traces=content")
    await client.post("/jsonrpc", request("echo", SECRETS))
    span = await collector.span("tools/call echo")
    shown = span.attributes["gen_ai.tool.call.arguments"]
    assert json.loads(shown) == {"value": {"password": "***", "note": "***", "page": 7}}
    returned = span.attributes["gen_ai.tool.call.result"]
    assert returned.startswith('{"token":"***","text":"éé')
    assert 1000 < len(returned.encode()) <= 1024
    assert b"canary" not in b"".join(collector.raw)
    backend.on("echo", result("x" * 100_000))
    await client.post("/jsonrpc", request("echo", {"value": "y" * 100_000}))
    _, large = await collector.spans("tools/call echo", 2)
    assert large.attributes["gen_ai.tool.call.arguments"] == "(100012 bytes)"
    assert large.attributes["gen_ai.tool.call.result"] == "(100002 bytes)"


@pytest.mark.parametrize(
    ("environ", "fault"),
    [
        ({"OTEL_TRACES_SAMPLER": "sometimes"}, "OTEL_TRACES_SAMPLER=sometimes"),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"}, "OTEL_TRACES_SAMPLER_ARG=2"),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "x"}, "OTEL_TRACES_SAMPLER_ARG=x"),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "nan"}, "OTEL_TRACES_SAMPLER_ARG=nan"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "must be http/protobuf, mostly on port 4318, not grpc"),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "1"}, "max_export_batch_size must be less than or equal to max_queue_size"),
    ],
)
async def test_a_variable_that_makes_no_sense_is_a_fault_at_the_start(
    environ: dict[str, str], fault: str, trace: Start
) -> None:
    with pytest.raises(ConfigError, match=r"telemetry\.traces: ") as caught:
        await trace(**environ)
    assert fault in str(caught.value)
    assert tracing.active is None


async def test_otel_sdk_disabled_ends_all_of_it(trace: Start, backend: ScriptedBackend) -> None:
    client = await trace(OTEL_SDK_DISABLED="true", OTEL_TRACES_SAMPLER="always_on")
    assert tracing.active is None
    await call(client, "rest")
    assert received(backend) == {}
