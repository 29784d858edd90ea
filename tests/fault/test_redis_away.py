"""Redis is slow, gone, full or talks nonsense: each replica decides alone, and comes back by itself.

Redis that answers is in test_redis_there.py.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.errors import StoreUnavailable
from gateway.store.redis_link import SLOW
from tests.contract.stores import taken
from tests.each import each
from tests.fault.redis_stores import is_away, is_there, opened, soon, until_added
from tests.redis_server import RedisServer
from tests.waiting import until


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


def states(lines: list[Any]) -> list[str]:
    return [line["event"].split(":")[0] for line in lines if "the shared store" in line["event"]]


async def test_the_first_slow_answer_makes_redis_away_and_it_comes_back_by_itself(server: RedisServer) -> None:
    with capture_logs() as lines:
        async with opened(server, slow=SLOW) as store:
            server.control.client_pause(1500)
            assert not await store.has("k")
            assert store.problem.cause == "the store is unavailable: no answer within 100 ms"
            with pytest.raises(StoreUnavailable):
                await store.add("k", 60)
            assert await store.permit("p", 1, 5).take() == 0
            await is_there(store)
            assert await store.add("k", 60)
    assert states(lines) == [
        "the shared store is available",
        "the shared store is unavailable",
        "the shared store is available",
    ]


async def test_while_redis_is_away_nothing_waits_for_it(server: RedisServer) -> None:
    """Nothing is awaited that the loop would have to wait for: each decision ends in its first turn."""
    async with opened(server) as store:
        permit = store.permit("p", 1, 50)
        server.kill()
        await is_away(store)
        decisions: tuple[Callable[[], Awaitable[Any]], ...] = (
            lambda: store.has("k"),
            lambda: permit.take(),
            lambda: store.get("k"),
            lambda: store.put("k", b"", 60),
            lambda: store.acquire("k", 60),
            lambda: store.mark("k", 60),
            lambda: store.publish("topic", b""),
        )
        for decide in decisions:
            with pytest.raises(StopIteration):
                decide().__await__().__next__()


async def test_a_server_that_was_killed_and_started_anew_is_found_again(server: RedisServer) -> None:
    with capture_logs() as lines:
        async with opened(server) as store:
            server.kill()
            assert "ConnectionError" in await is_away(store) or "IncompleteReadError" in store.problem.cause
            server.start()
            await is_there(store)
            assert await store.add("k", 60)
    assert states(lines) == [
        "the shared store is available",
        "the shared store is unavailable",
        "the shared store is available",
    ]


async def test_a_redis_that_comes_and_goes_is_tried_each_time_within_a_second_and_logged_now_and_then(
    server: RedisServer,
) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await soon(seconds)

    with capture_logs() as lines:
        async with opened(server, pause=pause) as store:
            for losses in range(1, 31):
                server.control.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
                await until(lambda wanted=losses: len(pauses) >= wanted)
                await is_there(store)
    assert all(0.5 <= seconds <= 0.9 for seconds in pauses), "as soon as after the first loss"
    assert len(set(pauses)) > 1, "replicas that lost it together do not come back together"
    available, unavailable = "the shared store is available", "the shared store is unavailable"
    assert states(lines) == [available, *(unavailable, available) * 10], "the last line is true"


async def test_a_start_without_redis_works_and_says_so(server: RedisServer) -> None:
    server.kill()
    with capture_logs() as lines:
        async with opened(server) as store:
            assert "ConnectionError" in store.problem.cause
            assert await store.permit("p", 1, 5).take() == 0
            server.start()
            await is_there(store)
            assert await store.add("k", 60)
    assert states(lines) == ["the shared store is unavailable", "the shared store is available"]


async def test_a_full_redis_is_away_until_there_is_room(server: RedisServer) -> None:
    async with opened(server) as store:
        assert await store.add("before", 60)
        server.control.config_set("maxmemory-policy", "noeviction")
        server.control.config_set("maxmemory", 1)
        assert "OutOfMemoryError" in await is_away(store)
        with pytest.raises(StoreUnavailable):
            await store.add("k", 60)
        assert await store.permit("p", 1, 5).take() == 0
        server.control.config_set("maxmemory", 0)
        await is_there(store)
        assert not await store.add("before", 60)


NONSENSE = {
    "another protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "OK to everything": b"+OK\r\n",
    "a number to everything": b":7\r\n",
    "an empty list": b"*0\r\n",
    "a list of nothing": b"*-1\r\n",
    "an unknown error": b"-WAT no\r\n",
    "a text that never ends": b"$1000000000\r\nabc",
    "a length that is none": b"$xyz\r\n",
    "a deep list": b"*1\r\n" * 5000,
    "zeros": bytes(1000),
    "nothing, and the end": b"",
}


@each("answer", NONSENSE.values(), ids=NONSENSE)
async def test_a_server_that_talks_nonsense_is_away(server: RedisServer, answer: bytes) -> None:
    """From the first answer on, and in place of a server that was there."""
    with capture_logs() as lines:
        async with opened(server, slow=SLOW) as store:
            server.kill()
            talker = await asyncio.start_server(_saying(answer), "127.0.0.1", server.port)
            try:
                await is_away(store)
                for _ in range(3):
                    with pytest.raises(StoreUnavailable):
                        await store.add("k", 60)
                    assert await store.permit("p", 1, 50).take() == 0
                    assert not await store.has("k")
                async with opened(server, slow=SLOW) as late:
                    assert late.problem.cause
            finally:
                talker.close()
            server.start()
            await is_there(store)
            await until_added(store, "k")
    assert states(lines).count("the shared store is unavailable") >= 2, lines


def _saying(answer: bytes) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.read(65536):
                writer.write(answer)
                await writer.drain()
                if not answer:
                    break
        except ConnectionError:
            pass
        finally:
            writer.close()

    return talk


async def test_what_must_be_once_for_all_may_be_allowed_once_on_each_replica(server: RedisServer) -> None:
    async with opened(server, "allow") as store, opened(server, "allow") as other:
        assert await store.add("before", 60)
        server.kill()
        await is_away(store)
        await is_away(other)
        assert [await one.add("k", 60) for one in (store, other, store, other)] == [True, True, False, False]
        assert not await store.add("before", 60), "this replica used it itself"
        server.start()
        await is_there(store)
        await is_there(other)
        assert not await other.add("k", 60)


async def test_a_session_that_ended_while_redis_was_away_has_ended_for_all_once_it_is_back(
    server: RedisServer,
) -> None:
    async with opened(server) as store, opened(server) as other:
        server.kill()
        await is_away(store)
        await is_away(other)
        await store.mark("session-ended:1", 60)
        assert await store.has("session-ended:1")
        assert not await other.has("session-ended:1")
        server.start()
        await until(lambda: other.has("session-ended:1"))


async def test_limits_are_divided_by_the_replicas_that_were_seen_last(server: RedisServer) -> None:
    async with opened(server) as store, opened(server) as other, opened(server):
        await until(lambda: repr(store).count("3 replicas") and repr(other).count("3 replicas"))
        server.kill()
        await is_away(store)
        await is_away(other)
        assert await taken(store.permit("k", 1 / 3600, 60)) == 20
        assert await taken(other.permit("k", 1 / 3600, 60)) == 20
        assert await taken(store.permit("few", 1 / 3600, 2)) == 1
        assert store.permit("k", 1 / 3600, 60).remaining()[0] >= 0


async def test_a_process_that_stood_still_does_not_take_redis_for_slow(server: RedisServer) -> None:
    async with opened(server, slow=0.3) as store:
        for turns in range(5):
            asking = asyncio.ensure_future(store.add(f"k {turns}", 60))
            for _ in range(turns):
                await asyncio.sleep(0)
            end = time.monotonic() + 0.4
            while time.monotonic() < end:
                pass
            assert await asking
            assert store.problem.cause == ""
