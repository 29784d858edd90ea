"""A row of ``make fault``: the counters of two workers, the lines of their log and the service's ledger agree, call by
call, over a reload, a worker that is killed, and the stop.

A worker sends its counters to the parent every 0.5 s. So those of a worker that is killed with -9 may miss the calls of
its last second, and its log what it had not written. Nothing else may be missing.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp

from lab.fault.table import Figure, Line, Row
from tests.authorization.stand import Bearer
from tests.e2e.test_reload import RELOADED
from tests.e2e.test_workers import ENDED, both, two_workers
from tests.fault.ledger import Ledger, service
from tests.fault.load import Callers
from tests.program import Program
from tests.scrape import Scrape, scrape
from tests.waiting import until

_RATE: Final = 60.0
_SECONDS: Final = 3.0
"""Calls a second, over all surfaces in turn, and how long each stretch of them is."""
_REPORTED: Final = 2.0
"""Seconds after which each worker has reported again, several times."""
_LAST: Final = timedelta(seconds=1)
"""What a worker that is killed has not reported, at most."""
_UNDER_WAY: Final = 20


@dataclass(frozen=True)
class _Sums:
    """What each of the three has: requests by outcome, calls of the tool by ok | failed, and calls that ran."""

    requests: Counter[str]
    calls: Counter[str]
    ran: int

    def beside(self, lines: _Sums) -> int:
        """Return how many requests and calls one of them has and the other has not."""
        return _apart(self.requests, lines.requests) + _apart(self.calls, lines.calls)


def _apart(one: Counter[str], other: Counter[str]) -> int:
    return ((one - other) + (other - one)).total()


def _counted(found: Scrape, ledger: Ledger) -> _Sums:
    sums: dict[str, Counter[str]] = {"mcp_gateway_requests_total": Counter(), "mcp_gateway_tool_calls_total": Counter()}
    for family in found.families:
        for sample in family.samples:
            if sample.name in sums:
                sums[sample.name][sample.labels["outcome"]] += int(sample.value)
    requests, calls = sums.values()
    return _Sums(requests, calls, ledger.runs.total())


def _requests(program: Program) -> list[dict[str, Any]]:
    return [json.loads(line) for line in program.lines if '"event":"request"' in line]


def _logged(entries: Sequence[dict[str, Any]]) -> _Sums:
    outcomes = [entry["outcome"] for entry in entries if entry["method"] == "tools/call"]
    calls = Counter("ok" if outcome == "ok" else "failed" for outcome in outcomes)
    return _Sums(Counter(entry["outcome"] for entry in entries), calls, len(outcomes))


@dataclass(frozen=True)
class _Gateway:
    """Two workers under load, with what counts their calls."""

    program: Program
    admin: str
    session: aiohttp.ClientSession
    ledger: Ledger
    callers: Callers

    async def apart(self) -> int:
        """Return how many calls the counters, the lines and the ledger do not have in common, in quiet: looked at until
        there is none, or until every worker has reported."""
        port = urlsplit(self.admin).port
        assert port is not None

        async def differing() -> int:
            lines = _logged(_requests(self.program))
            counters = _counted(await scrape(self.session, port), self.ledger)
            return counters.beside(lines) + abs(counters.ran - lines.ran)

        with suppress(TimeoutError):
            await until(differing, lambda found: found == 0, within=_REPORTED)
        return await differing()

    async def reload(self) -> None:
        """Have both workers take the configuration anew, while calls go on."""
        calling = asyncio.create_task(self.callers.calls(_SECONDS))
        self.program.signal(signal.SIGHUP)
        for number in (1, 2):
            await self.program.logged(RELOADED, number)
        await calling

    async def kill(self) -> int:
        """Kill a worker while calls go on. Return how many requests it had a line for in its last second, and how many
        callers it left without an answer, together."""
        calling = asyncio.create_task(self.callers.calls(_SECONDS))
        await asyncio.sleep(_SECONDS / 2)
        killed = (await both(self.admin))[0]
        os.kill(killed, signal.SIGKILL)
        worker = (await self.program.logged(ENDED))["worker"]
        ended = datetime.fromisoformat((await self.program.logged(ENDED))["time"])
        await calling
        await both(self.admin)
        last = [
            entry
            for entry in _requests(self.program)
            if entry["worker"] == worker and ended - _LAST <= datetime.fromisoformat(entry["time"]) <= ended
        ]
        return len(last) + len(self.ledger.lost)

    async def stop(self) -> None:
        """Stop while calls are under way, which are finished."""
        before = self.ledger.runs.total()
        late = Callers(self.ledger, self.callers.clients, _RATE, wait=1.0)
        calls = [asyncio.create_task(late.call(late.clients[0], "rest")) for _ in range(_UNDER_WAY)]
        await until(lambda: self.ledger.runs.total() == before + _UNDER_WAY)
        self.program.signal(signal.SIGTERM)
        await asyncio.gather(*calls)
        await self.program.ended()


async def sums() -> Line:
    ledger = Ledger()
    connector = aiohttp.TCPConnector(limit=0, force_close=True)  # so that both workers get calls
    knobs = ("limits.invocation=100000/second", "limits.concurrent=1000")
    with tempfile.TemporaryDirectory() as folder:
        async with (
            service(ledger) as backend,
            two_workers(backend, Path(folder), *knobs) as (program, front, admin),
            aiohttp.ClientSession(connector=connector) as session,
        ):
            callers = Callers(ledger, [Bearer(session, front.port, None)], _RATE)
            it = _Gateway(program, admin, session, ledger, callers)
            await both(admin)
            await callers.calls(_SECONDS)
            quiet = await it.apart()
            await it.reload()
            reloaded = await it.apart()
            unreported = await it.kill()
            killed = await it.apart()
            await callers.calls(_SECONDS)
            replaced = await it.apart()
            missing_lines = ledger.runs.total() - _logged(_requests(program)).ran
            await it.stop()
            stopped = ledger.runs.total() - _logged(_requests(program)).ran
            workers = {entry["worker"] for entry in _requests(program)}
    figures = (
        Figure("workers without a call", 2 - len(workers), 0),
        Figure("calls apart", quiet, 0),
        Figure("after a reload", reloaded, 0),
        # A call is in both counters, and the service has it, too.
        Figure(f"after a kill, of {unreported} in the worker's last second", killed, 3 * unreported),
        Figure("more of them after the worker was replaced", abs(replaced - killed), 0),
        Figure("more calls without a line after the stop", abs(stopped - missing_lines), 0),
    )
    note = f"{len(ledger.told)} calls, of which {ledger.count('right')} were answered rightly"
    return Line(wrong=len(ledger.wrong), twice=len(ledger.twice), figures=figures, notes=(note, *ledger.complaints[:3]))


ROWS: Final[dict[str, Row]] = {"counters, log and ledger of two workers": sums}
