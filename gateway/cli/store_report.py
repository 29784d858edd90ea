"""Say for ``check`` where the store is, and whether it answers."""

from __future__ import annotations

from gateway.cli.options import UNUSABLE, fail
from gateway.settings import StoreSettings
from gateway.store import StoreFault
from gateway.store.choice import PER_PROCESS, make_store


async def store_state(settings: StoreSettings) -> str:
    """Return one line. A store that does not answer is no failure: a gateway starts without it. One that cannot be used
    ends the program."""
    try:
        store = make_store(settings)
        await store.open()
    except StoreFault as fault:
        fail(UNUSABLE, f"store.url: {fault}")
    away = store.health()
    await store.close()
    if not store.is_shared:
        return f"in memory: {PER_PROCESS} are of each process"
    return f"{settings.url} {f'is away: {away}' if away else 'answers'}"
