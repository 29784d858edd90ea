"""A worker that served for long, as its parent counts it. It takes ten seconds, so that `make fault` runs it."""

from __future__ import annotations

import time
from pathlib import Path

from structlog.testing import capture_logs

from tests.unit.test_workers import parent_of
from tests.waiting import until

LASTING = 10.0
"""Seconds of service after which the end of a worker is the first failure again."""


async def test_the_end_of_a_worker_that_served_for_long_is_its_first_failure_again(tmp_path: Path) -> None:
    async with parent_of(2, tmp_path) as parent:
        worker = parent.workers[1]
        with capture_logs() as logged:
            for served in (0.0, LASTING + 1, 0.0):
                ends = time.monotonic() + served
                await until(lambda ends=ends: time.monotonic() > ends)  # type: ignore[misc]
                dead = worker.pid
                worker.kill()
                await until(lambda dead=dead: worker.pid not in (0, dead) and worker.unready() is None)  # type: ignore[misc]
        waits = [entry["starts_in"] for entry in logged if entry["event"] == "a worker ended and is replaced"]
        assert waits == [0.0, 0.0, 0.01]
