"""Make the store that the settings name."""

from importlib.util import find_spec
from typing import Final

from gateway.settings.store import StoreSettings
from gateway.store import ServerStore, StoreFault
from gateway.store.memory import MemoryStore

PER_PROCESS: Final = "permits, used proofs and consents, ended sessions, cancellations, answers of users, listings"
"""List of what each process keeps for itself with the store in memory."""


def make_store(settings: StoreSettings) -> ServerStore:
    """Return the store, not opened. Raises :class:`StoreFault` where it needs an extra that is not installed."""
    if not settings.is_shared:
        return MemoryStore()
    if find_spec("redis") is None:
        raise StoreFault("Redis needs the extra redis: pip install 'jsonrpc-mcp-gateway[redis]'")
    # At the top, these would fail where the extra is not installed.
    from gateway.store.redis import RedisStore  # noqa: PLC0415
    from gateway.store.redis_client import make_client  # noqa: PLC0415

    return RedisStore(make_client(settings), settings.when_away)
