"""Run background work for as long as the gateway lasts, keep what it fetches fresh, and hold what is wrong with it."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from gateway.text import excerpt

_RETRY_DELAYS: Final = (1.0, 2.0, 5.0, 15.0, 30.0)
_MIN_PAUSE: Final = 0.05  # for a source that says "fresh for 0 s"
_STABLE_AFTER: Final = 60.0  # seconds of running after which earlier failures no longer lengthen the delay

EARLIEST: Final = 0.85
"""Part of the remaining time after which a value is refreshed at the earliest."""

log = structlog.get_logger()


@dataclass(slots=True)
class Problem:
    """Hold what is wrong, "" for nothing, since when, and when it is tried again (RFC 3339), or None."""

    cause: str = ""
    since: str = ""
    next_try: str | None = None
    error: Exception | None = field(default=None, repr=False)

    def set(self, cause: str, wait: float | None = None, error: Exception | None = None) -> None:
        """Note what is wrong. It is tried again after ``wait`` seconds."""
        self.error = error
        self.since = self.since if self.cause else time_after()
        # A stranger may have written the cause: it stays one line, so that it cannot look like one of ours.
        self.cause, self.next_try = excerpt(" ".join(cause.split()), 500), None if wait is None else time_after(wait)


def describe_problems(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    """Return what ``/status`` says of each problem that there is."""
    return [{"cause": one.cause, "since": one.since, "next_try": one.next_try} for one in problems if one.cause]


def time_after(seconds: float = 0.0) -> str:
    """Return the time so many seconds from now."""
    return datetime.fromtimestamp(time.time() + max(0.0, seconds), UTC).isoformat(timespec="seconds")


def retry_delay(failures: int) -> float:
    """Return the seconds to wait before the next attempt. ``failures`` counts those in a row, and is at least 1."""
    return _RETRY_DELAYS[min(failures, len(_RETRY_DELAYS)) - 1]


async def keep_fresh(
    refresh: Callable[[], Awaitable[None]],
    remaining: Callable[[], float],
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Refresh a value now, unless it is fresh, and shortly before its ``remaining`` seconds end each time."""
    if remaining() <= 0:
        await refresh()
    while True:
        # Replicas that were started together spread out, so that they do not all ask at once.
        await pause(max(_MIN_PAUSE, remaining() * random.uniform(EARLIEST, 0.98)))  # noqa: S311, not a secret
        await refresh()


@dataclass(slots=True)
class Job:
    """Hold the state of one job: ``last_end`` says why it last ended, ``ended_at`` when, in monotonic seconds."""

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
    """Run jobs until :meth:`stop`. ``pause`` waits before a restart and ``clock`` is monotonic, both in seconds."""

    def __init__(
        self, pause: Callable[[float], Awaitable[None]] = asyncio.sleep, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pause = pause
        self._clock = clock
        self._jobs: dict[asyncio.Task[None], Job] = {}

    def __repr__(self) -> str:
        return f"<Background {'; '.join(self.describe()) or 'no jobs'}>"

    def start(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run ``work``, which should never end. If it does, log that and start it again after :func:`retry_delay`."""
        job = Job(name, work)
        self._jobs[asyncio.create_task(self._keep_running(job))] = job

    def describe(self) -> Iterator[str]:
        """Yield a line for each job, for operators."""
        now = self._clock()
        return (job.describe(now) for job in self._jobs.values())

    async def stop(self) -> None:
        jobs, self._jobs = list(self._jobs), {}
        for task in jobs:
            task.cancel()
        if jobs:
            await asyncio.wait(jobs)

    async def _keep_running(self, job: Job) -> None:
        failures = 0
        while True:
            started, job.running = self._clock(), True
            failure = await _run_to_end(job.work)
            job.ended_at, job.running = self._clock(), False
            job.last_end = "it returned" if failure is None else type(failure).__name__
            job.end_count += 1
            failures = 1 if job.ended_at - started >= _STABLE_AFTER else failures + 1
            wait = retry_delay(failures)
            log.error("background work ended unexpectedly", work=job.name, starts_in=wait, exc_info=failure)
            await self._pause(wait)


async def _run_to_end(work: Callable[[], Awaitable[None]]) -> BaseException | None:
    """Return the exception that ended the work, None if it returned. Raises :class:`asyncio.CancelledError` if this
    task itself was cancelled; a cancellation within the work is an end like any other."""
    try:
        await work()
    except asyncio.CancelledError as failure:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return failure
    except Exception as failure:  # noqa: BLE001, the job is started again after any failure
        return failure
    return None


class UseCounter:
    """Count the running requests of one service, which is closed after the last one. Hot paths may change
    :attr:`running` directly. They must then call :meth:`note_end` if :attr:`is_awaited` is set."""

    def __init__(self) -> None:
        self.running = 0
        self.is_awaited = False
        self._idle = asyncio.Event()
        self._given_up = False

    def __repr__(self) -> str:
        return f"<Uses {self.running}>"

    def __enter__(self) -> None:
        self.running += 1

    def __exit__(self, *_: object) -> None:
        self.running -= 1
        if self.is_awaited:
            self.note_end()

    def note_end(self) -> None:
        if not self.running:
            self._idle.set()

    async def wait_until_idle(self) -> None:
        if self.running and not self._given_up:
            self.is_awaited = True
            self._idle.clear()
            await self._idle.wait()

    def give_up(self) -> None:
        """End all waits although requests are running: the shutdown's time is over."""
        self._given_up = True
        self._idle.set()
