"""What an exchange tells the breaker, and how long a listing may take of those that wait behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import pytest

from gateway.backend.admission import SHORT, BackendGate, CallAdmission, ListingAdmission
from gateway.backend.breaker import CircuitOpen
from gateway.backend.http import HttpTransport
from gateway.backend.queue import NoTurn
from gateway.backend.request_parts import RequestParts
from gateway.backend.resending import Attempts, ResendBudget
from gateway.backend.transport import Outgoing, Reply
from gateway.http_client.response import ConnectFailed, DeadlinePassed, OutboundError
from gateway.http_client.session import Outbound
from tests.clock import Clock, by_hand
from tests.fault.behaviours import CLOSE, SUM, Cut, Hang, InTurn
from tests.fault.scripted import ScriptedBackend
from tests.manual_clock import ManualClock

BODY = b'{"jsonrpc":"2.0","id":"7","method":"add","params":{"a":2,"b":3}}'
MESSAGE = Outgoing("7", BODY, RequestParts())
MOST = 100_000


@dataclass
class Way:
    """The whole way to a backend. ``clock`` is its breaker's, and stands still."""

    backend: ScriptedBackend
    outbound: Outbound
    gate: BackendGate
    clock: ManualClock

    async def call(self, tool: str, timeout: float, passed: float = 0.0, caller: str = "ada") -> None:
        """One exchange of a call that has waited for so many of its seconds."""
        clock = ManualClock()
        attempts = Attempts(caller, tool, timeout, ResendBudget(clock), clock=clock)
        assert attempts.seconds_left() == timeout
        clock.now += passed
        admission = CallAdmission(self.transport, self.gate, 60.0)
        await admission.send(MESSAGE, attempts, max_bytes=MOST)

    @property
    def transport(self) -> HttpTransport:
        return HttpTransport(self.outbound, self.backend.url)


@asynccontextmanager
async def a_way(connections: int = 100) -> AsyncIterator[Way]:
    async with ScriptedBackend() as backend:
        outbound = Outbound(connections=0)
        clock = ManualClock()
        yield Way(backend, outbound, BackendGate(connections, clock), clock)
        await outbound.close()


async def test_time_outs_of_two_tools_and_two_callers_open_the_breaker() -> None:
    async with a_way() as way:
        way.backend.default = Hang("nothing")
        for number in range(20):
            assert not way.gate.breaker.is_open
            with pytest.raises(DeadlinePassed):
                await way.call(f"tool {number % 2}", 0.05, caller="ada" if number else "bob")
        assert way.gate.breaker.is_open


async def test_what_is_answered_while_exchanges_are_under_way_keeps_their_time_outs_from_counting() -> None:
    async with a_way() as way:
        way.backend.on("add", Hang("nothing"))
        hanging = [
            asyncio.create_task(way.call(f"tool {number % 2}", 1.0, caller=f"caller {number % 3}"))
            for number in range(40)
        ]
        await way.backend.called("add", 40)
        way.backend.on("add", SUM)
        way.clock.now += 60.0  # which is later than those were sent
        for tool in ("tool 0", "echo"):
            await way.call(tool, 5.0)
        assert {type(end) for end in await asyncio.gather(*hanging, return_exceptions=True)} == {DeadlinePassed}
        assert repr(way.gate.breaker) == "<Breaker: closed, 1 tools open>"  # tool 1 has answered nobody


async def test_a_call_that_had_little_of_its_time_left_says_nothing_about_the_service() -> None:
    async with a_way() as way:
        way.backend.default = Hang("nothing")
        for number in range(24):  # 20 would do to open it
            with pytest.raises(DeadlinePassed):
                await way.call(f"tool {number % 2}", 1.0, passed=0.95)
        assert not way.gate.breaker.is_open


async def test_a_call_whose_time_is_over_is_not_sent() -> None:
    async with a_way() as way:
        with pytest.raises(NoTurn):
            await way.call("add", 1.0, passed=1.0)
        assert way.backend.requests == []


async def test_while_the_breaker_is_open_and_all_slots_are_held_one_call_waits_and_others_are_refused() -> None:
    async with a_way(connections=1) as way:
        for _ in range(10):
            way.gate.breaker.fail("ada", "add", ConnectFailed("connection refused"))
        hung = await way.gate.queue.take("bob", "hung", 1.0)
        way.clock.now += 1.0
        waiting = asyncio.create_task(way.call("add", 5.0))
        await asyncio.sleep(0)
        assert "1 wait" in repr(way.gate.queue)
        for _ in range(3):
            with pytest.raises(CircuitOpen):
                await way.call("add", 5.0)
        way.gate.queue.free(hung, answered=False)
        await waiting
        assert len(way.backend.requests) == 1


async def test_refused_connections_open_it_and_an_answer_closes_it() -> None:
    async with a_way() as way:
        await way.backend.close()
        for _ in range(10):
            with pytest.raises(ConnectFailed):
                await way.call("add", 5.0)
        assert way.gate.breaker.is_open
        await way.backend.open()
        await ListingAdmission(way.transport, way.gate, "").send(MESSAGE, timeout=5.0, max_bytes=MOST)
        assert not way.gate.breaker.is_open
        await way.call("add", 5.0)


@pytest.mark.parametrize("behaviour", [CLOSE, Cut("half")])
async def test_what_breaks_off_opens_nothing_and_gives_the_slot_back(behaviour: Cut) -> None:
    async with a_way(connections=1) as way:
        way.backend.on("add", behaviour)
        for _ in range(30):
            with suppress(OutboundError):
                await way.call("add", 5.0)
        assert not way.gate.breaker.is_open
        assert repr(way.gate.queue) == "<FairQueue: 0 of 1 held, 0 of 0 for listings, 0 wait>"


@by_hand
async def test_who_timed_out_last_time_has_less_time_while_others_wait(clock: Clock) -> None:
    async with a_way(connections=1) as way:
        way.backend.default = Hang("nothing")

        def ask(caller: str) -> asyncio.Task[Reply]:
            listing = ListingAdmission(way.transport, way.gate, caller)
            return asyncio.create_task(listing.send(MESSAGE, timeout=10.0, max_bytes=MOST))

        async def ends_after(task: asyncio.Task[Reply], seconds: float) -> None:
            await clock.moves_on(seconds - 0.2)
            assert not task.done()
            await clock.moves_on(0.4)
            with pytest.raises(DeadlinePassed):
                await task

        await ends_after(ask("hung"), 10.0)
        await ends_after(ask("hung"), 10.0)  # nobody waits
        first = ask("new")
        waiting = ask("newer")
        await clock.settles()
        hung = ask("hung")
        await clock.settles()
        way.backend.release.set()
        await asyncio.wait([first, waiting])
        way.backend.release.clear()
        await ends_after(hung, SHORT)


@by_hand
async def test_while_nothing_answers_a_listing_is_asked_for_each_second_and_the_first_answer_counts(
    clock: Clock,
) -> None:
    async with a_way() as way:
        listing = ListingAdmission(way.transport, way.gate, "")
        for _ in range(10):
            way.gate.breaker.fail("ada", "add", ConnectFailed("connection refused"))
        way.backend.on("add", InTurn((Hang("nothing"), Hang("nothing"), Hang("nothing", event=asyncio.Event()), CLOSE)))
        asking = asyncio.create_task(listing.send(MESSAGE, timeout=60.0, max_bytes=MOST))
        await clock.moves_on(0.5)
        assert way.backend.calls("add") == 1
        await clock.moves_on(4)
        assert way.backend.calls("add") == 5  # one broke off, which is not the end
        assert not asking.done()
        way.backend.release.set()
        assert (await asking).is_success
        assert not way.gate.breaker.is_open


class Timed:
    """A transport that notes how long each question may take, and how many of them go on."""

    has_documents = False

    def __init__(self) -> None:
        self.timeouts: list[float] = []
        self.under_way = 0
        self.reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    async def send(self, outgoing: Outgoing, *, timeout: float, max_bytes: int) -> Reply:
        self.timeouts.append(timeout)
        self.under_way += 1
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.shield(self.reply)
        except TimeoutError:
            raise DeadlinePassed("no answer came in time") from None
        finally:
            self.under_way -= 1


@pytest.mark.parametrize("is_open", [True, False])
def test_no_question_of_a_listing_outlives_its_time_or_the_first_answer(is_open: bool) -> None:
    @by_hand
    async def asking(clock: Clock) -> None:
        async with a_way() as way:
            if is_open:
                await way.backend.close()
                for _ in range(10):
                    with pytest.raises(ConnectFailed):
                        await way.call("add", 5.0)
            transport = Timed()
            listing = ListingAdmission(transport, way.gate, "")
            question = asyncio.create_task(listing.send(MESSAGE, timeout=60.0, max_bytes=MOST))
            await clock.moves_on(3.5)
            asked = len(transport.timeouts)
            assert asked == (4 if is_open else 1)
            assert all(0 < timeout <= 60.0 for timeout in transport.timeouts)
            assert transport.under_way == asked
            await clock.moves_on(30)
            asked = len(transport.timeouts)
            assert transport.under_way <= 9  # each holds a connection
            assert asked >= (25 if is_open else 1)  # and it is found soon that the service is back
            transport.reply.set_result(Reply(b"{}"))
            assert (await question).body == b"{}"
            await clock.moves_on(3)
            assert (len(transport.timeouts), transport.under_way) == (asked, 0)

    asking()
