"""A program that is started in a fork is what it is after ``exec``: what it finds, what it says, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from tests.e2e.inside import ENDS, RANDOM
from tests.each import each
from tests.starts import CLOSED, Forked, ForkServer, started, starting_by
from tests.waiting import PATIENCE, until, wait_until

INSIDE: Final = "tests.e2e.inside"
PIPE: Final = asyncio.subprocess.PIPE
BURNT: Final = 0.4
"""Seconds of processor time, of the half that a program takes."""


async def ran(*arguments: str, typed: bytes = b"", **how: Any) -> tuple[int | None, bytes | None, bytes | None]:
    """Return the exit code and what was printed on each stream."""
    process = await started(*arguments, module=INSIDE, **how)
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate(typed if process.stdin else None)
    return process.returncode, out, err


async def both(server: ForkServer, *arguments: str, **how: Any) -> tuple[Any, Any]:
    """Return what was made of it for real, and in a fork."""
    with starting_by(None):
        real = await ran(*arguments, **how)
    with starting_by(server):
        return real, await ran(*arguments, **how)


async def found(server: ForkServer, file: Path, **how: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a real start and a fork find."""
    states = []
    for kind in (None, server):
        with starting_by(kind):
            code, _, err = await ran("state", str(file), **how)
            assert code == 0, err
            states.append(json.loads(file.read_bytes()))  # noqa: ASYNC240, the program has ended
    return states[0], states[1]


@contextlib.contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextlib.contextmanager
def ignored(number: signal.Signals) -> Iterator[None]:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextlib.contextmanager
def blocked(number: signal.Signals) -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (number,))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


CIRCUMSTANCES: Final = {
    "as ever": contextlib.nullcontext,
    "another umask": lambda: umask(0o077),
    "SIGINT is ignored, as in the background of a shell": lambda: ignored(signal.SIGINT),
    "SIGHUP is ignored, as after nohup": lambda: ignored(signal.SIGHUP),
    "a signal is blocked": lambda: blocked(signal.SIGUSR1),
    "another folder": lambda: contextlib.chdir("/"),
}
WAYS: Final[dict[str, dict[str, Any]]] = {
    "nothing given": {},
    "input from a pipe": {"given": PIPE},
    "both streams in one": {"errors": asyncio.subprocess.STDOUT},
    "variables": {"environ": {"TZ": "Asia/Tokyo", "GATEWAY_X": "1", "HOME": "/nowhere", "NAME": "ä\udcff"}},
    "a folder": {"folder": Path("/usr")},
    "input is closed": {"given": CLOSED},
    "output is closed": {"output": CLOSED, "errors": PIPE},
    "errors are closed": {"errors": CLOSED},
    "all are closed": {"given": CLOSED, "output": CLOSED},
}


@each("circumstance", [*CIRCUMSTANCES])
async def test_a_fork_finds_what_a_real_start_finds(forks: ForkServer, tmp_path: Path, circumstance: str) -> None:
    with CIRCUMSTANCES[circumstance]():
        real, fork = await found(forks, tmp_path / "state")
    assert {**fork, **dict.fromkeys(RANDOM)} == {**real, **dict.fromkeys(RANDOM)}
    assert all(fork[name] != real[name] for name in RANDOM)


@each("way", [*WAYS])
async def test_it_finds_the_streams_the_variables_and_the_folder_that_it_is_given(
    forks: ForkServer, tmp_path: Path, way: str
) -> None:
    real, fork = await found(forks, tmp_path / "state", **WAYS[way])
    assert {**fork, **dict.fromkeys(RANDOM)} == {**real, **dict.fromkeys(RANDOM)}


async def test_it_finds_a_terminal(forks: ForkServer, tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    real, fork = await found(forks, tmp_path / "state", output=theirs, given=theirs)
    os.close(ours)
    os.close(theirs)
    assert fork["streams"] == real["streams"]
    assert real["streams"][1]["terminal"]


async def test_two_forks_draw_other_random_numbers_and_see_nothing_of_each_other(
    forks: ForkServer, tmp_path: Path
) -> None:
    with starting_by(forks):
        async with waiting() as _:
            for name in ("one", "other"):
                assert (await ran("state", str(tmp_path / name)))[0] == 0
    one, other = (json.loads((tmp_path / name).read_bytes()) for name in ("one", "other"))
    assert all(one[name] != other[name] for name in RANDOM)
    assert one["descriptors"] == other["descriptors"]


ENDINGS: Final = sorted(ENDS.keys() - {"state", "wait"})


@each("end", ENDINGS)
async def test_it_says_the_same_and_ends_with_the_same_code(forks: ForkServer, end: str) -> None:
    typed = b"\xc3\xa4\r\n" + b"x" * 100_000 if end == "echo" else b""
    real, fork = await both(forks, end, typed=typed, given=PIPE)
    assert (fork[0], fork[1], without_frames(fork[2])) == (real[0], real[1], without_frames(real[2]))


def without_frames(said: bytes) -> str:
    """Leave out where in a file something was raised: below a fork is the server."""
    return re.sub(r'^  File ".*\n(?:    .*\n)*', "", said.decode(), flags=re.MULTILINE)


@each("end", ["text", "large"])
async def test_it_ends_the_same_where_nothing_can_be_written(forks: ForkServer, end: str) -> None:
    for streams in ("output", "errors"):
        full = os.open("/dev/full", os.O_WRONLY)
        real, fork = await both(forks, end, **{streams: full})
        os.close(full)
        assert fork[0] == real[0]
        real, fork = await both(forks, end, **{"output": PIPE, "errors": PIPE, streams: CLOSED})
        assert fork[:2] == real[:2]
    reading, writing = os.pipe()
    os.close(reading)
    real, fork = await both(forks, end, output=writing)
    os.close(writing)
    assert fork == real


@asynccontextmanager
async def waiting() -> AsyncIterator[Process | Forked]:
    """Run a program that waits for a signal."""
    process = await started("wait", module=INSIDE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"waiting\n"
    yield process
    if process.returncode is None:
        process.kill()
    await process.communicate()


@each("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL, signal.SIGUSR1, signal.SIGPIPE])
async def test_a_signal_does_the_same(forks: ForkServer, number: signal.Signals) -> None:
    if signal.getsignal(number) == signal.SIG_IGN:
        number = signal.SIGTERM  # nohup lets all programs ignore SIGHUP
    codes = []
    for kind in (None, forks):
        with starting_by(kind):
            async with waiting() as process:
                process.send_signal(signal.SIGPIPE)  # which Python ignores
                if number != signal.SIGPIPE:
                    process.send_signal(number)
                    async with asyncio.timeout(PATIENCE):
                        await process.wait()
            codes.append(process.returncode)
    assert codes[1] == codes[0]


async def test_a_signal_right_after_the_start_is_not_lost(forks: ForkServer) -> None:
    with starting_by(forks):
        for _ in range(10):
            process = await started("wait", module=INSIDE)
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(PATIENCE):
                assert await process.wait() == -signal.SIGTERM
            await process.communicate()


async def test_arguments_may_be_long(forks: ForkServer) -> None:
    words = ["x" * 100_000, *("ä" * 1000 for _ in range(500)), "\udcff", "", "a\nb"]
    real, fork = await both(forks, "none", *words)
    assert fork == real == (0, b"", b"")


async def test_what_takes_effect_before_the_program_makes_a_real_start(forks: ForkServer) -> None:
    with starting_by(forks):
        for name in ("PYTHONDEVMODE", "LD_BIND_NOW", "OTEL_SERVICE_NAME", "LC_ALL", "MALLOC_ARENA_MAX"):
            process = await started("none", module=INSIDE, environ={name: "1"})
            await process.communicate()
            assert not isinstance(process, Forked), name
        process = await started("none", module=INSIDE)
        await process.communicate()
        assert isinstance(process, Forked)


async def test_a_program_ends_with_the_loop_that_started_it(forks: ForkServer) -> None:
    async def leave() -> int:
        with starting_by(forks):
            return (await started("wait", module=INSIDE, output=subprocess.DEVNULL)).pid

    pid = await asyncio.to_thread(asyncio.run, leave())
    await until(lambda: not Path(f"/proc/{pid}").exists())


async def test_a_start_that_is_cancelled_leaves_nothing_behind(forks: ForkServer) -> None:
    with starting_by(forks):
        async with waiting():  # the server runs
            before = set(children(forks))
            start = asyncio.create_task(started("wait", module=INSIDE))
            await asyncio.sleep(0)
            start.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await start
            await until(lambda: set(children(forks)) <= before)


def children(server: ForkServer) -> list[str]:
    return Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()


async def test_many_programs_run_at_once(forks: ForkServer) -> None:
    with starting_by(forks):
        ends = await asyncio.gather(*(ran("echo", typed=b"%d" % number, given=PIPE) for number in range(40)))
    assert ends == [(0, b"%d" % number, b"") for number in range(40)]


async def test_the_end_of_the_server_ends_its_programs_and_their_time_counts() -> None:
    with contextlib.closing(ForkServer()) as server, starting_by(server):
        before = used()
        assert (await ran("burn"))[0] == 0
        async with waiting() as process:
            server.close()
            async with asyncio.timeout(PATIENCE):
                assert await process.wait() == -signal.SIGKILL
    assert used() - before > BURNT


def used() -> float:
    """The processor time of processes that this one started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def test_a_server_does_not_outlive_who_started_it() -> None:
    code = "from tests.starts import ForkServer; s = ForkServer(); s.address; print(s.pid, flush=True); input()"
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert Path(f"/proc/{pid}").exists()
    parent.kill()
    parent.communicate()
    wait_until(lambda: not Path(f"/proc/{pid}/exe").exists())
