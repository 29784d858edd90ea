"""Rows of ``make fault``: one of two workers hangs, or is killed, while every call comes on a connection of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import aiohttp

from lab.fault.rounds import certain
from lab.fault.table import Figure, Line, Row
from tests.authorization.stand import Bearer
from tests.e2e.test_workers import both, processes, two_workers
from tests.fault.ledger import Ledger, service
from tests.fault.load import Callers
from tests.waiting import until

_SECONDS: Final = 14.0
_RATE: Final = 20.0
_REPLACED: Final = 15.0
_ACCEPTED: Final = 2.0
"""Seconds until a worker that hangs is replaced, and until another one accepts the connections that wait at it."""


async def absent_worker(trouble: signal.Signals) -> Line:
    ledger = Ledger()
    clock = asyncio.get_running_loop().time
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    with tempfile.TemporaryDirectory() as folder:
        async with (
            service(ledger) as backend,
            two_workers(backend, Path(folder), "limits.invocation=100000/second") as (_, front, admin),
            aiohttp.ClientSession(connector=connector) as session,
        ):
            healthy = Callers(ledger, [Bearer(session, front.port, None)], _RATE)
            await healthy.calls(1)
            absent = (await both(admin))[0]
            begun = clock()
            os.kill(absent, trouble)
            calling = asyncio.create_task(healthy.calls(_SECONDS))

            async def replaced() -> bool:
                return absent not in (serving := await processes(admin)) and len(serving) == 2

            with suppress(TimeoutError):
                await until(replaced, within=_REPLACED + 5)
            seconds = clock() - begun
            with suppress(ProcessLookupError):  # it is gone, unless the row misses
                os.kill(absent, signal.SIGKILL)
            beside = await calling
    late = sum(sample.waited > _ACCEPTED for sample in beside.of)
    figures = (
        Figure("seconds until it was replaced", seconds, _REPLACED),
        Figure(f"of {len(beside.of)} calls on new connections, those that waited {_ACCEPTED:g} s", late, 0),
    )
    notes = tuple(ledger.complaints[:3])
    return Line(held=beside.held, worst=beside.worst, **certain(ledger), figures=figures, notes=notes)


ROWS: Final[dict[str, Row]] = {
    "one of two workers hangs": partial(absent_worker, signal.SIGSTOP),
    "one of two workers is killed": partial(absent_worker, signal.SIGKILL),
}
