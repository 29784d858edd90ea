"""A collector: it receives spans by OTLP/HTTP, and reads them with OpenTelemetry's own protobuf package.

async with Collector() as collector:
    async with serving(backend.url, "telemetry.traces=on", environ=collector.environ) as (program, gateway):
        await gateway.call("rest", "add", {"a": 1, "b": 2})
        server, client = await collector.spans(2)
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from aiohttp import web
from aiohttp.test_utils import TestServer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.waiting import until

SERVER, CLIENT = Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CLIENT
DELAY = 20
"""Milliseconds for which spans wait for others before they are sent."""


@dataclass(frozen=True)
class Received:
    """One span, as a test looks at it."""

    name: str
    kind: int
    trace_id: str
    id: str
    parent: str
    attributes: dict[str, Any]
    links: list[tuple[str, str]]
    resource: dict[str, Any]
    failed: bool
    began: int
    ended: int
    state: str


class Collector:
    """Receive spans while the block runs. ``raw`` are the bodies, and ``open`` lets them be answered."""

    def __init__(self) -> None:
        self.raw: list[bytes] = []
        self.received: list[Received] = []
        self.open = asyncio.Event()
        self.open.set()
        app = web.Application()
        app.router.add_post("/v1/traces", self._receive)
        self._server = TestServer(app)

    async def _receive(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.raw.append(body)
        await self.open.wait()
        self.received += _read(body)
        return web.Response()

    @property
    def environ(self) -> dict[str, str]:
        """The variables of a gateway that sends here."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": str(self._server.make_url("")).rstrip("/"),
            "OTEL_BSP_SCHEDULE_DELAY": str(DELAY),
        }

    async def __aenter__(self) -> Self:
        await self._server.start_server()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.open.set()
        await self._server.close()

    def named(self, name: str) -> list[Received]:
        return [span for span in self.received if span.name == name]

    async def spans(self, name: str, number: int = 1) -> list[Received]:
        """The spans of this name, once there are as many."""
        return await until(lambda: self.named(name), lambda found: len(found) >= number)

    async def span(self, name: str) -> Received:
        (span,) = await self.spans(name)
        return span


def _read(body: bytes) -> Iterator[Received]:
    for whole in ExportTraceServiceRequest.FromString(body).resource_spans:
        for part in whole.scope_spans:
            for span in part.spans:
                yield Received(
                    span.name,
                    span.kind,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    _values(span.attributes),
                    [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
                    _values(whole.resource.attributes),
                    span.status.code == Status.STATUS_CODE_ERROR,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    span.trace_state,
                )


def _values(attributes: Any) -> dict[str, Any]:
    def value(one: AnyValue) -> Any:
        return getattr(one, str(one.WhichOneof("value")))

    def pairs(all: list[KeyValue]) -> dict[str, Any]:
        return {one.key: value(one.value) for one in all}

    return pairs(attributes)
