"""Many slow clients at once (security.md H10, H11): the others are served, and the service hears of none of them.

That they are let go after their time is a row of ``make fault``; tests/protocol/test_slow_clients.py has it by a clock.
"""

from __future__ import annotations

import asyncio

from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES
from tests.program import serving
from tests.slowhttptest import KINDS, attack

SECONDS = 4
CONNECTIONS = 60


async def test_clients_that_are_slow_with_heads_bodies_and_reading_hold_up_nobody() -> None:
    async with ScriptedBackend() as backend, serving(backend.url, "limits.invocation=100000/minute") as (_, gateway):
        backend.requests.clear()
        attacks = asyncio.gather(
            *(attack(kind, gateway.base, connections=CONNECTIONS, seconds=SECONDS) for kind in KINDS)
        )
        made = 0
        while not attacks.done():
            for surface in SURFACES:
                assert (await gateway.call(surface, "echo", {"value": made})).value == made
            made += 1
        reports = dict(zip(KINDS, await attacks, strict=True))
        for kind, report in reports.items():
            assert report.was_available, (kind, report.output)
            assert report.connected + report.closed == CONNECTIONS, (kind, report.output)
        assert made > 0
        assert {asked.method for asked in backend.requests} <= {"echo", "rpc.discover"}
        assert backend.calls("echo") == made * len(SURFACES)
