"""What a service sees of a credential that it refuses: once, and then only by the clock (tests/contract has that)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from gateway.cli.contact import ContactFailed, contact
from gateway.config.source import load_settings
from gateway.store.memory import MemoryStore
from tests.fault.behaviours import Behaviour, Body, Exchange, Honest, error, result
from tests.fault.scripted import ScriptedBackend
from tests.front import Front, front, ground
from tests.manual_clock import ManualClock
from tests.protocol.test_digest_challenges import MD5

SUM: Final = {"a": 2, "b": 3}
USER: Final = "user: gw, password: wrong"
LOGIN: Final = "login: {method: log.in, params: {password: '{password}'}, find: {session: '$.result'}}"
CHALLENGES: Final = (("WWW-Authenticate", 'Basic realm="r"'), ("WWW-Authenticate", MD5))
REFUSES: Final = Body(b"", 401, "text/plain", CHALLENGES)
MODES: Final = {
    "basic": (f"{{mode: basic, {USER}}}", 1),
    "digest": (f"{{mode: digest, {USER}}}", 2),
    "static": ("{mode: static, send: {headers: {X-Api-Key: wrong-key-0f-ours}}}", 1),
    "login": (f"{{mode: login, {USER}, {LOGIN}, send: {{headers: {{X-Session: '{{session}}'}}}}}}", 1),
}
METHODS: Final = "rpc.discover", "system.listMethods", "add", "echo"


async def nothing(*_: Any) -> None:
    """Do nothing with the catalog."""


class Refusing:
    """Refuse requests with a credential until ``accepts``; one to log in with an error."""

    def __init__(self) -> None:
        self.accepts = False
        self.accepted: Behaviour = Honest()

    async def play(self, exchange: Exchange) -> None:
        refusal = error(-32000, "Invalid user name or password") if exchange.request.method == "log.in" else REFUSES
        await (self.accepted if self.accepts else refusal).play(exchange)


@pytest.fixture
def refusing(backend: ScriptedBackend) -> Refusing:
    refusing = Refusing()
    for method in ("log.in", *METHODS):
        backend.on(method, refusing)
    return refusing


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> tuple[str, int]:
    knobs, most = MODES[request.param]
    return f"backend.credentials={knobs}", most


async def test_check_sends_it_once(backend: ScriptedBackend, refusing: Refusing, mode: tuple[str, int]) -> None:
    knobs, most = mode
    with pytest.raises(ContactFailed) as caught:
        await contact(load_settings(None, ground(backend.url, knobs), environ={}).by_mount[""], nothing)
    assert "Correct backend.credentials" in caught.value.lines[-1]
    assert len(backend.requests) == most


async def test_serve_sends_it_by_the_clock_and_when_the_operator_wants_it(
    backend: ScriptedBackend, refusing: Refusing, mode: tuple[str, int]
) -> None:
    knobs, most = mode
    clock = ManualClock()
    async with front(backend.url, knobs, store=MemoryStore(clock)) as gateway:
        assert gateway.gateway is not None
        service = gateway.gateway.services[""]
        await gateway.gateway.wait_until_listed()
        for tries, later in enumerate((899, 6299, 21599, 21599), 1):
            for seconds in (0, later):
                clock.now += seconds
                await service.discovery.refresh()
                assert len(backend.requests) <= tries * most
            clock.now += 1
            await service.discovery.refresh()
        before = len(backend.requests)
        await service.discovery.refresh()
        problem = service.discovery.problem
        explained, _ = service.explain(problem.error)
        assert "sent again within 6h" in problem.cause + explained["cause"]
        assert explained["next"].startswith("Correct backend.credentials")
        await service.refresh_now()
        assert before < len(backend.requests) <= before + most
        before = len(backend.requests)
        await service.discovery.refresh()
        assert len(backend.requests) == before


@pytest.fixture
async def front_of_a_file(
    backend: ScriptedBackend, refusing: Refusing, tmp_path: Path
) -> AsyncIterator[tuple[Front, ManualClock]]:
    listing = tmp_path / "methods.yaml"
    listing.write_text("methods: [{name: add, params: {a: {}, b: {}}}]")
    knobs = (f"backend.listing={{dialect: static, file: {listing}}}", f"backend.credentials={MODES['basic'][0]}")
    clock = ManualClock()
    async with front(backend.url, *knobs, store=MemoryStore(clock)) as gateway:
        yield gateway, clock


async def test_after_a_refused_call_and_question_no_call_is_sent_until_the_operator_wants_it(
    backend: ScriptedBackend, refusing: Refusing, front_of_a_file: tuple[Front, ManualClock]
) -> None:
    gateway, _ = front_of_a_file
    refused = await gateway.call("rest", "add", SUM)
    assert (refused.status, refused.message) == (502, "The backend does not accept the gateway's credential")
    assert [one.method for one in backend.requests] == ["add", "rpc.discover"]
    unsent = [await gateway.call("rest", "add", SUM) for _ in range(3)]
    assert {one.status for one in unsent} == {502}
    assert "was not sent, so it is safe to repeat" in unsent[0].message
    assert 890 <= int(unsent[0].headers["Retry-After"]) <= 900
    assert len(backend.requests) == 2
    refusing.accepts = True
    assert gateway.gateway is not None
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://127.0.0.1:{gateway.gateway.admin_port}/refresh") as answer,
    ):
        assert answer.status == 200
    assert len(backend.requests) == 3
    assert (await gateway.call("rest", "add", SUM)).value == {"sum": 5}


async def test_a_refused_call_alone_stops_nothing_and_costs_a_question_in_15_seconds(
    backend: ScriptedBackend, refusing: Refusing, front_of_a_file: tuple[Front, ManualClock]
) -> None:
    gateway, clock = front_of_a_file
    backend.on("rpc.discover", error(-32601, "Method not found"))
    for seconds, questions in ((0, 1), (0, 1), (14, 1), (2, 2)):
        clock.now += seconds
        assert (await gateway.call("rest", "add", SUM)).status == 502
        assert backend.calls("rpc.discover") == questions
    assert backend.calls("add") == 4


async def test_what_the_listing_asks_tells_of_a_shared_credential(backend: ScriptedBackend) -> None:
    """A service may refuse every caller what it does not know, such as rpc.discover."""
    backend.on("system.listMethods", result(["add", "echo"]))
    for method in ("add", "rpc.discover"):
        backend.on(method, REFUSES)
    knobs = f"backend.credentials={MODES['basic'][0]}", "backend.listing.dialect=introspection"
    async with front(backend.url, *knobs) as gateway:
        assert (await gateway.call("rest", "add", {"params": [2, 3]})).status == 502
        assert backend.calls("system.listMethods") == 2
        assert not (await gateway.call("rest", "echo", {"params": [1]})).failed
