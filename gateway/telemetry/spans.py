"""Decide which requests are traced, under which ids, and make their spans of their records at the end: OpenTelemetry's
SDK, asked at each request, costs 15 %. Its thread sends the spans; where its queue is full, the oldest are lost."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Sequence
from random import getrandbits
from typing import Any, Final
from urllib.parse import urlsplit

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from gateway import __version__
from gateway.telemetry import cells
from gateway.telemetry.audit import EXCERPT, excerpt
from gateway.telemetry.record import CALL, OK, RECORD, Record
from gateway.telemetry.trace_context import PARENT, Span, Trace, is_sampled

_QUEUE: Final = "OTEL_BSP_MAX_QUEUE_SIZE"
_QUEUED: Final = "2048"
_NAME: Final = "jsonrpc-mcp-gateway"
_PROTOCOL: Final = "http/protobuf"


log = structlog.get_logger()


class _Exporter(OTLPSpanExporter):
    """Send spans, and count those that were taken from the queue, and what became of them."""

    taken = sent = failed = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.taken += len(spans)
        result = super().export(spans)
        if result is SpanExportResult.SUCCESS:
            self.sent += len(spans)
        else:
            self.failed += len(spans)
        return result


class Tracing:
    """Trace the requests of this process. The flag of a parent decides, where there is one and ``follows_parent`` is
    set; else a trace is sampled if the lower half of its id is below ``bound``. Raises :class:`ValueError`."""

    def __init__(self, bound: int, follows_parent: bool, *, shows_content: bool) -> None:
        self._bound = bound
        self._follows_parent = follows_parent
        self.shows_content = shows_content
        self._high = f"{getrandbits(64) | 1:016x}"
        protocols = (os.environ.get(f"OTEL_EXPORTER_OTLP_{which}PROTOCOL") for which in ("TRACES_", ""))
        if (protocol := next(filter(None, protocols), _PROTOCOL)) != _PROTOCOL:
            raise ValueError(f"OTEL_EXPORTER_OTLP_PROTOCOL must be {_PROTOCOL}, mostly on port 4318, not {protocol}")
        self._scope = InstrumentationScope(_NAME, __version__)
        own = {"service.name": _NAME, "service.version": __version__, "service.instance.id": str(uuid.uuid4())}
        self._resource = Resource.create(own).merge(OTELResourceDetector().detect())
        if not (queued := os.environ.get(_QUEUE) or _QUEUED).isdecimal():
            raise ValueError(f"{_QUEUE} must be a number of spans, not {queued}")
        self._most = int(queued)
        self._exporter = _Exporter()
        self._processor = BatchSpanProcessor(self._exporter, self._most)
        self._made = self._dropped = 0

    @property
    def lost(self) -> int:
        """Return how many spans the full queue dropped, or the collector did not take."""
        return self._dropped + self._exporter.failed

    def decide(self, record: Record, chance: int | None = None) -> None:
        """Decide about a request, once, by 64 random bits. If it is sampled, its trace becomes that of its own span."""
        if record.is_decided:
            return
        record.is_decided = True
        trace = record.trace
        parent = trace.get(PARENT, "") if trace else ""
        low = int(parent[19:35], 16) if parent else getrandbits(64) if chance is None else chance
        if not (is_sampled(trace) if trace and parent and self._follows_parent else low < self._bound):
            return
        trace_id = int(parent[3:35], 16) if parent else getrandbits(64) << 64 | low
        ambient, span_id = (record.ambient or {}).get(PARENT, ""), getrandbits(64)
        record.span = Span(trace_id, span_id, parent, ambient if ambient != parent else "")
        record.trace = {**(trace or {}), PARENT: f"00-{trace_id:032x}-{span_id:016x}-01"}

    def headers(self, record: Record, method: str, url: str) -> Trace:
        """Return the context for one exchange with the service: that of its span. Without one it is the context that
        came, or a new one that is not sampled: else the service would decide for itself, and record many more."""
        trace, low = record.trace, getrandbits(64)
        if trace is None and low >= self._bound:  # nearly each call, so it is quick
            record.is_decided = True
            half = f"{low:016x}"
            return {PARENT: f"00-{self._high}{half}-{half}-00"}
        self.decide(record, low)
        trace, span = record.trace or {}, record.span
        if span is not None:
            span.sent[len(record.exchanges)] = low, method, url
            return {**trace, PARENT: f"00-{span.trace_id:032x}-{low:016x}-01"}
        return trace if PARENT in trace else {**trace, PARENT: f"00-{self._high}{low:016x}-{low:016x}-00"}

    def note_content(self, what: str, value: Any) -> None:
        """Note the arguments or the result of this task's call."""
        record = RECORD.get()
        self.decide(record)
        if record.span is not None:
            record.span.content[f"gen_ai.tool.call.{what}"] = excerpt(value)

    def end(self, record: Record) -> None:
        """Make the spans of a request or of work that has ended, if it is sampled, and of the work for it."""
        if not record.is_decided:
            self.decide(record)
        if record.span is not None:
            self._add_all(record, record.span)
            for work in record.work:
                work.trace = record.trace
                self.end(work)

    def close(self, seconds: float) -> None:
        """Send what waits, for at most so long. What is left then is lost."""
        ending = threading.Thread(target=self._processor.shutdown, daemon=True)
        ending.start()
        ending.join(seconds)
        if lost := self._made - self._exporter.sent:
            log.warning("spans were lost, the collector did not take them", spans=lost)

    def _add_all(self, record: Record, span: Span) -> None:
        """Add the span of a request, or of work, and one for each exchange with the service."""
        own = _context(span.trace_id, span.span_id, (record.trace or {}).get("tracestate"))
        kind = SpanKind.SERVER if record.request_id else SpanKind.CLIENT
        name, attributes = _description(record)
        links = [Link(_remote(span.link))] if span.link else []
        above = _remote(span.parent) if span.parent else None
        self._add(name, kind, own, above, record.started, record.ended, attributes | span.content, links)
        for number, one in enumerate(record.exchanges):
            if number in span.sent:
                id, method, url = span.sent[number]
                code, parts = str(one.code or ""), urlsplit(url)
                attributes = {"rpc.system.name": "jsonrpc", "rpc.method": method, "rpc.response.status_code": code,
                              "server.address": parts.hostname, "error.type": code or one.error,
                              "server.port": parts.port or {"https": 443}.get(parts.scheme, 80)}  # fmt: skip
                context, ended = _context(span.trace_id, id), one.began + one.seconds
                self._add(method, SpanKind.CLIENT, context, own, one.began, ended, attributes, [])

    def _add(
        self, name: str, kind: SpanKind, context: SpanContext, parent: SpanContext | None, began: float, ended: float,
        attributes: dict[str, Any], links: list[Link],
    ) -> None:  # fmt: skip
        zero = time.time_ns() - time.perf_counter_ns()
        clean = {key: _clean(value) for key, value in attributes.items() if value not in ("", None)}
        status = Status(StatusCode.ERROR) if "error.type" in clean else Status()
        times = zero + int(began * 1e9), zero + int(ended * 1e9)
        own = self._resource, clean, (), links, kind, None, status
        # The SDK does not tell how many it drops.
        self._dropped += self._made - self._exporter.taken - self._dropped >= self._most
        self._made += 1
        self._processor.on_end(ReadableSpan(_clean(name), context, parent, *own, *times, self._scope))


def _description(record: Record) -> tuple[str, dict[str, Any]]:
    """Return the name of a span and its attributes; one that is "" or None is none."""
    if not record.request_id:
        return record.method, {"error.type": record.outcome, "mcp_gateway.service": record.service}
    method = cells.METHODS.get(record.method, cells.OTHER)
    code = str(record.code) if record.code and record.surface != cells.REST else ""
    is_pipe = record.surface == "stdio"
    name = f"{method} {record.tool}" if method == CALL and record.ran else method or record.method or record.http
    return name, {
        "mcp.method.name": method, "mcp.protocol.version": record.revision, "gen_ai.tool.name": record.tool,
        "gen_ai.operation.name": "execute_tool" if method == CALL else "",
        "jsonrpc.request.id": None if record.rpc_id is None else str(record.rpc_id),
        "error.type": cells.error_type(record.surface, record.outcome or OK, code), "rpc.response.status_code": code,
        "http.response.status_code": record.status or None, "client.address": record.address,
        "network.transport": "pipe" if is_pipe else "tcp", "network.protocol.name": "" if is_pipe else "http",
        "mcp_gateway.service": record.service, "mcp_gateway.surface": record.surface,
        "mcp_gateway.request_id": record.request_id, "mcp_gateway.outcome": record.outcome or OK,
        "mcp_gateway.queue_seconds": record.queue_time or None,
    }  # fmt: skip


def _context(trace_id: int, span_id: int, state: str | None = None) -> SpanContext:
    known = TraceState.from_header([state]) if state else None
    return SpanContext(trace_id, span_id, False, TraceFlags(TraceFlags.SAMPLED), known)


def _remote(parent: str) -> SpanContext:
    """Return the context of a ``traceparent``, which is well-formed."""
    return SpanContext(int(parent[3:35], 16), int(parent[36:52], 16), True, TraceFlags(int(parent[53:55], 16)))


def _clean(value: Any) -> Any:
    """Return a value that protobuf takes: for a lone surrogate all spans that are sent with it would be lost."""
    return value[:EXCERPT].encode("utf-8", "replace").decode() if isinstance(value, str) else value
