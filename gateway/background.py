"""Work that goes on for as long as the gateway runs: it is started again where it ends, and what it fetches is kept
fresh."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Final

import structlog

_RETRY_DELAYS: Final = (1.0, 2.0, 5.0, 15.0, 30.0)
_LEAST_WAIT: Final = 0.05
_STEADY: Final = 60.0
"""Seconds of running after which an earlier end counts no more."""

log = structlog.get_logger()


def retry_delay(failures: int) -> float:
    """Return the seconds to wait before the next attempt, after so many failures in a row, one or more."""
    return _RETRY_DELAYS[min(failures, len(_RETRY_DELAYS)) - 1]


async def keep_fresh(
    refresh: Callable[[], Awaitable[None]],
    remaining: Callable[[], float],
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Refresh now, unless what was fetched is fresh, and for ever again shortly before it gets old, in ``remaining``
    seconds."""
    if remaining() <= 0:
        await refresh()
    while True:
        # Replicas that were started together spread out, so that they do not all ask at once.
        await pause(max(_LEAST_WAIT, remaining() * random.uniform(0.85, 0.98)))  # noqa: S311, not a secret
        await refresh()


@dataclass(slots=True)
class Job:
    """One piece of work. ``last_end`` says what it last ended with, ``ended_at`` when, in monotonic seconds."""

    name: str
    work: Callable[[], Awaitable[None]]
    running: bool = True
    end_count: int = 0
    last_end: str = ""
    ended_at: float = 0.0

    def describe(self, now: float) -> str:
        state = f"{self.name}: {'running' if self.running else 'not running'}"
        if self.end_count:
            times = "once" if self.end_count == 1 else f"{self.end_count} times"
            state += f", ended unexpectedly {times}, last {now - self.ended_at:.0f} s ago: {self.last_end}"
        return state


class Background:
    """The jobs of one gateway. ``pause`` waits before a start and ``clock`` is monotonic, both in seconds."""

    def __init__(
        self, pause: Callable[[float], Awaitable[None]] = asyncio.sleep, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pause = pause
        self._clock = clock
        self._jobs: dict[asyncio.Task[None], Job] = {}

    def start(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run ``work``, which should never end. Where it does, that is logged and it is started again, each time later,
        half a minute at most."""
        job = Job(name, work)
        self._jobs[asyncio.create_task(self._keep_running(job))] = job

    def describe(self) -> Iterator[str]:
        """A line for each job, for operators."""
        now = self._clock()
        return (job.describe(now) for job in self._jobs.values())

    async def stop(self) -> None:
        """End all jobs."""
        jobs, self._jobs = list(self._jobs), {}
        for task in jobs:
            task.cancel()
        if jobs:
            await asyncio.wait(jobs)

    async def _keep_running(self, job: Job) -> None:
        in_a_row = 0
        while True:
            started, job.running = self._clock(), True
            failure = await _run_to_end(job.work)
            job.ended_at, job.running = self._clock(), False
            job.last_end = "it returned" if failure is None else type(failure).__name__
            job.end_count += 1
            in_a_row = 1 if job.ended_at - started >= _STEADY else in_a_row + 1
            wait = retry_delay(in_a_row)
            log.error("background work ended unexpectedly", work=job.name, starts_in=wait, exc_info=failure)
            await self._pause(wait)


async def _run_to_end(work: Callable[[], Awaitable[None]]) -> BaseException | None:
    """Return what work ended with, None where it returned. Raises :class:`asyncio.CancelledError` where this task is
    told to end, which is not what a cancellation within the work means."""
    try:
        await work()
    except asyncio.CancelledError as failure:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return failure
    except Exception as failure:  # noqa: BLE001, whatever it is, the work has to go on
        return failure
    return None
