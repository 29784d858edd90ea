"""Spans of what a request waits for beside its call: the issuer that is asked about its token, the exchange of the
token, and the listing of its caller. No token is in any of them."""

from __future__ import annotations

import pytest

from tests.authorization.test_introspection_bounds import sound
from tests.authorization.test_review import asking
from tests.authorization.token_endpoint import EXCHANGE, TokenEndpoint
from tests.otlp import CLIENT, Collector

ADD = {"a": 2, "b": 3}
TOKEN = "canary-7f3e1c"
TRACES = "telemetry.traces=on"
INTROSPECTION, EXCHANGED, LISTING = "introspect token", "request token", "read listing"


async def test_the_ways_to_a_token_and_to_a_listing_are_in_the_trace_of_the_call(
    endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Collector() as collector:
        for name, value in collector.environ.items():
            monkeypatch.setenv(name, value)
        own = ("backend.listing.identity=caller", TRACES)
        async with asking(*endpoint.knobs(*EXCHANGE, *own)) as it:
            it.issuer.introspections[TOKEN] = sound()
            assert (await it.client(TOKEN).call("rest", "add", ADD)).status == 200
            called = await collector.span("tools/call add")
            spans = [await collector.span(name) for name in (INTROSPECTION, EXCHANGED, LISTING, "add")]
            await it.client("unknown").call("rest", "add", ADD)
            refused = await collector.span("POST")
        for span in spans:
            assert (span.trace_id, span.parent, span.kind, span.failed) == (called.trace_id, called.id, CLIENT, False)
            assert called.began <= span.began <= span.ended <= called.ended
        assert refused.failed
        assert refused.attributes["http.response.status_code"] == 401
        seen = b"".join(collector.raw)
    assert TOKEN.encode() not in seen
    assert b"at-backend" not in seen
    assert b"ann" not in seen


async def test_an_issuer_that_fails_marks_its_span(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Collector() as collector:
        for name, value in collector.environ.items():
            monkeypatch.setenv(name, value)
        async with asking(TRACES) as it:
            it.issuer.disturb("introspection", "500")
            assert (await it.client(TOKEN).call("rest", "add", ADD)).status == 503
            span = await collector.span(INTROSPECTION)
    assert span.failed
    assert span.attributes["error.type"] == "500"
