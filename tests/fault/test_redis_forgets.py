"""Redis comes back and knows nothing, or a replica missed a notice: what was used stays used, all is heard."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from gateway.errors import StoreUnavailable
from gateway.store.redis_link import SILENT, Unavailable
from tests.fault.redis_stores import is_away, is_there, opened
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE, until


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


async def test_what_was_used_at_one_replica_stays_used_at_all_after_redis_lost_everything(server: RedisServer) -> None:
    async with opened(server) as one, opened(server) as other:
        assert await one.add("consent:1", 60)
        await one.mark("session-ended:1", 60)
        server.kill()
        await is_away(one)
        await is_away(other)
        server.start()
        await is_there(one)
        await is_there(other)
        await until(lambda: other.has("session-ended:1"))
        assert not await other.add("consent:1", 60)
        assert 0 < server.control.pttl(server.control.keys("*marker:consent:*")[0]) <= 70_000


async def test_until_all_replicas_have_told_what_was_used_nobody_is_told_that_something_was_not(
    server: RedisServer,
) -> None:
    async with opened(server, complete_after=3600) as store:
        assert await store.add("before", 60), "the first server that it finds may have been there for long"
        server.control.client_kill_filter(_type="pubsub")
        await is_away(store)
        await is_there(store)
        assert await store.add("between", 60), "it is the same server"
        server.kill()
        await is_away(store)
        server.start()
        await is_there(store)
        with pytest.raises(StoreUnavailable):
            await store.add("after", 60)
        assert not await store.add("before", 60)
        assert await store.permit("p", 1, 5).take() == 0


async def test_thousands_of_markers_come_back(server: RedisServer) -> None:
    async with opened(server) as store:
        await asyncio.gather(*(store.mark(f"session-ended:{number}", 60) for number in range(1234)))
        server.kill()
        await is_away(store)
        server.start()
        await until(lambda: len(server.control.keys("*marker:session-ended:*")) == 1234)


@pytest.mark.parametrize(
    ("maxmemory", "policy", "says_so"),
    [("64mb", "volatile-lru", True), ("64mb", "noeviction", False), ("0", "allkeys-lru", False)],
    ids=["evicts", "evicts none", "has no bound"],
)
async def test_a_redis_that_may_forget_what_was_used_is_named_once(
    server: RedisServer, maxmemory: str, policy: str, says_so: bool
) -> None:
    server.control.config_set("maxmemory", maxmemory)
    server.control.config_set("maxmemory-policy", policy)
    with capture_logs() as lines:
        async with opened(server) as store:
            server.control.client_kill_filter(_type="pubsub")
            await is_away(store)
            await is_there(store)
    assert [line["policy"] for line in lines if "evicts" in line["event"]] == ([policy] if says_so else [])


async def test_a_notice_that_a_replica_missed_is_heard_once_it_is_back(server: RedisServer) -> None:
    back = asyncio.Event()

    async def pause(_: float) -> None:
        await back.wait()

    async with opened(server) as one, opened(server, pause=pause) as other:
        await until(lambda: repr(one).count("2 replicas"))
        heard: list[bytes] = []
        other.subscribe("topic", heard.append)
        listening = [int(client["id"]) for client in server.control.client_list(_type="pubsub")]
        server.control.client_kill_filter(_id=str(max(listening)))  # the one that came later
        await is_away(other)
        assert await one.publish("topic", b"answer")
        assert not heard
        back.set()
        await until(lambda: heard)
        assert set(heard) == {b"answer"}


async def test_a_replica_that_ends_is_not_counted_any_more(server: RedisServer) -> None:
    async with opened(server) as one:
        async with opened(server):
            await until(lambda: repr(one).count("2 replicas"))
            assert server.control.zcard("jsonrpc-mcp-gateway:replicas") == 2
        assert server.control.zcard("jsonrpc-mcp-gateway:replicas") == 1


async def test_commands_that_wait_for_others_are_no_sign_that_redis_is_gone(server: RedisServer) -> None:
    """Connections to Redis are few. The signs of life do not wait for them, other commands not for ever."""
    async with opened(server) as store:
        link = store._link
        never = asyncio.Event()
        held = [asyncio.create_task(link.ask(never.wait, 2 * PATIENCE)) for _ in range(16)]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match=f"commands wait for {SILENT:g} s"):
            await link.ask(never.wait)
        for one in held:
            one.cancel()
