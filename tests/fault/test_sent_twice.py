"""What is sent to the service a second time, and that nothing else is: the table in docs/calling.md, row by row."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from structlog.testing import capture_logs

from gateway.backend.transport import UNKNOWN
from tests.authorization.stand import bearer_of, stand
from tests.authorization.token_endpoint import OWN, TokenEndpoint
from tests.fault.behaviours import CLOSE, SUM, Behaviour, Body, Cut, Exchange, Hang, Honest, InTurn, Raw, error
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Front, Surface, front
from tests.waiting import PATIENCE

TWO_AND_THREE = {"a": 2, "b": 3}
MARKS = ("readOnlyHint", "idempotentHint")
DENIED = Body(status=401, content_type=None)


def marked(hint: str) -> str:
    return f"catalog.tools={{add: {{annotations: {{{hint}: true}}}}}}"


async def add(gateway: Front, surface: Surface = "rest") -> bool:
    """Call it; whether it succeeded."""
    return not (await gateway.call(surface, "add", TWO_AND_THREE)).failed


BROKEN_OFF: dict[str, Behaviour] = {
    "closed": CLOSE,
    "reset": Cut("nothing", "reset"),
    "closed within the head": Raw(b"HTTP/1.1 200 OK\r\nContent-Ty"),
    "closed within the body": Cut("half"),
}
ANSWERED: dict[str, Behaviour] = {
    "an error": error(-32000, "no"),
    "params refused": error(-32602, "Invalid params"),
    "500": Body(b"oops", 500, "text/html"),
    "502": Body(b"oops", 502, "text/html"),
    "503": Body(b"", 503, "text/html", (("Retry-After", "1"),)),
    "429": Body(b"", 429, "text/html", (("Retry-After", "1"),)),
    "401": DENIED,
    "403": Body(status=403, content_type=None),
    "a redirect": Body(status=307, content_type=None, headers=(("Location", "/jsonrpc"),)),
    "no JSON": Body(b"hello", content_type="text/plain"),
    "no HTTP": Raw(b"hello\r\n\r\n"),
}


@pytest.mark.parametrize("behaviour", (BROKEN_OFF | ANSWERED).values(), ids=(BROKEN_OFF | ANSWERED).keys())
@pytest.mark.parametrize("surface", SURFACES)
async def test_what_may_have_run_is_sent_once(backend: ScriptedBackend, surface: Surface, behaviour: Behaviour) -> None:
    backend.on("add", InTurn((behaviour, Honest())))
    async with front(backend.url) as gateway:
        assert not await add(gateway, surface)
    assert backend.calls("add") == 1


@pytest.mark.parametrize("behaviour", BROKEN_OFF.values(), ids=BROKEN_OFF.keys())
@pytest.mark.parametrize("mark", MARKS)
async def test_what_broke_off_is_sent_again_where_the_operator_marked_the_tool(
    backend: ScriptedBackend, mark: str, behaviour: Behaviour
) -> None:
    backend.on("add", InTurn((behaviour, Honest())))
    async with front(backend.url, marked(mark)) as gateway:
        assert await add(gateway)
    assert backend.calls("add") == 2


async def test_and_no_third_time(backend: ScriptedBackend) -> None:
    backend.on("add", CLOSE)
    async with front(backend.url, marked(MARKS[0])) as gateway:
        assert not await add(gateway)
    assert backend.calls("add") == 2


@pytest.mark.parametrize("behaviour", [ANSWERED[name] for name in ("an error", "500", "502", "503", "no HTTP")])
async def test_an_answer_is_final_whatever_the_operator_marked(backend: ScriptedBackend, behaviour: Behaviour) -> None:
    backend.on("add", InTurn((behaviour, Honest())))
    async with front(backend.url, marked(MARKS[0])) as gateway:
        assert not await add(gateway)
    assert backend.calls("add") == 1


@dataclass
class LastWords:
    """The end of a service that takes no more connections after it."""

    backend: ScriptedBackend
    words: Behaviour

    async def play(self, exchange: Exchange) -> None:
        self.backend.refuse()
        await self.words.play(exchange)
        exchange.ending = "close"


@pytest.mark.parametrize("first", [CLOSE, ANSWERED["params refused"]])
@pytest.mark.parametrize("second", ["429", "nobody"])
async def test_what_the_first_exchange_may_have_run_is_not_safe_to_repeat_after_the_second(
    backend: ScriptedBackend, first: Behaviour, second: str
) -> None:
    backend.on("add", InTurn((first, ANSWERED["429"])) if second == "429" else LastWords(backend, first))
    async with front(backend.url, marked(MARKS[0])) as gateway:
        words = (await gateway.call("rest", "add", TWO_AND_THREE)).message
    what = "The backend is busy (HTTP 429)" if second == "429" else "The backend is unavailable"
    assert words == f"{what}; an earlier try was sent, and {UNKNOWN}"


async def test_what_was_not_answered_in_time_is_sent_once(backend: ScriptedBackend) -> None:
    backend.on("add", InTurn((Hang("nothing"), Honest())))
    async with front(backend.url, marked(MARKS[0]), "backend.timeout=1s") as gateway:
        assert not await add(gateway)
    assert backend.calls("add") == 1


async def test_what_got_no_connection_is_sent_when_there_is_one(backend: ScriptedBackend) -> None:
    with capture_logs() as logs:
        async with front(backend.url) as gateway, asyncio.timeout(PATIENCE):
            await backend.close()
            call = asyncio.create_task(add(gateway))
            for _ in range(1_000_000):  # by the turn: the second try comes in less than a tenth of a second
                if any(entry["event"] == "backend call failed" for entry in logs):
                    break
                await asyncio.sleep(0)
            await backend.open()
            assert await call
    assert backend.calls("add") == 1
    assert [entry["again"] for entry in logs if entry["event"] == "backend call failed"] == [True]


async def test_only_so_many_are_sent_again(backend: ScriptedBackend) -> None:
    """Twenty calls at once, each of which might be."""
    backend.on("add", CLOSE)
    async with front(backend.url, marked(MARKS[0])) as gateway:
        await asyncio.gather(*(add(gateway) for _ in range(20)))
    assert backend.calls("add") == 20 + 10


@dataclass
class Accepts:
    """A method that wants a certain token."""

    token: str

    async def play(self, exchange: Exchange) -> None:
        good = bearer_of(exchange.request) == self.token
        await (SUM if good else DENIED).play(exchange)


async def test_a_credential_of_the_gateways_own_is_renewed_once(endpoint: TokenEndpoint) -> None:
    async with stand(*endpoint.knobs(OWN)) as it:
        ann = it.of("ann")
        it.backend.on("add", Accepts("the-gateway.at-backend.2"))
        assert (await ann.call("rest", "add", TWO_AND_THREE)).status == 200
        assert it.shown("add") == [f"the-gateway.at-backend.{number}" for number in (1, 2)]
        assert (await ann.call("rest", "add", TWO_AND_THREE)).status == 200
        it.backend.on("add", DENIED)
        assert (await ann.call("rest", "add", TWO_AND_THREE)).status == 502
        assert len(it.shown("add")) == 5


async def test_calls_at_once_whose_credential_is_refused_renew_it_together(endpoint: TokenEndpoint) -> None:
    async with stand(*endpoint.knobs(OWN)) as it:
        ann = it.of("ann")
        it.backend.on("add", Accepts("the-gateway.at-backend.2"))
        answers = await asyncio.gather(*(ann.call("rest", "add", TWO_AND_THREE) for _ in range(20)))
        assert {answer.status for answer in answers} == {200}
        assert len(endpoint.forms) == 2


async def test_the_callers_own_token_is_shown_once() -> None:
    async with stand() as it:
        it.backend.on("add", InTurn((DENIED, SUM)))
        assert (await it.of("ann").call("rest", "add", TWO_AND_THREE)).status == 401
        assert it.backend.calls("add") == 1


async def test_a_fixed_credential_is_shown_once(backend: ScriptedBackend) -> None:
    backend.on("add", InTurn((DENIED, SUM)))
    async with front(
        backend.url, "backend.credentials={mode: static, send: {headers: {Authorization: Bearer fixed}}}"
    ) as gateway:
        assert not await add(gateway)
    assert backend.calls("add") == 1
