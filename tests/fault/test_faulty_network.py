"""The gateway behind each fault of the network: right answers or true words, no call made twice, and sound again when
the fault is over. How long others wait meanwhile is measured by ``make fault``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.authorization.stand import Stand, stand
from tests.fault.issuers import issuer_behind_proxy
from tests.fault.proxy import SOUND, Bandwidth, Blackhole, Fault, FaultProxy, HalfOpen, Latency, Reset, Slicing, Surplus
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Front, front
from tests.waiting import PATIENCE

UNKNOWN = "whether the call took effect is unknown"


@dataclass(frozen=True)
class Expected:
    """What becomes of a call: answered or not, what is said where it is not, and how often the service runs it."""

    answered: bool
    said: str = ""
    runs: int = 1


SERVICE: dict[Fault, Expected] = {
    Latency(0.01): Expected(answered=True),
    Slicing(1): Expected(answered=True),
    Bandwidth(50_000): Expected(answered=True),
    Surplus(): Expected(answered=True),
    Surplus(b"x"): Expected(answered=True),
    Reset("requests"): Expected(False, UNKNOWN, runs=0),
    Reset("answers"): Expected(False, UNKNOWN),
    Reset("answers", after=100): Expected(False, UNKNOWN),
    Blackhole("answers"): Expected(False, UNKNOWN),
}


@dataclass(frozen=True)
class Behind:
    """A gateway behind a fault proxy."""

    backend: ScriptedBackend
    proxy: FaultProxy
    gateway: Front

    async def is_sound(self) -> None:
        """The next call on each surface is answered."""
        for surface in SURFACES:
            assert (await self.gateway.call(surface, "add", {"a": 2, "b": 3})).value == {"sum": 5}


@asynccontextmanager
async def behind(timeout: str) -> AsyncIterator[Behind]:
    async with ScriptedBackend() as backend, FaultProxy(backend.port) as proxy:
        knobs = ("backend.listing.dialect=openrpc", f"backend.timeout={timeout}")
        async with asyncio.timeout(PATIENCE), front(proxy.url("/jsonrpc"), *knobs) as gateway:
            yield Behind(backend, proxy, gateway)


@pytest.mark.parametrize("fault", SERVICE, ids=str)
async def test_behind_each_fault_a_call_is_answered_rightly_or_truly_and_runs_once(
    fault: Fault, transport: str
) -> None:
    expected = SERVICE[fault]
    if fault == Surplus(b"x") and transport == "session":  # aiohttp gives up the answer, too
        expected = Expected(False, "not HTTP")
    async with behind("400ms" if isinstance(fault, Blackhole) else "10s") as it:
        await it.is_sound()
        it.proxy.fault = fault
        for number, surface in enumerate(SURFACES):
            called = await it.gateway.call(surface, "echo", {"value": f"number {number}"})
            if expected.answered:
                assert called.value == f"number {number}"
            else:
                assert expected.said in called.message
            assert it.backend.calls("echo") == expected.runs * (number + 1)
        it.proxy.fault = SOUND
        await it.is_sound()
        assert it.backend.calls("echo") == expected.runs * len(SURFACES)


async def test_a_connection_whose_other_end_is_lost_costs_one_call_at_most_and_runs_none_twice() -> None:
    async with behind("10s") as it:
        await it.is_sound()
        it.proxy.fault = HalfOpen()
        for number in range(6):
            called = await it.gateway.call("rest", "echo", {"value": number})
            runs = sum(sent.params == {"value": number} for sent in it.backend.requests)
            assert (called.status, runs) == (200, 1) or (UNKNOWN in called.message and runs == 0)
        it.proxy.fault = SOUND
        await it.gateway.call("rest", "echo", {"value": 0})  # this may meet the last connection that was lost
        await it.is_sound()


async def test_a_call_that_a_black_hole_held_until_after_its_deadline_runs_once_at_most() -> None:
    async with behind("400ms") as it:
        await it.is_sound()
        it.proxy.fault = Blackhole()
        for surface in SURFACES:
            assert UNKNOWN in (await it.gateway.call(surface, "echo", {"value": surface})).message
        assert it.backend.calls("echo") == 0
        it.proxy.fault = SOUND
        await it.is_sound()
        for surface in SURFACES:
            assert sum(sent.params == {"value": surface} for sent in it.backend.requests) <= 1


async def test_a_service_that_goes_and_returns_is_called_again_and_was_sent_nothing_meanwhile() -> None:
    async with behind("10s") as it:
        await it.is_sound()
        await it.proxy.close()
        for surface in SURFACES:
            assert (await it.gateway.call(surface, "echo", {"value": surface})).failed
        await it.proxy.open()
        await it.is_sound()
        assert it.backend.calls("echo") == 0


@asynccontextmanager
async def asking_through_a_proxy() -> AsyncIterator[tuple[Stand, FaultProxy]]:
    """A gateway that asks its issuer about each token, through the proxy, which is the issuer's address to all."""
    async with issuer_behind_proxy() as (issuer, proxy):
        named = f"auth.issuers=[{{issuer: '{issuer.issuer}', introspection: {{client_id: gw}}}}]"
        async with stand("backend.listing.identity=shared", "backend.credentials.mode=none", named) as it:
            it.issuer = issuer
            yield it, proxy


ISSUER: dict[Fault, tuple[int, ...]] = {
    Latency(0.01): (200,),
    Slicing(1): (200,),
    Bandwidth(50_000): (200,),
    Surplus(): (200,),
    HalfOpen(): (200, 503),  # whether a connection is open that can be lost
    Reset("requests"): (503,),
    Reset("answers"): (503,),
    Reset("answers", after=100): (503,),
}
"""What a token gets that the issuer has to be asked about."""


async def test_behind_each_fault_before_the_issuer_no_good_token_is_refused_and_known_ones_go_on() -> None:
    async with asyncio.timeout(PATIENCE), asking_through_a_proxy() as (it, proxy):
        claims = {key: value for key, value in it.issuer.claims(sub="ann").items() if key != "jti"}
        it.issuer.introspections["known"] = {"active": True, **claims}
        assert (await it.client("known").list("rest")).status == 200
        for number, (fault, statuses) in enumerate(ISSUER.items()):
            token = f"token-{number}"
            it.issuer.introspections[token] = {"active": True, **claims}
            proxy.fault = fault
            answer = await it.client(token).list("rest")
            assert answer.status in statuses, (fault, answer)
            assert "WWW-Authenticate" not in answer.headers, fault
            assert (await it.client("known").list("rest")).status == 200
            proxy.fault = SOUND
            assert (await it.client(token).list("rest")).status == 200, fault
