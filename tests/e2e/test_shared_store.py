"""``check`` and ``serve`` with a store in Redis, as processes."""

from __future__ import annotations

import pytest

from tests.fault.scripted import ScriptedBackend
from tests.program import run, serving, settings
from tests.redis_server import RedisServer
from tests.services.process import free_port


async def test_check_says_where_the_store_is_and_whether_it_answers(backend: ScriptedBackend, secret: str) -> None:
    nobody = f"redis://127.0.0.1:{free_port()}"
    ran = await run("check", *settings(backend.url, f"store.url={nobody}", secret))
    assert ran.code == 3
    assert ran.err.startswith(f"store        {nobody} is unavailable: ")
    with RedisServer() as server:
        for _ in range(3):  # a busy machine may make Redis slow
            ran = await run("check", *settings(backend.url, f"store.url={server.url}", secret))
            if (said := ran.out.splitlines()[-1]) == f"store        {server.url} answers":
                return
    pytest.fail(said)


async def test_a_gateway_starts_without_redis_says_so_and_finds_it_later(backend: ScriptedBackend, secret: str) -> None:
    server = RedisServer()
    async with serving(backend.url, f"store.url={server.url}", secret) as (program, gateway):
        assert (
            "ConnectionError"
            in (await program.logged("the shared store is unavailable: this process decides alone"))["reason"]
        )
        assert (await gateway.call("rest", "add", {"a": 1, "b": 2})).status == 200
        with server:
            await program.logged("the shared store is available")
