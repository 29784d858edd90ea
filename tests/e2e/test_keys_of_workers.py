"""Two workers read one key file: a revoked key is over at both, also where the configuration is faulty."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp

from gateway.auth.api_keys import digest_of, new_key
from gateway.config.key_file import add_key, revoke_keys
from gateway.settings.auth import ApiKey
from tests.configuring import put
from tests.e2e.test_workers import both, two_workers
from tests.fault.scripted import ScriptedBackend
from tests.front import LEGACY
from tests.waiting import until

_STREAMS = 12


async def test_the_streams_of_a_revoked_key_end_at_every_worker(backend: ScriptedBackend, tmp_path: Path) -> None:
    """Long before a keep-alive, by which else a stream would look at its key."""
    key, file = new_key(), tmp_path / "keys.yaml"
    add_key(file, ApiKey(name="ann", sha256=digest_of(key)))
    knobs = ("auth.mode=keys", f"auth.keys.file={file}", "mcp.heartbeat=5m", "limits.streams=100")
    headers = {"Authorization": f"Bearer {key}", "Accept": "text/event-stream", "MCP-Protocol-Version": LEGACY}
    put(config := tmp_path / "gateway.yaml", "")
    async with (
        two_workers(backend, tmp_path, *knobs, config=config) as (program, front, admin),
        AsyncExitStack() as stack,
    ):
        await both(admin)
        streams = []
        for _ in range(_STREAMS):  # each on a connection of its own: the system gives some to each worker
            session = await stack.enter_async_context(aiohttp.ClientSession())
            streams.append(await stack.enter_async_context(session.get(front.mcp, headers=headers)))
            assert streams[-1].status == 200
        await until(lambda: streams_of(admin), lambda counts: sum(counts) == _STREAMS and all(counts))
        put(config, "nonsense: 1\n")
        await program.logged("configuration refused, the old one stays", 2)
        revoke_keys(file, "ann")
        for stream in streams:
            await stream.content.read()
        for _ in range(_STREAMS):
            async with aiohttp.ClientSession() as session, session.get(front.mcp, headers=headers) as answer:
                assert answer.status == 401


async def streams_of(admin: str) -> list[int]:
    """How many streams each worker has."""
    async with aiohttp.ClientSession() as session, session.get(f"{admin}/status") as response:
        return [process["under_way"]["streams"] for process in (await response.json())["processes"]]
