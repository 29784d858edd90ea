"""The machine under the benchmark: programs, cores, ports, processes and the CPU time they used."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

_PACKAGES = {
    "wrk": "wrk",
    "redis-server": "redis-server",
    "nginx": "nginx-light",
    "valgrind": "valgrind",
    "callgrind_control": "valgrind",
    "taskset": "util-linux",
}
_SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
_ROOT = Path(__file__).parents[2]
_ECHO_MODULE = Path("/usr/lib/nginx/modules/ngx_http_echo_module.so")
_READY_WITHIN = 30.0
_STOP_WITHIN = 10.0


class Unusable(Exception):
    """The benchmark cannot run here or cannot be believed; the message says what to do."""


def program(name: str) -> str:
    """Where a program is."""
    if found := shutil.which(name, path=_SEARCH_PATH):
        return found
    raise Unusable(f"{name} is missing: install the Debian package {_PACKAGES[name]}")


def nginx_echo_module() -> Path:
    """nginx's echo module, without which a constant answer cannot carry the id of its request."""
    if _ECHO_MODULE.exists():
        return _ECHO_MODULE
    raise Unusable("nginx's echo module is missing: install the Debian package libnginx-mod-http-echo")


def two_cores() -> tuple[int, int]:
    """The core for load and backend, and the core for the system under test."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise Unusable("two cores are needed: one for the load and the backend, one for the system under test")
    return allowed[0], allowed[1]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True)
class Scheduled:
    """Nanoseconds on a core, and nanoseconds ready to run while something else had the core."""

    ran: int
    waited: int

    def __add__(self, other: Scheduled) -> Scheduled:
        return Scheduled(self.ran + other.ran, self.waited + other.waited)

    def __sub__(self, other: Scheduled) -> Scheduled:
        return Scheduled(self.ran - other.ran, self.waited - other.waited)


class Process:
    """A program on one core, or on several ("0,1"), for as long as the ``with`` block lasts; its output goes to
    ``log``, and ``environ`` is added to the environment."""

    def __init__(
        self,
        command: Sequence[str | Path],
        core: int | str,
        log: Path,
        environ: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._command = [program("taskset"), "-c", str(core), *map(str, command)]
        self._log = log
        self._environ = os.environ | environ
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Process:
        with self._log.open("wb") as log:
            self._child = subprocess.Popen(
                self._command,
                cwd=_ROOT,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        child = self._running()
        child.terminate()
        try:
            child.wait(_STOP_WITHIN)
        except subprocess.TimeoutExpired:
            # the session is the child's own, so this reaches it and its workers and nobody else
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            raise RuntimeError("the process has not been started")
        return self._child

    def wait_until(self, ready: Callable[[], bool], pause: float = 0.05, within: float = _READY_WITHIN) -> None:
        """Poll until ``ready``; refuse with the end of the log where the process dies or takes too long."""
        deadline = time.monotonic() + within
        while not ready():
            if self._running().poll() is not None or time.monotonic() > deadline:
                end = self._log.read_text(errors="replace")[-2000:]
                raise Unusable(f"{' '.join(self._command[3:])}\ndid not become ready:\n{end}")
            time.sleep(pause)

    @property
    def pid(self) -> int:
        return self._running().pid

    def scheduled(self) -> Scheduled:
        """Time so far of all threads of the process and its children."""
        return sum(map(_scheduled, _family(self.pid)), start=Scheduled(0, 0))

    def memory(self) -> int:
        """Bytes of the process and its children that are in memory (RSS)."""
        return sum(_resident(pid) for pid in _family(self.pid))


def _family(pid: int) -> Iterator[int]:
    yield pid
    for children in _of_threads(pid, "children"):
        for child in children.split():
            yield from _family(int(child))


def _scheduled(pid: int) -> Scheduled:
    # /proc/PID/schedstat alone counts the first thread only
    waited = sum(int(times.split()[1]) for times in _of_threads(pid, "schedstat"))
    return Scheduled(processor_ns(pid), waited)


def _of_threads(pid: int, file: str) -> Iterator[str]:
    """Yield what the system says of each thread that there is: some are short."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            yield (task / file).read_text()


def processor_ns(pid: int) -> int:
    """Return the processor time of a process, of threads that ended too, by the clock that clock_getcpuclockid(3) of
    Linux makes. Threads may come and go while their times are added up, and one may then be missed."""
    return time.clock_gettime_ns(~pid << 3 | 2)


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
