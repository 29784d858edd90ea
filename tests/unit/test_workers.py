"""What a parent does with its workers. They are real processes that speak as workers do, and start in no time."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.config import load_settings
from gateway.settings import Settings
from gateway.web.accepting import bind
from gateway.workers.link import VARIABLE, NotAWorker, inherit
from gateway.workers.parent import Parent
from gateway.workers.worker import SILENT, Worker
from tests.waiting import PATIENCE, until

MANY = 40
SCRIPT = """
import json, os, select, socket, sys, time
folder = sys.argv[1]
_, number, channel, *listening = map(int, os.environ.pop("JSONRPC_MCP_GATEWAY_WORKER").split(":"))
channel, listening = socket.socket(fileno=channel), [socket.socket(fileno=one) for one in listening]
while os.path.exists(f"{folder}/wait"):
    time.sleep(0.01)
if os.path.exists(f"{folder}/fail{number}"):
    sys.exit(7)
for one in listening:
    one.listen(100)
channel.sendall(json.dumps({"unready": None, "lines": ["listing: running"]}).encode() + b"\\n")
while True:
    for ready in select.select([channel, *listening], [], [])[0]:
        if ready is not channel:
            accepted, _ = ready.accept()
            accepted.sendall(str(number).encode())
            accepted.close()
            continue
        words = channel.recv(100).split()
        if b"refresh" in words:
            channel.sendall(json.dumps({"refreshed": "" if number == 1 else "refused"}).encode() + b"\\n")
        if not words or (b"stop" in words and not os.path.exists(f"{folder}/deaf")):
            sys.exit(0)
"""


# A parent as a process of its own: it says its port, and logs, on standard output.
SERVE = """
import asyncio, sys
from gateway.config import load_settings
from gateway.workers.parent import serve
script, folder, *knobs = sys.argv[1:]
command = (sys.executable, "-S", "-c", script, folder)
sys.exit(asyncio.run(serve(load_settings(None, knobs, {}), command, lambda port: print(port, flush=True))))
"""
GROUND = (
    *("backend.url=http://127.0.0.1:1/jsonrpc", "auth.mode=off", "server.port=0", "server.admin_port=0"),
    *("store.url=redis://127.0.0.1:1", "server.secret_file=none"),  # nobody asks this store
)


def settings(*knobs: str) -> Settings:
    return load_settings(None, (*GROUND, *knobs), {})


@asynccontextmanager
async def parent_of(workers: int, folder: Path, silent: float = SILENT) -> AsyncIterator[Parent]:
    parent = made(workers, folder, silent)
    try:
        assert await parent.start() is None
        await until(lambda: parent.unready() is None and all(worker.lines for worker in parent.workers))
        yield parent
    finally:
        await parent.stop()


def made(workers: int, folder: Path, silent: float = SILENT) -> Parent:
    command = (sys.executable, "-S", "-c", SCRIPT, str(folder))
    return Parent(settings(f"server.workers={workers}"), command, delay=lambda failures: 0.01, silent=silent)


async def who_answers(port: int) -> str:
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answer = (await reader.read()).decode()
        writer.close()
    return answer


async def who_answer(port: int) -> Counter[str]:
    """How many of many connections each worker answers."""
    return Counter(await asyncio.gather(*(who_answers(port) for _ in range(MANY))))


async def test_each_worker_has_its_part_of_the_connections(tmp_path: Path) -> None:
    async with parent_of(3, tmp_path) as parent:
        assert set(await who_answer(parent.port)) == {"1", "2", "3"}
        described = [re.sub(r"process \d+", "process N", line) for line in parent.describe()]
        assert described[:2] == ["worker 1: ok, process N", "worker 1: listing: running"]
        assert len(described) == 6


async def test_connections_that_wait_at_a_dead_worker_are_answered_by_its_successor(tmp_path: Path) -> None:
    async with parent_of(2, tmp_path) as parent:
        (tmp_path / "wait").touch()
        dead = [worker.pid for worker in parent.workers]
        parent.kill()
        await until(lambda: all(worker.pid not in (0, *dead) for worker in parent.workers))
        assert parent.unready() == "worker 1: is starting; worker 2: is starting"
        waiting = [asyncio.create_task(who_answers(parent.port)) for _ in range(MANY)]
        (tmp_path / "wait").unlink()
        assert set(await asyncio.gather(*waiting)) == {"1", "2"}


async def test_nobody_waits_at_a_worker_that_fails_three_times_until_it_serves_again(tmp_path: Path) -> None:
    async with parent_of(2, tmp_path) as parent:
        (tmp_path / "fail2").touch()
        with capture_logs() as logged:
            os.kill(parent.workers[1].pid, signal.SIGKILL)
            await until(
                lambda: "a worker fails again and again: its socket is closed until it serves" in events(logged)
            )
        ends = [entry["exit_code"] for entry in logged if entry["event"] == "a worker ended and is replaced"]
        assert ends[:3] == [128 + signal.SIGKILL, 7, 7]
        assert await who_answer(parent.port) == {"1": MANY}
        assert parent.unready() is None, "one worker is enough"
        (tmp_path / "fail2").unlink()
        await until(lambda: parent.workers[1].unready() is None)
        assert set(await who_answer(parent.port)) == {"1", "2"}


def events(logged: list[dict[str, object]]) -> list[object]:
    return [entry["event"] for entry in logged]


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
            await until(lambda: events(logged).count("a worker ended and is replaced") > 3)
        (tmp_path / "fail2").unlink()
        await until(lambda: parent.workers[1].unready() is None)
        assert set(await who_answer(parent.port)) == {"1", "2"}
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
        assert await parent.list_anew() == "worker 2: refused"


async def test_who_gives_up_a_refresh_leaves_the_workers_ready(tmp_path: Path) -> None:
    """Also where an answer comes later, and where the worker ends before."""
    async with parent_of(2, tmp_path) as parent:
        first, second = parent.workers
        os.kill(first.pid, signal.SIGSTOP)
        os.kill(second.pid, signal.SIGSTOP)
        refresh = asyncio.create_task(parent.list_anew())
        for _ in range(5):  # turns, until both are told
            await asyncio.sleep(0)
        refresh.cancel()
        await asyncio.wait([refresh])
        os.kill(first.pid, signal.SIGCONT)
        dead = second.pid
        second.kill()
        await until(lambda: second.pid not in (0, dead) and second.unready() is None)
        assert await parent.list_anew() == "worker 2: refused"


async def test_a_refresh_does_not_wait_for_a_worker_that_is_blocked(tmp_path: Path) -> None:
    async with parent_of(2, tmp_path, silent=0.05) as parent:
        os.kill(parent.workers[0].pid, signal.SIGSTOP)
        assert (await asyncio.wait_for(parent.list_anew(), PATIENCE)).startswith("worker 1: has not reported for 0 s; ")
        parent.kill()


async def test_a_worker_that_is_to_stop_as_it_begins_to_start_ends(tmp_path: Path) -> None:
    command = (sys.executable, "-S", "-c", SCRIPT, str(tmp_path))
    for turns in range(6):
        worker = Worker(1, await bind("127.0.0.1", 0), command, lambda failures: 0.01, SILENT)
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


@pytest.mark.parametrize(
    "value", ["", "1:1:0", f"{os.getpid()}:1:0:1", "one"], ids=["empty", "short", "own process", "word"]
)
def test_a_variable_that_no_parent_has_set_is_refused(value: str) -> None:
    """Nobody becomes a worker by accident; a worker whose parent is gone before it starts ends here, too."""
    environ = {VARIABLE: value}
    with pytest.raises(NotAWorker, match=f"{VARIABLE} is set, but this process has no such parent: unset it"):
        inherit(environ)


def test_without_the_variable_a_process_is_no_worker() -> None:
    assert inherit({}) is None
