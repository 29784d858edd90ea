"""A service that is gone, or does not answer, and comes back: callers are told at once, and soon served again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from tests.fault.behaviours import Hang, result
from tests.fault.methods import ADD, ECHO, METHODS, openrpc
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Front, Surface, front
from tests.waiting import PATIENCE, until

TWO_AND_THREE = {"a": 2, "b": 3}
REPEAT = "; the call was not sent, so it is safe to repeat"
OPEN = f"The backend does not answer at the moment{REPEAT}"
OPEN_TOOL = f"The backend does not answer calls of this tool at the moment{REPEAT}"
MINE = f"The backend answered none of your last calls of this tool in time{REPEAT}"
KNOBS = ("server.trusted_proxies=[127.0.0.0/8]", "backend.timeout=1s")
"""Callers are told apart by the address that a trusted proxy gives."""
ANN, BOB, CARL = ({"X-Forwarded-For": f"192.0.2.{number}"} for number in (1, 2, 3))


async def add_until(gateway: Front, message: str | None) -> None:
    """Call again and again until that is what it comes to; None is a success."""
    await until(
        lambda: gateway.call("rest", "add", TWO_AND_THREE),
        lambda called: (called.message if called.failed else None) == message,
    )


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_service_that_is_gone_is_said_to_be_so_without_asking_it(
    backend: ScriptedBackend, surface: Surface
) -> None:
    async with front(backend.url) as gateway:
        await backend.close()
        await add_until(gateway, OPEN)
        # One a second is let through.
        called = await until(lambda: gateway.call(surface, "add", TWO_AND_THREE), lambda called: called.message == OPEN)
        if surface == "rest":
            assert (called.status, called.code, called.headers["Retry-After"]) == (503, "backend_busy", "1")
        else:
            assert called.result["_meta"]["retryAfter"] == 1
        await backend.open()


async def test_after_its_return_calls_are_served_again_and_none_ran_twice(backend: ScriptedBackend) -> None:
    async with front(backend.url) as gateway:
        await backend.close()
        await add_until(gateway, OPEN)
        await backend.open()
        await add_until(gateway, None)
        assert backend.calls("add") == 1
        assert [not (await gateway.call("rest", "add", TWO_AND_THREE)).failed for _ in range(5)] == [True] * 5


async def test_after_its_return_the_listing_is_had_again_without_anybody_asking(backend: ScriptedBackend) -> None:
    knobs = ("catalog.ttl=50ms", "backend.listing.dialect=openrpc", "limits.discovery=1000000/minute")
    async with front(backend.url, *knobs) as gateway:
        await backend.close()
        await add_until(gateway, OPEN)
        assert set(await gateway.tools()) == {method.name for method in METHODS}  # the last good one
        backend.on("rpc.discover", result(openrpc((ECHO,))))
        await backend.open()
        await until(gateway.tools, lambda tools: set(tools) == {"echo"})


async def test_a_gateway_that_starts_before_its_service_lists_it_when_it_comes(backend: ScriptedBackend) -> None:
    await backend.close()
    async with front(backend.url, "backend.listing.dialect=openrpc", "limits.discovery=1000000/minute") as gateway:
        await backend.open()
        async with asyncio.timeout(PATIENCE):
            await backend.called("rpc.discover")
            assert set(await gateway.tools()) == {method.name for method in METHODS}


async def time_out(gateway: Front, tool: str, times: int, *callers: Mapping[str, str]) -> None:
    """Let each caller make so many calls of a tool at once, which all end at their deadline."""
    arguments = TWO_AND_THREE if tool == "add" else {"value": 1}
    calls = (gateway.call("rest", tool, arguments, caller) for caller in callers for _ in range(times))
    assert {each.status for each in await asyncio.gather(*calls)} == {504}


async def test_a_tool_that_hangs_is_refused_alone(backend: ScriptedBackend) -> None:
    backend.on("echo", Hang("nothing"))
    async with front(backend.url, *KNOBS) as gateway, asyncio.timeout(PATIENCE):
        await time_out(gateway, "echo", 10, ANN, BOB)
        assert (await gateway.call("rest", "echo", {"value": 1}, CARL)).message == OPEN_TOOL
        assert (await gateway.call("rest", "add", TWO_AND_THREE, ANN)).value == {"sum": 5}
        assert backend.calls("echo") == 20
        backend.on("echo", result("back"))
        while (await gateway.call("rest", "echo", {"value": 1}, CARL)).failed:
            pass
        assert backend.calls("echo") == 21


async def test_who_alone_sees_a_tool_hang_is_refused_alone_until_another_is_answered(backend: ScriptedBackend) -> None:
    backend.on("echo", Hang("nothing"))
    async with front(backend.url, *KNOBS) as gateway, asyncio.timeout(PATIENCE):
        for _ in range(2):
            await time_out(gateway, "echo", 10, ANN)
        assert (await gateway.call("rest", "echo", {"value": 1}, ANN)).message == MINE
        backend.on("echo", result("back"))
        assert (await gateway.call("rest", "echo", {"value": 1}, BOB)).value == "back"
        assert (await gateway.call("rest", "echo", {"value": 1}, ANN)).value == "back"


async def test_arguments_that_hang_close_their_tool_to_nobody(backend: ScriptedBackend) -> None:
    async with front(backend.url, *KNOBS) as gateway, asyncio.timeout(PATIENCE):
        for _ in range(2):
            backend.on("echo", Hang("nothing"))
            hanging = asyncio.create_task(time_out(gateway, "echo", 16, ANN))
            await backend.called("echo", backend.calls("echo") + 16)
            backend.on("echo", result("quick"))
            assert (await gateway.call("rest", "echo", {"value": 1}, BOB)).value == "quick"
            await hanging
            assert (await gateway.call("rest", "echo", {"value": 1}, ANN)).value == "quick"


async def test_a_service_that_answers_nothing_is_refused_for_all_tools(backend: ScriptedBackend) -> None:
    backend.default = Hang("nothing")
    async with front(backend.url, *KNOBS) as gateway, asyncio.timeout(PATIENCE):
        await asyncio.gather(*(time_out(gateway, tool, 5, ANN, BOB) for tool in ("add", "echo")))
        assert (await gateway.call("rest", "fail", {}, CARL)).message == OPEN
        assert backend.calls("fail") == 0


async def test_while_tools_hang_a_listing_that_can_be_had_is_shown(backend: ScriptedBackend) -> None:
    backend.default = Hang("nothing")
    async with front(backend.url, *KNOBS) as gateway, asyncio.timeout(PATIENCE):
        await asyncio.gather(*(time_out(gateway, tool, 5, ANN, BOB) for tool in ("add", "echo")))
        backend.on("rpc.discover", result(openrpc((ADD,))))
        assert gateway.gateway is not None
        await gateway.gateway.refresh_listings()
        assert set(await gateway.tools()) == {"add"}


async def test_a_call_that_waited_for_its_turn_while_the_service_died_is_not_sent(backend: ScriptedBackend) -> None:
    backend.default = Hang("nothing")
    knobs = ("backend.connections=20", "backend.timeout=1s", "backend.queue_timeout=60s")
    async with front(backend.url, *knobs) as gateway, asyncio.timeout(PATIENCE):
        tools = {"add": TWO_AND_THREE, "echo": {"value": 1}, "fail": {}}
        calls = [gateway.call("rest", tool, arguments) for _ in range(40) for tool, arguments in tools.items()]
        called = await asyncio.gather(*calls)
        assert {each.status for each in called} == {503, 504}
        assert sum(map(backend.calls, tools)) < 60
