"""What a parent does about workers that hang, fail, or start slowly. The tests say how much time passes."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.process.worker import SILENT
from tests.parent import (
    CLOSED,
    LOOK,
    MANY,
    PATIENCE,
    REPLACED,
    Looks,
    events,
    parent_of,
    until_both_answer,
    who_answer,
    who_answers,
)
from tests.waiting import until


async def test_connections_of_a_worker_that_fails_are_accepted_by_another_until_it_serves_again(tmp_path: Path) -> None:
    looks = Looks()
    async with parent_of(2, tmp_path, looks) as parent:
        first, second = parent.workers
        await looks.passes(LOOK, first, second)
        (tmp_path / "fail2").touch()
        with capture_logs() as logged:
            second.kill()
            await until(lambda: events(logged).count(REPLACED) > 3)
            waiting = asyncio.create_task(who_answer(parent.port))
            await looks.passes(2 * LOOK, first)
            assert await waiting == {"1": MANY}
        assert [entry["exit_code"] for entry in logged if entry["event"] == REPLACED][:3] == [137, 7, 7]
        (lent,) = (entry for entry in logged if entry["event"] == "other workers accept its connections")
        assert (lent["worker"], lent["reason"] in ("is starting", "does not run")) == (2, True)
        assert CLOSED not in events(logged)
        assert parent.unready() is None, "one worker is enough"
        (tmp_path / "fail2").unlink()
        await until(lambda: second.unready() is None)
        await looks.passes(2 * LOOK, first, second)
        await until_both_answer(parent.port)


async def test_a_worker_that_is_silent_for_a_second_shares_its_connections_and_after_eight_is_killed_and_replaced(
    tmp_path: Path,
) -> None:
    """Also one that has hung before; one that reports in between is left alone."""
    looks = Looks()
    async with parent_of(2, tmp_path, looks) as parent:
        first, second = parent.workers
        for _ in range(2):
            with capture_logs() as logged:
                hung = second.pid
                os.kill(hung, signal.SIGSTOP)
                waiting = asyncio.create_task(who_answer(parent.port))
                await looks.passes(1.5, first)
                assert await waiting == {"1": MANY}
                os.kill(hung, signal.SIGCONT)
                await looks.passes(LOOK, first, second)
                os.kill(hung, signal.SIGSTOP)
                await looks.passes(SILENT - LOOK, first)
                assert second.pid == hung
                assert logged[-1]["event"] == "other workers accept its connections"
                await looks.passes(3 * LOOK, first)
                await until(lambda hung=hung: second.pid not in (0, hung) and second.unready() is None)  # type: ignore[misc]
            assert [(entry["event"], entry["worker"]) for entry in logged[-2:]] == [
                ("a worker hangs and is killed", 2),
                (REPLACED, 2),
            ]
            assert (logged[-2]["process"], logged[-1]["exit_code"]) == (hung, 137)
            await looks.passes(2 * LOOK, first, second)
            await until_both_answer(parent.port)


async def test_connections_of_a_worker_that_drains_on_its_own_are_accepted_by_another(tmp_path: Path) -> None:
    """Somebody sent it SIGTERM. It has all the time that its running calls have."""
    looks = Looks()
    async with parent_of(2, tmp_path, looks) as parent:
        first, second = parent.workers
        (tmp_path / "drain2").touch()
        await until(lambda: second.unready() == "stopping")
        waiting = asyncio.create_task(who_answer(parent.port))
        await looks.passes(2 * LOOK, first)
        assert await waiting == {"1": MANY}
        (tmp_path / "drain2").unlink()


async def test_a_worker_that_starts_slowly_is_not_killed_for_two_minutes(tmp_path: Path) -> None:
    looks = Looks()
    async with parent_of(2, tmp_path, looks) as parent:
        first, second = parent.workers
        (tmp_path / "wait").touch()
        dead = second.pid
        second.kill()
        await until(lambda: second.pid not in (0, dead))
        slow = second.pid
        await looks.passes(119.0, first)
        assert second.pid == slow
        await looks.passes(2.0, first)
        await until(lambda: second.pid not in (0, slow))
        (tmp_path / "wait").unlink()


async def test_a_worker_that_served_for_ten_seconds_is_replaced_at_once_and_one_that_did_not_after_a_pause(
    tmp_path: Path,
) -> None:
    looks = Looks()
    async with parent_of(1, tmp_path, looks) as parent:
        (worker,) = parent.workers
        pauses = []
        for served in (9.0, 9.0, 10.25, 9.0):
            with capture_logs() as logged:
                dead = worker.pid
                await looks.passes(served, worker)
                worker.kill()
                await until(lambda dead=dead: worker.pid not in (0, dead) and worker.unready() is None)  # type: ignore[misc]
            (ended,) = (entry for entry in logged if entry["event"] == REPLACED)
            pauses.append(ended["starts_in"])
        assert pauses == [0.0, 0.01, 0.0, 0.01]


async def test_where_all_workers_fail_three_times_nobody_waits_at_them_until_one_serves_again(tmp_path: Path) -> None:
    async with parent_of(2, tmp_path) as parent:
        for number in (1, 2):
            (tmp_path / f"fail{number}").touch()
        with capture_logs() as logged:
            parent.kill()
            await until(lambda: {entry["worker"] for entry in logged if entry["event"] == CLOSED} == {1, 2})
        with pytest.raises(ConnectionRefusedError):
            await who_answers(parent.port)
        (tmp_path / "fail1").unlink()
        await until(lambda: parent.unready() is None)
        assert await who_answer(parent.port) == {"1": MANY}
        (tmp_path / "fail2").unlink()
        await until(lambda: parent.workers[1].unready() is None)
        await until_both_answer(parent.port)


async def test_a_refresh_waits_no_longer_for_a_worker_that_hangs_than_until_it_is_killed(tmp_path: Path) -> None:
    looks = Looks()
    async with parent_of(2, tmp_path, looks) as parent:
        first, second = parent.workers
        os.kill(first.pid, signal.SIGSTOP)
        refresh = asyncio.create_task(parent.refresh_listings())
        await looks.passes(SILENT + 2 * LOOK, second)
        assert await asyncio.wait_for(refresh, PATIENCE) == "worker 1: ended meanwhile; worker 2: refused"
