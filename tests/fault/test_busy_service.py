"""A service that hangs, or has more callers than it can serve: who gets a turn, and what the others are told.

Callers are told apart by the address that a trusted proxy gives.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.authorization.stand import bearer_of, names, stand, subject_of
from tests.fault.behaviours import Exchange, Hang, result
from tests.fault.methods import ADD, ECHO, openrpc
from tests.fault.scripted import ScriptedBackend
from tests.front import Called, Front, Surface, front
from tests.protocol.talk import request
from tests.waiting import PATIENCE, until

PROXY = "server.trusted_proxies=[127.0.0.0/8]"
TWO_AND_THREE = {"a": 2, "b": 3}
NOT_SENT = "No connection to the backend came free in time; the call was not sent, so it is safe to repeat"


@pytest.fixture
def backend(backend: ScriptedBackend) -> ScriptedBackend:
    backend.on("echo", Hang("nothing"))
    return backend


class Callers:
    """Many callers of one gateway."""

    def __init__(self, front: Front) -> None:
        self.front = front
        self.under_way: list[asyncio.Task[Called]] = []

    async def call(self, caller: int, tool: str, surface: Surface = "rest") -> Called:
        arguments = {"add": TWO_AND_THREE, "echo": {"value": caller}, "fail": {}}[tool]
        return await self.front.call(surface, tool, arguments, {"X-Forwarded-For": f"192.0.2.{caller}"})

    async def begin(self, caller: int, tool: str, surface: Surface = "rest") -> asyncio.Task[Called]:
        """Send a call whose answer will take its time, and return once the gateway has it."""
        task = asyncio.create_task(self.call(caller, tool, surface))
        self.under_way.append(task)
        for _ in range(50):  # the gateway is in this loop
            await asyncio.sleep(0)
        return task

    async def end(self) -> list[Called]:
        return await asyncio.gather(*self.under_way)


@asynccontextmanager
async def callers_of(
    backend: ScriptedBackend, connections: int, queue_timeout: str = "60s", *knobs: str
) -> AsyncIterator[Callers]:
    """Callers of a gateway that may have so many connections. The block has PATIENCE seconds."""
    bounds = (f"backend.connections={connections}", f"backend.queue_timeout={queue_timeout}", PROXY, *knobs)
    async with front(backend.url, *bounds) as gateway, asyncio.timeout(PATIENCE):
        yield Callers(gateway)


async def test_one_tool_that_hangs_holds_a_third_and_others_answer(backend: ScriptedBackend) -> None:
    async with callers_of(backend, 16) as callers:
        for caller in range(20):
            await callers.begin(caller, "echo")
        await backend.called("echo", 4)
        for caller in (1, 50):  # one whose call hangs, and one that has none
            assert (await callers.call(caller, "add")).value == {"sum": 5}
        assert backend.calls("echo") == 4
        backend.release.set()
        assert all(called.status == 200 for called in await callers.end())
        assert backend.calls("echo") == 20


async def test_while_tools_hang_the_listing_is_refreshed(backend: ScriptedBackend) -> None:
    backend.on("add", Hang("nothing"))
    backend.on("fail", Hang("nothing"))
    async with callers_of(backend, 16) as callers:
        for caller in range(1, 6):
            for tool in ("echo", "add", "fail"):
                await callers.begin(caller, tool)
        await backend.called("fail", 4)
        backend.on("rpc.discover", result(openrpc((ADD,))))
        assert callers.front.gateway is not None
        await callers.front.gateway.refresh_listings()
        assert set(await callers.front.tools()) == {"add"}
        backend.release.set()
        await callers.end()


async def test_one_caller_that_floods_one_tool_holds_half_of_a_third_and_another_is_answered_in_its_turn(
    backend: ScriptedBackend,
) -> None:
    async with callers_of(backend, 1) as callers:
        for _ in range(30):
            await callers.begin(1, "echo")
        await callers.begin(2, "add")
        backend.release.set()
        await callers.end()
    calls = [sent.method for sent in backend.requests if sent.method in ("add", "echo")]
    assert calls.index("add") <= 2  # behind the one that was there, and at most one more of the flood
    assert len(calls) == 31


async def test_one_caller_whose_calls_of_several_tools_hang_holds_a_third_and_others_answer(
    backend: ScriptedBackend,
) -> None:
    async with callers_of(backend, 16) as callers:  # four of these are for listings
        for tool in ("add", "echo", "fail"):
            backend.on(tool, Hang("nothing"))
            for _ in range(10):
                await callers.begin(1, tool)
        assert [backend.calls(tool) for tool in ("add", "echo", "fail")] == [2, 2, 0]
        for caller in (2, 3):
            for tool in ("add", "echo", "fail"):
                await callers.begin(caller, tool)
        await backend.called("fail", 2)
        assert [backend.calls(tool) for tool in ("add", "echo", "fail")] == [4, 4, 2]
        backend.release.set()
        await callers.end()


async def test_with_slots_to_spare_one_caller_that_floods_makes_another_wait_for_nothing(
    backend: ScriptedBackend,
) -> None:
    async with callers_of(backend, 16) as callers:
        for _ in range(30):
            await callers.begin(1, "echo")
        await backend.called("echo", 2)
        assert (await callers.call(2, "add")).value == {"sum": 5}
        assert backend.calls("echo") == 2
        await callers.begin(2, "echo")
        await backend.called("echo", 3)
        backend.release.set()
        await callers.end()


@pytest.mark.parametrize("surface", ["modern", "legacy", "rest"])
async def test_who_waits_too_long_is_told_that_nothing_was_sent(backend: ScriptedBackend, surface: Surface) -> None:
    async with callers_of(backend, 1, "50ms") as callers:
        await callers.begin(1, "echo")
        await backend.called("echo")
        called = await callers.call(2, "add", surface)
        assert called.message == NOT_SENT
        if surface == "rest":
            assert (called.status, called.code, called.headers["Retry-After"]) == (503, "backend_busy", "5")
        else:
            assert called.result["_meta"]["retryAfter"] == 5
        assert backend.calls("add") == 0
        backend.release.set()
        await callers.end()


async def test_a_call_that_waits_and_is_hung_up_on_is_never_sent(backend: ScriptedBackend) -> None:
    async with callers_of(backend, 1, "60s", "limits.concurrent=1") as callers:
        await callers.begin(1, "echo")
        waiting = await callers.begin(2, "add", "modern")
        callers.under_way.remove(waiting)
        waiting.cancel()
        while (await callers.begin(2, "fail")).done():  # refused for as long as the first is under way
            pass
        backend.release.set()
        await callers.end()
        assert (backend.calls("add"), backend.calls("fail")) == (0, 1)


async def test_who_hangs_up_frees_its_slot_where_its_era_cancels(backend: ScriptedBackend) -> None:
    async with callers_of(backend, 1) as callers:
        gone = await callers.begin(1, "echo", "modern")
        await backend.called("echo")
        gone.cancel()
        assert (await callers.call(1, "add")).value == {"sum": 5}


async def test_who_hangs_up_keeps_its_slot_where_its_era_does_not_cancel(backend: ScriptedBackend) -> None:
    async with callers_of(backend, 1, "50ms") as callers:
        gone = await callers.begin(1, "echo", "legacy")
        await backend.called("echo")
        gone.cancel()
        await asyncio.wait([gone])
        assert (await callers.call(1, "add")).message == NOT_SENT
        backend.release.set()
        await until(lambda: callers.call(1, "add"), lambda called: not called.failed)


async def test_a_batch_waits_for_its_turns_one_by_one(backend: ScriptedBackend) -> None:
    async with front(backend.url, "backend.connections=1") as gateway, asyncio.timeout(PATIENCE):
        backend.release.set()
        answer = await gateway.post(f"{gateway.base}/jsonrpc", [request("echo", {"value": n}, n) for n in range(5)])
        assert [each["id"] for each in answer.body] == list(range(5))


@dataclass
class HangingFor:
    """The listing, which hangs for callers whose name begins so."""

    prefix: str
    hung: int = 0
    most: int = 0
    _running: int = 0

    async def play(self, exchange: Exchange) -> None:
        self._running += 1
        self.most = max(self.most, self._running)
        subject = subject_of(bearer_of(exchange.request) or "")
        if subject.startswith(self.prefix):
            self.hung += 1
            await Hang("nothing").play(exchange)
        else:
            await result(openrpc((ADD, ECHO))).play(exchange)
        self._running -= 1


async def test_callers_whose_listing_hangs_lock_no_newcomer_out() -> None:
    async with stand() as it, asyncio.timeout(PATIENCE):
        listing = HangingFor("hung")
        it.backend.on("rpc.discover", listing)
        waiting = [asyncio.create_task(it.of(f"hung{number}").list("rest")) for number in range(16)]
        await it.backend.called("rpc.discover", 4)
        for number in range(40):
            assert await names(it.of(f"new{number}")) == ["add", "echo"]
        assert not any(task.done() and task.result().status == 200 for task in waiting)
        it.backend.release.set()
        await asyncio.gather(*waiting)


async def test_a_rush_of_newcomers_is_none_on_the_service() -> None:
    async with stand() as it, asyncio.timeout(PATIENCE):
        listing = HangingFor("nobody")
        it.backend.on("rpc.discover", listing)
        assert await names(it.of("first")) == ["add", "echo"]
        found: Sequence[list[str]] = await asyncio.gather(*(names(it.of(f"new{number}")) for number in range(60)))
        assert list(found) == [["add", "echo"]] * 60
        assert listing.most <= 4


async def test_one_callers_listings_take_one_slot_of_those_for_listings() -> None:
    async with stand("backend.connections=8") as it, asyncio.timeout(PATIENCE):
        listing = HangingFor("hung")
        it.backend.on("rpc.discover", listing)
        waiting = [asyncio.create_task(it.of("hung", client_id=f"app{number}").list("rest")) for number in range(10)]
        await it.backend.called("rpc.discover")
        assert await names(it.of("ann")) == ["add", "echo"]
        assert listing.hung <= 2  # one that is kept for listings, and half of a third of the others
        it.backend.release.set()
        await asyncio.gather(*waiting)
