"""W3C trace context and baggage from ``_meta`` (2026-07-28, basic/index "Request metadata") to the backend."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.pace import quickly
from tests.protocol.talk import LEGACY, Client, modern_headers, modern_request

Connect = Callable[..., Awaitable[Client]]

NAMES = ("traceparent", "tracestate", "baggage")
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
STATE = "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"
BAGGAGE = "userId=alice,serverNode=DF%2028,isProduction=false"
ADD = {"name": "add", "arguments": {"a": 2, "b": 3}}


async def forwarded(client: Client, backend: ScriptedBackend, **meta: Any) -> dict[str, str]:
    """What of the three the backend gets when ``_meta`` has these."""
    answer = await client.modern("tools/call", ADD | {"_meta": meta})
    assert (answer.messages[-1] if "progressToken" in meta else answer.json)["result"]["isError"] is False
    headers = backend.requests[-1].headers
    assert all(len(headers.getall(name, [])) < 2 for name in NAMES)
    return {name: headers[name] for name in NAMES if name in headers}


@each(
    "meta",
    [
        {},
        {"traceparent": PARENT},
        {"traceparent": PARENT, "tracestate": STATE},
        {"traceparent": PARENT, "tracestate": "a=1 , b=2,\tc@x=3 4"},
        {"traceparent": PARENT, "tracestate": "k=" + "v" * 256},
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
        PARENT.replace("00-", "ff-", 1), PARENT.replace("-", "_"), "00-" + "0" * 32 + PARENT[35:],
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
    ["", "nonsense", "=1", "a=", "A=1", "a=1,", "a=b=c", "a=1\r\nX-Injected: 1", "a=1\n", "a=\u00fc", "a=1\x00",
     "a=" + "v" * 257, ",".join(["a=1"] * 33), "a=" + "v" * 250 + ",b=" + "v" * 256 + ",c=1", None, 5, ["a=1"]],
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


@pytest.mark.parametrize("hostile", HOSTILE)
async def test_a_hostile_value_costs_no_time(client: Client, backend: ScriptedBackend, hostile: str) -> None:
    with quickly(0.5):
        assert await forwarded(client, backend, traceparent=PARENT, tracestate=hostile, baggage=hostile) == {
            "traceparent": PARENT
        }


async def test_headers_of_these_names_are_not_passed_on(client: Client, backend: ScriptedBackend) -> None:
    """``_meta`` is the place for them: what an intermediary says is not what the client said."""
    headers = modern_headers("tools/call", "add") | {"traceparent": PARENT, "baggage": BAGGAGE}
    await client.mcp(modern_request("tools/call", ADD), headers)
    assert not {name.lower() for name in backend.requests[-1].headers} & set(NAMES)


@pytest.mark.parametrize("version", LEGACY)
async def test_the_older_eras_have_no_such_members(client: Client, backend: ScriptedBackend, version: str) -> None:
    await client.legacy("tools/call", ADD | {"_meta": {"traceparent": PARENT}}, version=version)
    assert "traceparent" not in backend.requests[-1].headers


async def test_a_credential_of_the_operator_s_is_stronger(connect: Connect, backend: ScriptedBackend) -> None:
    """Whatever the operator sets cannot be set by a client."""
    client = await connect(
        "backend.credentials.mode=static",
        "backend.credentials.header=baggage",
        "backend.credentials.value=of-the-operator=1",
    )
    assert await forwarded(client, backend, baggage=BAGGAGE) == {"baggage": "of-the-operator=1"}
