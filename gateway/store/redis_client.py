"""Make the client of Redis: one server, or the master that Sentinels name."""

from typing import Any, Final, NamedTuple

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import ResponseError
from redis.maint_notifications import MaintNotificationsConfig

from gateway.settings.store import StoreSettings
from gateway.store import StoreFault

CONNECT: Final = 2.0
"""Seconds for a new connection, with TLS, Sentinel and the first answer."""
_NAME: Final = "jsonrpc-mcp-gateway"


def make_client(settings: StoreSettings) -> Redis:
    """Return a client that is not connected. It never repeats a command: one whose answer was lost may have worked."""
    address = settings.address
    timing: dict[str, Any] = {
        "socket_timeout": CONNECT,
        "socket_connect_timeout": CONNECT,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "driver_info": None,
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    }
    if address.tls:
        timing |= {"ssl": True, "ssl_ca_certs": settings.ca_file}
    account = {"username": address.user, "password": _revealed(settings.password)}
    options = {**timing, **account, "db": address.database, "client_name": _NAME}
    if not address.service:
        ((host, port),) = address.hosts
        return Redis(host=host, port=port, **options)
    sentinel_options = {**timing, "password": _revealed(settings.sentinel_password)}
    sentinel = Sentinel(list(address.hosts), sentinel_kwargs=sentinel_options, **options)  # type: ignore[no-untyped-call]
    master: Redis = sentinel.master_for(address.service)
    return master


async def close_client(redis: Redis) -> None:
    """Close the connections to Redis, and those to Sentinels, which the client does not close itself."""
    await redis.aclose()
    pool = redis.connection_pool
    if isinstance(pool, SentinelConnectionPool):
        for sentinel in pool.sentinel_manager.sentinels:
            await sentinel.aclose()


class RedisProcess(NamedTuple):
    """Hold what Redis says of itself: the id of its process, which a restart and a failover change, and how it evicts
    keys where memory is short. Both are "" where it does not say; the latter also where it evicts none."""

    id: str = ""
    evicts: str = ""


async def identify(redis: Redis) -> RedisProcess:
    """Return which server this is. Raise :class:`StoreFault` where it is a node of a Redis Cluster."""
    try:
        info = await redis.info()
    except ResponseError:
        return RedisProcess()  # this user may not ask
    if info.get("cluster_enabled"):
        raise StoreFault("this is a Redis Cluster, which is not supported: name one server, or Sentinels")
    policy = str(info.get("maxmemory_policy", "")) if info.get("maxmemory") else ""
    return RedisProcess(str(info.get("run_id", "")), "" if policy == "noeviction" else policy)


def _revealed(secret: Any) -> str | None:
    return None if secret is None else secret.get_secret_value()
