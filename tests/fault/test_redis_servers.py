"""The ways to Redis: TLS, Sentinel that fails over; and a Redis Cluster, which is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.settings.store import StoreSettings
from gateway.store import StoreFault
from gateway.store.redis import RedisStore
from gateway.store.redis_client import make_client
from tests.fault.redis_stores import is_away, is_there, opened
from tests.redis_server import RedisServer
from tests.services.process import free_port
from tests.tls import Authority
from tests.waiting import wait_until


async def test_redis_speaks_tls_and_only_its_authority_is_trusted(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pem, port = str(authority.server_pem("127.0.0.1")), free_port()
    options = ("--tls-port", str(port), "--tls-cert-file", pem, "--tls-key-file", pem, "--tls-auth-clients", "no")
    with RedisServer(*options, "--tls-ca-cert-file", str(authority.file)):
        async with opened(f"rediss://127.0.0.1:{port}/1", ca_file=str(authority.file)) as store:
            assert store.problem.cause == ""
            assert await store.add("k", 60)
        async with opened(f"rediss://127.0.0.1:{port}/1") as store:
            assert "certificate verify failed" in store.problem.cause
        async with opened(f"redis://127.0.0.1:{port}/1") as store:
            assert store.problem.cause


async def test_a_redis_cluster_is_refused_with_a_word(tmp_path: Path) -> None:
    with RedisServer("--cluster-enabled", "yes", "--cluster-port", str(free_port()), folder=tmp_path) as server:
        store = RedisStore(make_client(StoreSettings(url=server.url)))
        with pytest.raises(StoreFault, match="Redis Cluster, which is not supported"):
            await store.open()


@pytest.fixture
def master_and_replica(tmp_path: Path) -> Iterator[tuple[RedisServer, RedisServer, RedisServer]]:
    """A master, its replica, and the Sentinel that watches both."""
    with ExitStack() as stack:
        master = stack.enter_context(RedisServer("--repl-diskless-sync-delay", "0", password="pw", folder=tmp_path))
        options = ("--replicaof", f"127.0.0.1 {master.port}")
        replica = stack.enter_context(RedisServer(*options, password="pw", folder=tmp_path))
        # Before Sentinel looks, which it does every 10 seconds only.
        wait_until(lambda: replica.control.info("replication")["master_link_status"] == "up")
        config = tmp_path / "sentinel.conf"
        config.write_text(
            f"sentinel monitor gateway 127.0.0.1 {master.port} 1\n"
            "sentinel auth-pass gateway pw\n"
            "sentinel down-after-milliseconds gateway 300\n"
            "sentinel failover-timeout gateway 2000\n"
        )
        sentinel = stack.enter_context(RedisServer(sentinel=config, folder=tmp_path))
        yield master, replica, sentinel


async def test_after_sentinel_fails_over_the_new_master_is_used(
    master_and_replica: tuple[RedisServer, RedisServer, RedisServer],
) -> None:
    master, replica, sentinel = master_and_replica
    url = f"redis+sentinel://127.0.0.1:{free_port()},127.0.0.1:{sentinel.port}/gateway/2"
    async with opened(url, password="pw") as store:
        assert store.problem.cause == ""
        assert await store.add("before", 60)
        master.kill()
        await is_away(store)
        await is_there(store)
        assert await store.add("after", 60)
        assert not await store.add("after", 60)
    assert replica.control.info("replication")["role"] == "master"
