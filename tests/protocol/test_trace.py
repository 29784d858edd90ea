"""W3C trace context to the backend: of ``_meta`` (2026-07-28, basic/index "Request metadata"), else of HTTP. Baggage is
passed on from ``_meta`` alone."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.pace import quickly
from tests.protocol.conftest import Connect
from tests.protocol.talk import JSON, LEGACY, Answer, Client, legacy_headers, modern_headers, modern_request, request

pytestmark = pytest.mark.usefixtures("both_servers")


NAMES = ("traceparent", "tracestate", "baggage")
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
LATER = PARENT.replace("00-", "cc-", 1)
STATE = "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"
BAGGAGE = "userId=alice,serverNode=DF%2028,isProduction=false"
ADD = {"name": "add", "arguments": {"a": 2, "b": 3}}


def received(backend: ScriptedBackend) -> dict[str, str]:
    """What of the three the backend got last."""
    headers = backend.requests[-1].headers
    assert all(len(headers.getall(name, [])) < 2 for name in NAMES)
    return {name: headers[name] for name in NAMES if name in headers}


async def forwarded(client: Client, backend: ScriptedBackend, **meta: Any) -> dict[str, str]:
    """The same when ``_meta`` has these."""
    answer = await client.modern("tools/call", ADD | {"_meta": meta})
    assert (answer.messages[-1] if "progressToken" in meta else answer.json)["result"]["isError"] is False
    return received(backend)


@each(
    "meta",
    [
        {},
        {"traceparent": PARENT},
        {"traceparent": PARENT, "tracestate": STATE},
        {"traceparent": PARENT, "tracestate": "a=1 , b=2,\tc@x=3 4"},
        {"traceparent": PARENT, "tracestate": "k=" + "v" * 256},
        {"traceparent": PARENT, "tracestate": "a=1,"},
        {"traceparent": PARENT, "tracestate": ",a=1,, ,\t,b=2"},
        {"traceparent": LATER},
        {"traceparent": LATER + "-what.Later~versions/add", "tracestate": STATE},
        {"traceparent": LATER + "-" + "x" * 200},
        {"baggage": BAGGAGE},
        {"baggage": "key=value;property;other = x , second=2"},
        {"baggage": "key=;a=b=c;d,empty="},
        {"traceparent": PARENT, "tracestate": STATE, "baggage": BAGGAGE},
    ],
)
async def test_what_is_well_formed_becomes_headers(client: Client, backend: ScriptedBackend, meta: Any) -> None:
    assert await forwarded(client, backend, **meta) == meta


async def test_calls_with_progress_carry_it_too(client: Client, backend: ScriptedBackend) -> None:
    assert await forwarded(client, backend, traceparent=PARENT, progressToken=1) == {"traceparent": PARENT}


@each(
    "parent",
    [
        "", "x", PARENT.upper(), PARENT + "-00", PARENT[:-1], " " + PARENT, PARENT + "\n", PARENT + "\r\nX-Injected: 1",
        PARENT.replace("00-", "ff-", 1), LATER + "-" + "x" * 201, LATER + "00", LATER + "- ", LATER + "-\u00fc",
        LATER + "-x\r\nX-Injected: 1", PARENT.replace("-", "_"), "00-" + "0" * 32 + PARENT[35:],
        PARENT[:36] + "0" * 16 + "-01", PARENT.replace("a", "g"), PARENT.replace("0", "\u0660"), None, 5, [PARENT], {},
    ],
)  # fmt: skip
async def test_a_traceparent_that_is_none_is_dropped_and_the_state_with_it(
    client: Client, backend: ScriptedBackend, parent: Any
) -> None:
    """W3C Trace Context §3.2: all zeroes is invalid; §3.3: tracestate means nothing alone."""
    assert await forwarded(client, backend, traceparent=parent, tracestate=STATE, baggage=BAGGAGE) == {
        "baggage": BAGGAGE
    }


@each(
    "state",
    ["", " ", ",,", "nonsense", "=1", "a=", "A=1", "a=1,b", "a=b=c", "a=1\r\nX-Injected: 1", "a=1\n", "a=\u00fc",
     "a=1\x00", "a=" + "v" * 257, ",".join(["a=1"] * 33), "a=1" + "," * 32, "a=" + "v" * 252 + ",b=" + "v" * 256,
     None, 5, ["a=1"]],
)  # fmt: skip
async def test_a_tracestate_that_is_none_is_dropped(client: Client, backend: ScriptedBackend, state: Any) -> None:
    assert await forwarded(client, backend, traceparent=PARENT, tracestate=state) == {"traceparent": PARENT}


@each(
    "baggage",
    ["", "nonsense", "=1", ",", "a;b=1", "a=1;", "a=1;=",
     "a=\u00fc", 'a="1"', "a=1 2", "a=1\\", "a b=1", "a=1\r\nX-Injected: 1", "a=1\n",
     "a=" + "v" * 5000, None, 5, {"a": "1"}],
)  # fmt: skip
async def test_baggage_that_is_none_is_dropped(client: Client, backend: ScriptedBackend, baggage: Any) -> None:
    assert await forwarded(client, backend, baggage=baggage) == {}


async def test_what_is_malformed_in_baggage_is_dropped_and_the_rest_stays(
    client: Client, backend: ScriptedBackend
) -> None:
    baggage = 'a=1, b="2",c=3;,, =4,d = 5;e ,f=1\r\nX-Injected: 1,'
    assert await forwarded(client, backend, baggage=baggage) == {"baggage": "a=1,d = 5;e"}


HOSTILE = ["a= " + ";b= " * 23 + '"', ";a=1" * 1000, "a" + " " * 4000 + "!", "a=1;b" * 800 + "\x00", "=" * 4096]


@each("hostile", HOSTILE)
async def test_a_hostile_value_costs_no_time(client: Client, backend: ScriptedBackend, hostile: str) -> None:
    with quickly(0.5):
        assert await forwarded(client, backend, traceparent=PARENT, tracestate=hostile, baggage=hostile) == {
            "traceparent": PARENT
        }


MODERN_CALL = ("/mcp", modern_request("tools/call", ADD), modern_headers("tools/call", "add"))
CALLS = {
    "modern": MODERN_CALL,
    "legacy": ("/mcp", request("tools/call", ADD), legacy_headers(LEGACY[0])),
    "batch": ("/mcp", [request("tools/call", ADD)], legacy_headers("2025-03-26")),
    "rest": ("/mcp/tools/invoke", ADD, {}),
    "tool": ("/mcp/tools/add", request("add", ADD["arguments"]), {}),
    "jsonrpc": ("/jsonrpc", request("add", ADD["arguments"]), {}),
}


async def called(client: Client, surface: str, *headers: tuple[str, str]) -> tuple[Answer, dict[str, Any]]:
    """The answer to a call with these headers of HTTP, and its line in the log: of a batch, that of the message."""
    path, body, own = CALLS[surface]
    with capture_logs() as logs:
        raw = json.dumps(body).encode()
        answer = await client.send("POST", path, raw, [*JSON.items(), *own.items(), *headers])
    assert answer.status == 200
    line, *whole = (line for line in logs if line["event"] == "request")
    assert [one["method"] for one in whole] == (["batch"] if surface == "batch" else [])
    return answer, dict(line)


@each("surface", [*CALLS])
async def test_headers_of_http_become_the_service_s_on_every_surface(
    client: Client, backend: ScriptedBackend, surface: str
) -> None:
    _, line = await called(client, surface, ("TraceParent", LATER), ("tracestate", "a=1,,b=2"), ("baggage", BAGGAGE))
    assert received(backend) == {"traceparent": LATER, "tracestate": "a=1,,b=2"}
    assert line["trace_id"] == PARENT[3:35]
    _, line = await called(client, surface)
    assert received(backend) == {}
    assert line["trace_id"] == ""


@each("value", ["", "x", PARENT + "-00", PARENT.upper(), "ff" + PARENT[2:], "00-" + "0" * 32 + PARENT[35:]])
async def test_a_malformed_header_of_http_is_dropped(client: Client, backend: ScriptedBackend, value: str) -> None:
    for surface in CALLS:
        _, line = await called(client, surface, ("traceparent", value), ("tracestate", STATE))
        assert received(backend) == {}
        assert line["trace_id"] == ""


async def test_of_two_parents_neither_counts_and_lists_of_states_are_joined(
    client: Client, backend: ScriptedBackend
) -> None:
    """W3C Trace Context §3.2 has one traceparent; §3.3.1 allows several tracestate headers."""
    answer, line = await called(client, "rest", ("traceparent", PARENT), ("traceparent", LATER))
    assert (received(backend), line["trace_id"]) == ({}, "")
    assert answer.headers["X-Request-Id"] != PARENT[3:35]
    await called(client, "rest", ("traceparent", PARENT), ("tracestate", "a=1"), ("tracestate", "b=2"))
    assert received(backend) == {"traceparent": PARENT, "tracestate": "a=1,b=2"}


async def test_a_trace_of_the_body_is_stronger_and_never_mixed_with_that_of_http(
    client: Client, backend: ScriptedBackend
) -> None:
    given = PARENT.replace("0af7", "beef")
    headers = {**modern_headers("tools/call", "add"), "traceparent": PARENT, "tracestate": STATE}
    for meta, sent in (
        ({"traceparent": given}, {"traceparent": given}),
        ({"traceparent": given, "baggage": BAGGAGE}, {"traceparent": given, "baggage": BAGGAGE}),
        ({"traceparent": "x", "tracestate": "z=1"}, {"traceparent": PARENT, "tracestate": STATE}),
        ({"baggage": BAGGAGE}, {"traceparent": PARENT, "tracestate": STATE, "baggage": BAGGAGE}),
    ):
        with capture_logs() as logs:
            await client.mcp(modern_request("tools/call", ADD | {"_meta": meta}), headers)
        (line,) = (line for line in logs if line["event"] == "request")
        assert received(backend) == sent
        assert line["trace_id"] == sent["traceparent"][3:35]


async def test_calls_at_the_same_time_have_their_own_traces(client: Client, backend: ScriptedBackend) -> None:
    async def one(number: int) -> tuple[str, str]:
        parent = f"00-{number:032x}-b7ad6b7169203331-01"
        body = request("add", {"a": number, "b": 0})
        await client.post("/jsonrpc", body, JSON | {"traceparent": parent})
        return str(number), parent

    sent = dict(await asyncio.gather(*(one(number) for number in range(1, 20))))
    assert {str(one.params["a"]): one.headers["traceparent"] for one in backend.requests} == sent


@each("version", LEGACY)
async def test_the_older_eras_have_no_such_members(client: Client, backend: ScriptedBackend, version: str) -> None:
    await client.legacy("tools/call", ADD | {"_meta": {"traceparent": PARENT}}, version=version)
    assert "traceparent" not in backend.requests[-1].headers


async def test_a_credential_of_the_operator_s_is_stronger(connect: Connect, backend: ScriptedBackend) -> None:
    """Whatever the operator sets cannot be set by a client."""
    client = await connect(
        "backend.credentials.mode=static",
        "backend.credentials.send.headers.baggage=of-the-operator=1",
    )
    assert await forwarded(client, backend, baggage=BAGGAGE) == {"baggage": "of-the-operator=1"}
