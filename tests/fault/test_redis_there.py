"""Redis answers: what several replicas share, and with how few rights.

What both kinds of store do is in tests/contract/test_stores.py and test_permits.py.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from gateway.store.redis import RedisStore
from tests.contract.stores import taken
from tests.contract.traffic import replicas_of
from tests.fault.redis_stores import opened
from tests.redis_server import TEST_TIME, RedisServer, ServerClock
from tests.waiting import PATIENCE


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


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


async def test_a_lease_is_used_for_five_seconds_and_then_given_back(server: RedisServer) -> None:
    clock = ServerClock(server)
    async with replicas_of(server, clock, 2) as (store, other):
        permit, others = (one.permit("k", 1 / 3600, 100) for one in (store, other))
        assert await permit.take() == 0
        assert [await permit.take() for _ in range(4)] == [0] * 4, "of a lease of ten"
        assert await taken(others) == 90
        clock.now += 4.9
        assert await permit.take() == 0
        clock.now += 0.1
        assert await permit.take() == 0
        assert await taken(others) == 3, "what was not used of the lease"
        assert await permit.take() == 3595


async def test_a_store_that_closes_gives_back_what_it_leased(server: RedisServer) -> None:
    """So a restart of all replicas, one after the other, costs no caller its permits."""
    clock = ServerClock(server)
    keys = [f"key {number}" for number in range(1100)]
    async with replicas_of(server, clock, 1) as (other,):
        async with replicas_of(server, clock, 2) as stores:
            for store in stores:
                for key in keys:
                    assert await store.permit(key, 1 / 3600, 100).take() == 0
        assert [await taken(other.permit(key, 1 / 3600, 100)) for key in (keys[0], keys[-1])] == [98, 98]


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


@pytest.mark.parametrize("value", [b"", b"garbage", b"two words", b"nil ", {b"a": b"hash"}])
async def test_what_another_version_keeps_in_a_form_of_its_own_is_a_miss_and_no_fault(
    server: RedisServer, value: bytes | dict[bytes, bytes]
) -> None:
    async with opened(server) as store, opened(server) as other:

        async def use_all() -> list[object]:
            return [
                await store.get("listing:k"),
                await store.put("listing:k", b"document", 60),
                await store.permit("k", 1, 20).take(),
                await other.has("dpop:k"),
                bool(await store.acquire("lock:k", 60)),
            ]

        await use_all()
        await store.mark("dpop:k", 60)
        for key in list(server.control.scan_iter("jsonrpc-mcp-gateway:*:*")):
            server.control.delete(key)
            server.control.set(key, value) if isinstance(value, bytes) else server.control.hset(key, mapping=value)
        assert await use_all() == [None, True, 0.0, False, True]
        assert await store.get("listing:k") == b"document"
        assert await other.add("dpop:k", 60)
        assert (store.problem.cause, other.problem.cause) == ("", "")


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
        assert store.problem.cause == ""


async def test_a_user_with_few_rights_is_enough_and_its_password_is_never_shown(server: RedisServer) -> None:
    """The rights are those that docs/scaling.md names."""
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
    as_user = server.url.replace("://", "://gateway@")
    with capture_logs() as lines:
        async with opened(as_user, password="s3cret!") as store:
            assert await store.add("k", 60)
            assert await store.permit("p", 1, 5).take() == 0
            assert await store.put("k", b"document", 60)
            await store.release("k", await store.acquire("k", 60))
            await store.publish("topic", b"notice")
            assert store.problem.cause == ""
        async with opened(as_user, password="wr0ng-one") as store:
            assert "AuthenticationError" in store.problem.cause
            assert not re.search("s3cret|wr0ng", repr((store, lines, store.problem.cause)))
        async with opened(server) as store:
            assert "AuthenticationError" in store.problem.cause
