"""The rows of docs/tuning.md: a symptom, the metric that shows it, the knob, and how its effect is measured."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from lab.tuning import calls, lists
from lab.tuning.performance import workers

Measure: TypeAlias = Callable[[str], Awaitable[str]]


@dataclass(frozen=True)
class Row:
    """Hold a row. ``measure`` gets each of ``values`` and returns what callers or the operator see with it, as text;
    ``where`` says what was measured, ``price`` what more of the knob costs."""

    symptom: str
    metric: str
    knob: str
    values: tuple[str, ...]
    where: str
    price: str
    measure: Measure


_LISTING: Final = "a service of 200 methods, a tenth of them `shop.*`"

ROWS: Final = (
    # A caller is refused.
    Row("one caller gets 429 for calls", "mcp_gateway_limits_refused_total", "limits.invocation",
        ("600/minute", "6000/minute"), "200 calls of one caller at once", "the service gets more calls",
        calls.invocation),
    Row("one caller gets 429 while its calls are slow", "mcp_gateway_limits_refused_total", "limits.concurrent",
        ("16", "64"), "40 calls of one caller at once, 0.3 s each", "one caller holds more turns", calls.concurrent),
    Row("a client that lists often gets 429", "mcp_gateway_limits_refused_total", "limits.discovery",
        ("60/minute", "600/minute"), "100 lists of one caller at once", "processor time", lists.discovery),
    Row("clients behind one address cannot open streams", "mcp_gateway_streams_open", "limits.streams",
        ("32", "64"), "48 streams of one caller", "connections and memory", lists.streams),
    Row("limits count for each replica alone", "mcp_gateway_store_available", "store.url",
        ("memory:", "redis://…"), "two replicas, 600/minute, 100 calls at each at once",
        "a Redis to run; a refused call asks it", calls.store_url),
    # Calls wait or fail.
    Row("calls wait although the service is idle", "mcp_gateway_queue_wait_seconds", "backend.connections",
        ("16", "64"), "32 callers, a service that takes 50 ms", "the service gets more calls at a time",
        calls.connections),
    Row("calls get 503 while the service is busy", "mcp_gateway_queue_length", "backend.queue_timeout",
        ("500ms", "5s"), "24 callers, 4 connections, a service that takes 0.4 s", "callers wait longer for a refusal",
        calls.queue_timeout),
    Row("callers wait too long for a service that hangs", "rpc_client_call_duration_seconds", "backend.timeout",
        ("3s", "1s"), "a call that the service never answers", "slow calls fail, and may have taken effect",
        calls.timeout),
    Row("one slow tool fails with 504", "mcp_gateway_tool_calls_total", "catalog.tools.*.timeout",
        ("1s", "10s"), "a tool that takes 1.5 s, `backend.timeout: 1s`", "a hanging tool holds its turns longer",
        calls.tool_timeout),
    Row("large results fail with 502", "mcp_gateway_tool_calls_total", "backend.max_response",
        ("1MiB", "8MiB"), "results of 2 MiB", "memory: `server.max_buffered` must not be less", calls.max_response),
    Row("calls with large results fail while others run", "mcp_gateway_response_bytes_held", "server.max_buffered",
        ("32MiB", "192MiB"), "32 results of 3 MiB at once, eight callers", "memory", calls.max_buffered),
    Row("one process uses a whole core", "mcp_gateway_event_loop_lag_seconds", "server.workers",
        ("1", "2"), "`make bench`: two cores, which the load and the service share", "memory; needs a Redis", workers),
    # Connections, and the end of the process.
    Row("clients get 503 before they ask anything", "mcp_gateway_connections_refused_total", "server.max_connections",
        ("32", "128"), "60 addresses at once", "open files, and memory of the kernel", calls.max_connections),
    Row("the same, all from the address of a proxy", "mcp_gateway_connections_refused_total", "server.trusted_proxies",
        ("[]", "[127.0.0.1/32]"), "60 connections from one address, `server.max_connections: 100`",
        "the proxy must set `X-Forwarded-For`", calls.trusted_proxies),
    Row("calls are cut off at a restart", "mcp_gateway_requests_total", "server.shutdown_timeout",
        ("500ms", "1m"), "8 calls of 1.5 s under way at SIGTERM", "a restart takes longer", calls.shutdown_timeout),
    Row("new calls are lost at a restart", "mcp_gateway_requests_total", "server.drain_delay",
        ("0ms", "3s"), "a new connection each 0.1 s after SIGTERM, no other replica", "a restart takes longer",
        calls.drain_delay),
    # Lists.
    Row("the service is listed too often", "mcp_gateway_catalog_refreshes_total", "catalog.ttl",
        ("500ms", "2s"), "requests for the listing at the service", "clients learn of new tools later", lists.ttl),
    Row("clients get 503 for lists while the service is down", "mcp_gateway_catalog_age_seconds", "catalog.max_stale",
        ("1s", "1d"), "3 s after the service ended", "clients see tools that may be gone", lists.max_stale),
    Row("a slow service is never listed", "mcp_gateway_service_available", "backend.listing.timeout",
        ("1s", "10s"), "a listing that takes 1.5 s", "a failure is noticed later", lists.listing_timeout),
    Row("the list fills a model's context", "mcp_gateway_catalog_tools", "catalog.include",
        ("['*']", "['shop.*']"), f"`tools/list` of {_LISTING}", "other tools cannot be called", lists.include),
    Row("the same, and all tools are needed", "mcp_gateway_catalog_tools", "catalog.search",
        ("false", "true"), f"`tools/list` of {_LISTING}", "a model makes one more call to find a tool", lists.search),
    Row("a list takes many requests", "mcp_gateway_catalog_tools", "catalog.page_size",
        ("100", "5000"), "a service of 1,000 methods", "larger responses", lists.page_size),
    # What else costs.
    Row("the authorization server is asked too often", "mcp_gateway_introspection_duration_seconds",
        "auth.issuers.*.introspection.cache", ("500ms", "1m"), "one caller", "a revoked token is accepted longer",
        lists.introspection),
    Row("idle streams cost traffic", "mcp_gateway_streams_open", "mcp.heartbeat",
        ("500ms", "2s"), "one idle stream", "a dead connection is noticed later", lists.heartbeat),
    Row("the log fills the disk", "mcp_gateway_log_lines_lost_total", "telemetry.log.requests",
        ("all", "failures"), "calls that succeed", "no line for them", lists.log_requests),
    Row("the audit fills the disk", "mcp_gateway_audit_lines_lost_total", "telemetry.audit.arguments",
        ("all", "digest", "none"), "calls with an argument of 100 bytes", "less evidence", lists.audit),
)  # fmt: skip
