"""Redis in the kinds that a store's address may lead to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import redis

from tests.redis_server import RedisServer
from tests.services.process import free_port
from tests.waiting import wait_until


@contextmanager
def redis_kinds(folder: Path) -> Iterator[Mapping[str, str]]:
    """Start each kind, and yield the addresses by name."""
    with ExitStack() as stack:
        free, replica = stack.enter_context(RedisServer()), stack.enter_context(RedisServer())
        own_port = ("--cluster-port", str(free_port()))
        cluster = stack.enter_context(RedisServer("--cluster-enabled", "yes", *own_port, folder=folder))
        configuration = folder / "sentinel.conf"
        configuration.write_text(f"sentinel monitor mymaster 127.0.0.1 {free.port} 1\n")
        sentinel = stack.enter_context(RedisServer(sentinel=configuration, folder=folder, port=free_port()))
        _prepare(free.port, replica.port)
        kinds = {"free": free, "replica": replica, "cluster": cluster, "sentinel": sentinel}
        yield {f"<{name}>": f"127.0.0.1:{server.port}" for name, server in kinds.items()}


def _prepare(free_port: int, replica_port: int) -> None:
    """Give Redis users that lack a right, and a replica its master."""
    with redis.Redis(port=free_port) as free, redis.Redis(port=replica_port) as replica:
        for user, keys, commands in (("noeval", "*", ["+@all", "-eval", "-evalsha"]), ("nokeys", "shop:*", ["+@all"])):
            free.acl_setuser(user, enabled=True, passwords=["+s3cret"], keys=[keys], channels=["*"], commands=commands)
        replica.replicaof("127.0.0.1", free_port)
        wait_until(lambda: replica.info("replication")["master_link_status"] == "up")
