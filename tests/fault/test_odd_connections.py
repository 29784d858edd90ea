"""A service that closes connections early, or says more on them than was asked: each caller gets its own answer, and no
call is made twice."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from gateway.backend.transport import UNKNOWN
from gateway.http_client.lean import LeanTransport
from gateway.http_client.response import BadHttp
from tests.contract.http_clients import CALL
from tests.each import each
from tests.fault.behaviours import SUM, Ending, Exchange, Raw, result
from tests.fault.rows import LEAK
from tests.fault.scripted import ScriptedBackend
from tests.fault.unasked import SURPLUS, Lingering, answer, interim
from tests.fault.wire import head
from tests.front import SURFACES, Surface, front
from tests.waiting import PATIENCE

TWO_AND_THREE: Final = {"a": 2, "b": 3}


@pytest.mark.parametrize("ending", ["close", "reset"])
@pytest.mark.parametrize("surface", SURFACES)
async def test_the_end_of_an_idle_connection_costs_no_call(
    backend: ScriptedBackend, surface: Surface, ending: Ending
) -> None:
    """Gunicorn ends it after two seconds: the gateway sees the end, and opens another connection."""
    async with front(backend.url) as gateway:
        for number in range(3):
            lingering = Lingering(ending=ending)
            backend.on("add", lingering)
            assert (await gateway.call(surface, "add", TWO_AND_THREE)).value == {"sum": 5}
            await lingering.goes_on()
            assert (await gateway.call(surface, "echo", {"value": number})).value == number
        assert (backend.calls("add"), backend.calls("echo")) == (3, 3)
        assert backend.faults == []


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_service_that_answers_and_closes_without_saying_so_serves_every_call_once(
    backend: ScriptedBackend, surface: Surface
) -> None:
    backend.default = result({"sum": 5}, ending="close")
    async with front(backend.url) as gateway:
        for _ in range(10):
            assert (await gateway.call(surface, "add", TWO_AND_THREE)).value == {"sum": 5}
        several = await asyncio.gather(*(gateway.call(surface, "add", TWO_AND_THREE) for _ in range(20)))
        assert [called.value for called in several] == [{"sum": 5}] * 20
        assert backend.calls("add") == 30


async def test_an_answer_without_a_length_ends_with_the_connection(backend: ScriptedBackend) -> None:
    """RFC 9112 §6.3, as HTTP/1.0 services have it."""
    for version in (b"1.0", b"1.1"):
        said = b"HTTP/" + version + b" 200 OK\r\nContent-Type: application/json\r\n\r\n" + SUM.payload
        backend.default = Raw(said)
        async with front(backend.url, f"backend.listing.url={backend.url}") as gateway:
            assert (await gateway.call("rest", "add", TWO_AND_THREE)).value == {"sum": 5}
    assert backend.calls("add") == 2


@each("before", [(100,), (102,), (103, 100, 102, 103), (100,) * 20])
@pytest.mark.parametrize("surface", SURFACES)
async def test_interim_answers_are_passed_over(
    backend: ScriptedBackend, surface: Surface, before: tuple[int, ...]
) -> None:
    """RFC 9110 §15.2: they are no answer, also unasked for."""
    calls = backend.calls("add")
    async with front(backend.url) as gateway:
        backend.on("add", Preceded(b"".join(map(interim, before))))
        for _ in range(2):
            assert (await gateway.call(surface, "add", TWO_AND_THREE)).value == {"sum": 5}
    assert backend.calls("add") == calls + 2


class Preceded:
    """A right answer with bytes before it."""

    def __init__(self, before: bytes) -> None:
        self._before = before

    async def play(self, exchange: Exchange) -> None:
        await exchange.send(self._before)
        await SUM.play(exchange)


class Endless:
    """Interim answers until the client hangs up. ``over`` is set then."""

    def __init__(self) -> None:
        self.over = asyncio.Event()

    async def play(self, exchange: Exchange) -> None:
        try:
            while True:
                await exchange.send(interim(103))
                await asyncio.sleep(0)
        finally:
            self.over.set()


async def test_more_than_twenty_interim_answers_are_no_http(backend: ScriptedBackend) -> None:
    transport = LeanTransport()
    backend.on("add", Preceded(interim(103) * 21))
    with pytest.raises(BadHttp, match="too many interim responses"):
        await transport.request("POST", backend.url, CALL, {}, timeout=PATIENCE, max_bytes=1000)
    await transport.close()


async def test_interim_answers_without_end_last_until_the_deadline(backend: ScriptedBackend, transport: str) -> None:
    endless = Endless()
    async with front(backend.url, "backend.timeout=1s") as gateway:
        backend.on("add", endless)
        called = await gateway.call("rest", "add", TWO_AND_THREE)
        assert called.status == (504 if transport == "session" else 502)
        async with asyncio.timeout(PATIENCE):
            await endless.over.wait()
        assert backend.calls("add") == 1
        assert (await gateway.call("rest", "echo", {"value": 1})).value == 1


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_switch_of_protocols_is_no_answer(backend: ScriptedBackend, surface: Surface) -> None:
    """RFC 9110 §15.2.2: the gateway asked for none. What comes on that connection afterwards is not looked at."""
    headers = (("Connection", "Upgrade"), ("Upgrade", "h2c"))
    async with front(backend.url) as gateway:
        backend.on(
            "add", Raw(head(101, headers) + answer(b'"id":@ID@,"result":{"sum":"' + LEAK.encode() + b'"}'), "keep")
        )
        called = await gateway.call(surface, "add", TWO_AND_THREE)
        assert called.failed
        assert called.status == (502 if surface == "rest" else 200)
        assert LEAK not in called.everything
        assert (await gateway.call(surface, "echo", {"value": "mine"})).value == "mine"
        assert backend.calls("add") == 1


class Followed:
    """A right answer with bytes behind it, in one piece."""

    def __init__(self, more: bytes) -> None:
        self._more = more

    async def play(self, exchange: Exchange) -> None:
        await exchange.send(b"".join(SUM.render(exchange.request)) + exchange.request.fill(self._more))


@each(("name", "more"), [pytest.param(name, more, id=name) for name, more in SURPLUS.items()])
@pytest.mark.parametrize("surface", SURFACES)
async def test_what_follows_an_answer_is_given_to_nobody(surface: Surface, name: str, more: bytes) -> None:
    """An answer is right, or no HTTP where what follows is none; the next call is made on another connection."""
    async with ScriptedBackend() as backend, front(backend.url) as gateway:
        backend.on("add", Followed(more))
        first = await gateway.call(surface, "add", TWO_AND_THREE)
        if name == "no HTTP" and first.failed:
            assert first.message == f"The backend's answer is not HTTP; {UNKNOWN}"
        else:
            assert first.value == {"sum": 5}
        second = await gateway.call(surface, "echo", {"value": "mine"})
        assert second.value == "mine"
        assert LEAK not in first.everything + second.everything
        assert (backend.calls("add"), backend.calls("echo")) == (1, 1)
