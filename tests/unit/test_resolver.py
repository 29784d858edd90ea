"""Names whose look-up hangs hold up nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from gateway.http_client.resolver import MAX_AT_ONCE
from gateway.http_client.response import NoConnection
from gateway.http_client.session import Outbound
from tests.fault.scripted import ScriptedBackend
from tests.resolving import Names
from tests.waiting import PATIENCE

HANGING = [f"hangs-{number}.example.com" for number in range(3 * MAX_AT_ONCE)]


@pytest.fixture
async def names(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Names]:
    names = Names(monkeypatch)
    names.hanging.update(HANGING)
    for name in HANGING:
        names[name] = [["127.0.0.1"]]
    yield names
    names.release.set()


async def status(outbound: Outbound, host: str, port: int, timeout: float = PATIENCE) -> int:
    return (await outbound.request("GET", f"http://{host}:{port}/", b"", {}, timeout=timeout, max_bytes=1000)).status


async def test_look_ups_that_hang_take_no_thread_from_others_and_are_bounded(names: Names) -> None:
    async with ScriptedBackend() as backend:
        stuck, other = Outbound(), Outbound()
        requests = [asyncio.create_task(status(stuck, name, backend.port)) for name in HANGING]
        try:
            await names.wait(MAX_AT_ONCE)
            assert sum(thread.name == "name look-up" for thread in threading.enumerate()) == MAX_AT_ONCE
            async with asyncio.timeout(PATIENCE):
                assert await asyncio.to_thread(lambda: "served") == "served"
                assert await status(other, "localhost", backend.port) == 404
            names.release.set()
            assert await asyncio.gather(*requests) == [404] * len(HANGING)
        finally:
            for request in requests:
                request.cancel()
            await asyncio.gather(*requests, return_exceptions=True)
            await stuck.close()
            await other.close()


async def test_a_look_up_that_hangs_costs_its_request_the_deadline_and_nothing_was_sent(names: Names) -> None:
    async with ScriptedBackend() as backend:
        outbound = Outbound()
        with pytest.raises(NoConnection) as caught:
            await status(outbound, HANGING[0], backend.port, timeout=0.05)
        assert not caught.value.sent
        names.release.set()
        assert await status(outbound, HANGING[0], backend.port) == 404
        await outbound.close()
