"""What a parent does with its workers. They are real processes that speak as workers do, and start in no time."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.http_server.accepting import bind
from gateway.process.link import VARIABLE, NotAWorker, inherit
from gateway.process.parent import Parent
from gateway.process.worker import Worker
from gateway.telemetry.merging import Totals
from tests.each import each
from tests.parent import (
    GROUND,
    MANY,
    PATIENCE,
    REPLACED,
    SCRIPT,
    Looks,
    events,
    made,
    parent_of,
    settings,
    until_both_answer,
    who_answer,
    who_answers,
)
from tests.waiting import until

# A parent as a process of its own: it says its port, and logs, on standard output.
SERVE = """
import asyncio, sys
from gateway.config.source import load_settings
from gateway.process.parent import serve
script, folder, *knobs = sys.argv[1:]
command = (sys.executable, "-S", "-c", script, folder)
sys.exit(asyncio.run(serve(load_settings(None, knobs, {}), command, lambda port: print(port, flush=True))))
"""


async def test_each_worker_has_its_part_of_the_connections(tmp_path: Path) -> None:
    async with parent_of(3, tmp_path) as parent:
        assert set(await who_answer(parent.port)) == {"1", "2", "3"}
        said = [worker.status() for worker in parent.workers]
        assert [(one["worker"], one["unready"], one["jobs"]) for one in said] == [
            (number, None, ["listing: running"]) for number in (1, 2, 3)
        ]
        assert [one["process"] for one in said] == [worker.pid for worker in parent.workers]


async def test_connections_that_wait_at_a_dead_worker_are_answered_by_its_successor(tmp_path: Path) -> None:
    async with parent_of(2, tmp_path, Looks()) as parent:
        (tmp_path / "wait").touch()
        dead = [worker.pid for worker in parent.workers]
        parent.kill()
        await until(lambda: all(worker.pid not in (0, *dead) for worker in parent.workers))
        assert parent.unready() == "worker 1: is starting; worker 2: is starting"
        waiting = [asyncio.create_task(who_answers(parent.port)) for _ in range(MANY)]
        (tmp_path / "wait").unlink()
        assert set(await asyncio.gather(*waiting)) == {"1", "2"}


async def test_where_the_first_worker_ends_before_it_serves_there_is_no_other(tmp_path: Path) -> None:
    (tmp_path / "fail1").touch()
    parent = made(2, tmp_path)
    assert await parent.start() == 7
    assert [worker.pid for worker in parent.workers] == [0, 0]
    await parent.stop()


async def test_another_worker_that_cannot_start_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "fail2").touch()
    parent = made(2, tmp_path)
    try:
        with capture_logs() as logged:
            assert await parent.start() is None
            await until(lambda: events(logged).count(REPLACED) > 3)
        (tmp_path / "fail2").unlink()
        await until(lambda: parent.workers[1].unready() is None)
        await until_both_answer(parent.port)
    finally:
        await parent.stop()


async def test_each_failure_in_a_row_waits_longer_for_the_next_start_and_the_first_does_not(tmp_path: Path) -> None:
    command = (sys.executable, "-S", "-c", SCRIPT, str(tmp_path))
    asked: list[int] = []

    def delay(failures: int) -> float:
        asked.append(failures)
        return failures / 1000

    parent = Parent(settings("server.workers=2"), command, delay=delay)
    try:
        (tmp_path / "fail2").touch()
        with capture_logs() as logged:
            assert await parent.start() is None
            await until(lambda: events(logged).count("a worker ended and is replaced") >= 4)
        waits = [entry["starts_in"] for entry in logged if entry["event"] == "a worker ended and is replaced"]
        assert waits[:4] == [0.0, 0.001, 0.002, 0.003]
        assert asked[:3] == [1, 2, 3]
    finally:
        await parent.stop()


async def test_a_refresh_says_which_worker_failed(tmp_path: Path) -> None:
    async with parent_of(2, tmp_path) as parent:
        assert await parent.refresh_listings() == "worker 2: refused"


async def test_who_gives_up_a_refresh_leaves_the_workers_ready(tmp_path: Path) -> None:
    """Also where an answer comes later, and where the worker ends before."""
    async with parent_of(2, tmp_path) as parent:
        first, second = parent.workers
        os.kill(first.pid, signal.SIGSTOP)
        os.kill(second.pid, signal.SIGSTOP)
        refresh = asyncio.create_task(parent.refresh_listings())
        for _ in range(5):  # turns, until both are told
            await asyncio.sleep(0)
        refresh.cancel()
        await asyncio.wait([refresh])
        os.kill(first.pid, signal.SIGCONT)
        dead = second.pid
        second.kill()
        await until(lambda: second.pid not in (0, dead) and second.unready() is None)
        assert await parent.refresh_listings() == "worker 2: refused"


async def test_a_worker_that_is_to_stop_as_it_begins_to_start_ends(tmp_path: Path) -> None:
    command = (sys.executable, "-S", "-c", SCRIPT, str(tmp_path))
    for turns in range(6):
        worker = Worker(1, await bind("127.0.0.1", 0), command, lambda failures: 0.01, lambda: True, Totals())
        running = asyncio.create_task(worker.keep_running(must_serve=False))
        for _ in range(turns):
            await asyncio.sleep(0)
        worker.stop()
        assert await asyncio.wait_for(running, PATIENCE) == 0


async def test_where_it_is_to_stop_before_the_port_is_bound_no_worker_starts(tmp_path: Path) -> None:
    parent = made(2, tmp_path)
    starting = asyncio.create_task(parent.start())
    await asyncio.sleep(0)
    await parent.stop()
    assert await asyncio.wait_for(starting, PATIENCE) == 0
    assert [worker.pid for worker in parent.workers] == [0, 0]
    with pytest.raises(ConnectionRefusedError):
        await who_answers(parent.port)


async def test_a_second_signal_ends_workers_that_do_not_listen_to_the_first(tmp_path: Path) -> None:
    (tmp_path / "deaf").touch()
    knobs = ("server.workers=2", "server.shutdown_timeout=10m")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SERVE, SCRIPT, str(tmp_path), *GROUND, *knobs), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            while not (line := await process.stdout.readline()).strip().isdigit():
                assert line, "it ended"
            process.send_signal(signal.SIGTERM)
            while b"stopping" not in (said := await process.stdout.readline()):
                assert said, "it ended"
            assert await who_answers(int(line)), "the workers serve on"
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 128 + signal.SIGTERM
            await process.stdout.read()  # ends once all that have this pipe have ended
    finally:
        if process.returncode is None:
            process.kill()


async def test_a_port_where_another_program_listens_is_not_shared(tmp_path: Path) -> None:
    async with parent_of(2, tmp_path) as parent:
        command = (sys.executable, "-S", "-c", SCRIPT, str(tmp_path))
        second = Parent(settings("server.workers=2", f"server.port={parent.port}"), command)
        with pytest.raises(OSError, match=f"127.0.0.1 port {parent.port}: address already in use"):
            await second.start()
        await second.stop()


@each("value", {"empty": "", "short": "1:1:0", "own process": f"{os.getpid()}:1:0:1", "word": "one"})
def test_a_variable_that_no_parent_has_set_is_refused(value: str) -> None:
    """Nobody becomes a worker by accident; a worker whose parent is gone before it starts ends here, too."""
    environ = {VARIABLE: value}
    with pytest.raises(NotAWorker, match=f"{VARIABLE} is set, but this process has no such parent: unset it"):
        inherit(environ)


def test_without_the_variable_a_process_is_no_worker() -> None:
    assert inherit({}) is None


async def test_ten_seconds_of_service_make_the_end_of_a_worker_its_first_failure_again(tmp_path: Path) -> None:
    async with parent_of(2, tmp_path, Looks()) as parent:
        worker = parent.workers[1]
        with capture_logs() as logged:
            for served, silent in ((0, 0.0), (9, 1.5), (10, 0.0), (0, 0.0)):
                for _ in range(served):
                    worker.look(1.0)
                    said = worker._state
                    await until(lambda said=said: worker._state is not said)  # type: ignore[misc]
                worker.look(silent)  # which is no service
                dead = worker.pid
                worker.kill()
                await until(lambda dead=dead: worker.pid not in (0, dead) and worker.unready() is None)  # type: ignore[misc]
        assert [entry["starts_in"] for entry in logged if entry["event"] == REPLACED] == [0.0, 0.01, 0.0, 0.01]
