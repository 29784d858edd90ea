"""Redis is slow, gone, full or talks nonsense: each replica decides alone, and comes back by itself.

What both stores do while all is well is in tests/contract/test_stores.py.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from gateway.errors import StoreUnavailable
from gateway.settings import StoreSettings
from gateway.store import Permit
from gateway.store.redis import RedisStore
from gateway.store.redis_client import make_client
from gateway.store.redis_link import SLOW
from tests.each import each
from tests.redis_server import TEST_TIME, RedisServer, ServerClock

PATIENCE = 15.0
"""Also of the store, where a test is not about slow answers: other tests may keep the machine busy."""


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


async def soon(_: float) -> None:
    """The pause before Redis is tried again."""
    await asyncio.sleep(0.01)


@asynccontextmanager
async def opened(
    server: RedisServer | str,
    when_away: Literal["refuse", "allow"] = "refuse",
    slow: float = PATIENCE,
    complete_after: float = 0,
    pause: Callable[[float], Awaitable[None]] = soon,
    **more: Any,
) -> AsyncIterator[RedisStore]:
    url = server if isinstance(server, str) else server.url
    settings = StoreSettings(url=url, when_away=when_away, **more)
    store = RedisStore(make_client(settings), settings.when_away, pause=pause, slow=slow, complete_after=complete_after)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110, it is another process that changes
            await asyncio.sleep(0.01)


async def is_away(store: RedisStore) -> str:
    """Wait until the store has noticed, and return why it is away."""
    await until(store.health)
    return store.health()


async def is_there(store: RedisStore) -> None:
    await until(lambda: not store.health())


async def taken(permit: Permit, most: int = 1000) -> int:
    for count in range(most):
        if await permit.take():
            return count
    return most


async def until_added(store: RedisStore, key: str) -> None:
    """Mark a key, also where a busy machine made the store away again meanwhile."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await store.add(key, 60)
                return
            except StoreUnavailable:
                await asyncio.sleep(0.01)


def states(lines: list[Any]) -> list[str]:
    return [line["event"].split(":")[0] for line in lines if "the shared store" in line["event"]]


async def test_the_first_slow_answer_makes_redis_away_and_it_comes_back_by_itself(server: RedisServer) -> None:
    with capture_logs() as lines:
        async with opened(server, slow=SLOW) as store:
            server.control.client_pause(1500)
            assert not await store.has("k")
            assert store.health() == "no answer within 100 ms"
            with pytest.raises(StoreUnavailable):
                await store.add("k", 60)
            assert await store.permit("p", 1, 5).take() == 0
            await is_there(store)
            assert await store.add("k", 60)
    assert states(lines) == ["the shared store is there", "the shared store is away", "the shared store is there"]


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
            assert "ConnectionError" in await is_away(store) or "IncompleteReadError" in store.health()
            server.start()
            await is_there(store)
            assert await store.add("k", 60)
    assert states(lines) == ["the shared store is there", "the shared store is away", "the shared store is there"]


async def test_a_start_without_redis_works_and_says_so(server: RedisServer) -> None:
    server.kill()
    with capture_logs() as lines:
        async with opened(server) as store:
            assert "ConnectionError" in store.health()
            assert await store.permit("p", 1, 5).take() == 0
            server.start()
            await is_there(store)
            assert await store.add("k", 60)
    assert states(lines) == ["the shared store is away", "the shared store is there"]


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
                    assert late.health()
            finally:
                talker.close()
            server.start()
            await is_there(store)
            await until_added(store, "k")
    assert states(lines).count("the shared store is away") >= 2, lines


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
        async with asyncio.timeout(PATIENCE):
            while not await other.has("session-ended:1"):  # noqa: ASYNC110, the other replica decides when
                await asyncio.sleep(0.01)


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


async def test_three_replicas_give_out_one_burst_and_at_most_one_lease_each(server: RedisServer) -> None:
    clock = ServerClock(server)  # it stands still, so that nothing comes back
    stores = [
        RedisStore(Redis(port=server.port, protocol=2), clock=clock, time_script=TEST_TIME, slow=PATIENCE)
        for _ in range(3)
    ]
    for store in stores:
        await store.open()
    permits = [store.permit("k", 1, 200) for store in stores]
    counts = [0, 0, 0]
    for number, permit in enumerate(permits):
        while counts[number] < 30 and not await permit.take():
            counts[number] += 1
    for number, permit in enumerate(permits):
        counts[number] += await taken(permit)
    assert sum(counts) == 200
    clock.now += 1000
    assert sum([await taken(permit) for permit in permits]) == 200
    for store in stores:
        await store.close()


async def test_a_lease_ends_when_its_permits_would_be_free_again(server: RedisServer) -> None:
    clock = ServerClock(server)
    store = RedisStore(Redis(port=server.port, protocol=2), clock=clock, time_script=TEST_TIME, slow=PATIENCE)
    await store.open()
    permit = store.permit("k", 1, 100)
    assert await permit.take() == 0
    before = server.control.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert await taken(permit, 9) == 9
    assert server.control.info("commandstats")["cmdstat_evalsha"]["calls"] - before <= 1, "a beat at most"
    clock.now += 1000
    assert await taken(permit) == 100
    await store.close()


async def test_replicas_share_markers_documents_locks_and_notices(server: RedisServer) -> None:
    async with opened(server) as one, opened(server) as other:
        heard: asyncio.Queue[bytes] = asyncio.Queue()
        own: list[bytes] = []
        other.subscribe("topic", heard.put_nowait)
        one.subscribe("topic", own.append)
        assert sorted(await asyncio.gather(one.add("k", 60), other.add("k", 60))) == [False, True]
        assert await one.put("k", b"document", 60)
        assert await other.get("k") == b"document"
        token = await one.acquire("k", 60)
        assert token
        assert await other.acquire("k", 60) == ""
        await other.release("k", "no token")
        await one.publish("topic", b"\xff notice")
        await one.publish("topic", b"")
        async with asyncio.timeout(PATIENCE):
            assert [await heard.get(), await heard.get()] == [b"\xff notice", b""]
        assert own == [b"\xff notice", b""], "once, though Redis tells it too"


async def test_a_caller_that_gives_up_leaves_no_reply_for_the_next_one(server: RedisServer) -> None:
    async with opened(server) as store:
        await asyncio.gather(*(store.put(str(number), str(number).encode(), 60) for number in range(50)))
        for turns in range(30):
            asking = [asyncio.ensure_future(store.get(str(number))) for number in range(50)]
            for _ in range(turns):
                await asyncio.sleep(0)
            for one in asking[::2]:
                one.cancel()
            answers = await asyncio.gather(*asking, return_exceptions=True)
            for number, answer in enumerate(answers):
                assert answer == str(number).encode() or isinstance(answer, asyncio.CancelledError)
        assert [await store.get(str(number)) for number in range(50)] == [str(number).encode() for number in range(50)]
        assert store.health() == ""


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
            assert store.health() == ""


async def test_a_user_with_few_rights_is_enough_and_its_password_is_never_shown(server: RedisServer) -> None:
    """The rights are those that docs/deployment.md names."""
    server.control.acl_setuser(
        "gateway",
        enabled=True,
        passwords=["+s3cret!"],
        categories=["+@read", "+@write", "+@pubsub", "+@scripting", "+@connection"],
        commands=["+info", "+time"],
        keys=["jsonrpc-mcp-gateway:*"],
        channels=["jsonrpc-mcp-gateway:notices"],
    )
    server.control.config_set("requirepass", "another")
    with capture_logs() as lines:
        async with opened(server, username="gateway", password="s3cret!") as store:
            assert await store.add("k", 60)
            assert await store.permit("p", 1, 5).take() == 0
            assert await store.put("k", b"document", 60)
            await store.release("k", await store.acquire("k", 60))
            await store.publish("topic", b"notice")
            assert store.health() == ""
        async with opened(server, username="gateway", password="wr0ng-one") as store:
            assert "AuthenticationError" in store.health()
            assert not re.search("s3cret|wr0ng", repr((store, lines, store.health())))
        async with opened(server) as store:
            assert "AuthenticationError" in store.health()
