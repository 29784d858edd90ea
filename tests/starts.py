"""Start the program: in a fork of a process that has imported it (:mod:`tests.fork_server`), or for real.

Where pytest runs, starts are forks; ``STARTS=exec`` makes them real ones. So is a start with another interpreter or
module, and one whose environment has something that takes effect before the first line of the program. What is run
without pytest measures, and starts for real, too.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tests.fork_server import order, send
from tests.waiting import PATIENCE

CLOSED: Final = -10
"""A stream that is closed at the start, where others are a descriptor or a constant of :mod:`subprocess`."""
BEFORE_THE_PROGRAM: Final = (
    "PYTHON", "LD_", "GLIBC_", "MALLOC", "LC_", "LANG", "FAKETIME", "OTEL", "OPENSSL_", "COVERAGE",
)  # fmt: skip
"""How variables begin that the loader, libc, the interpreter or a library reads once."""
FORKED: Final = ("gateway", "tests.e2e.inside")
"""The modules that are started in forks. What others do, they do before or while they import the gateway."""
_LIMIT: Final = 65536
_ROOT: Final = Path(__file__).parents[1]


async def started(
    *arguments: str,
    module: str = "gateway",
    environ: Mapping[str, str] = MappingProxyType({}),
    output: int = asyncio.subprocess.PIPE,
    errors: int | None = None,
    given: int = asyncio.subprocess.DEVNULL,
    python: str = sys.executable,
    folder: Path | None = None,
    limit: int = _LIMIT,
) -> asyncio.subprocess.Process | Forked:
    """Start ``module`` in ``folder`` or here, with ``environ`` added to the environment. Both output streams go to
    ``output``, unless ``errors`` says where standard error does; standard input is ``given``. Lines that are read from
    it have at most ``limit`` bytes."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
    whole = {**inherited, **environ}
    streams = given, output, output if errors is None else errors
    if fork_server is not None and module in FORKED and python == sys.executable and fork_server.fits(whole):
        return await fork_server.start(module, arguments, whole, folder, streams, limit)
    command = (python, "-m", module, *arguments)
    closed = "".join(f" {number}>&-" for number, stream in enumerate(streams) if stream == CLOSED)
    if closed:
        command = ("/bin/sh", "-c", f'exec "$@"{closed}', "sh", *command)
    stdin, stdout, stderr = (None if stream == CLOSED else stream for stream in streams)
    return await asyncio.create_subprocess_exec(
        *command, env=whole, cwd=folder, stdin=stdin, stdout=stdout, stderr=stderr, limit=limit
    )


class Forked:
    """A program in a fork, with what tests use of :class:`asyncio.subprocess.Process`."""

    def __init__(
        self,
        pid: int,
        said: asyncio.StreamReader,
        connection: asyncio.StreamWriter,
        stdin: asyncio.StreamWriter | None,
        stdout: asyncio.StreamReader | None,
        stderr: asyncio.StreamReader | None,
    ) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self._said = said
        self._connection = connection
        self._ending = asyncio.create_task(self._end())

    async def wait(self) -> int:
        return await asyncio.shield(self._ending)

    async def communicate(self, given: bytes | None = None) -> tuple[bytes | None, bytes | None]:
        _, out, err = await asyncio.gather(self._feed(given), _read(self.stdout), _read(self.stderr))
        await self.wait()
        return out, err

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            self._connection.write(bytes((number,)))

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def _end(self) -> int:
        try:
            line = await self._said.readline()
            assert line, "the fork server has ended"
            self.returncode = int(line)
        finally:
            self._connection.close()
            if self.stdin is not None:
                self.stdin.close()
        return self.returncode

    async def _feed(self, given: bytes | None) -> None:
        if self.stdin is None:
            return
        try:
            self.stdin.write(given or b"")
            await self.stdin.drain()
        except ConnectionError:
            pass  # it did not read to the end
        self.stdin.close()


async def _read(stream: asyncio.StreamReader | None) -> bytes | None:
    return None if stream is None else await stream.read()


class ForkServer:
    """The process that forks. It begins with the first start, and ends with :meth:`close`, or with this process."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._early: Mapping[str, str] = {}

    @property
    def address(self) -> str:
        """Where the server takes orders. It begins if it has not yet."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="forks-")
            self._begin(self._address)
        return self._address

    @property
    def _address(self) -> str:
        assert self._folder is not None
        return str(Path(self._folder.name) / "orders")

    def _begin(self, address: str) -> None:
        self._early = _early(os.environ)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen(socket.SOMAXCONN)
            self._process = subprocess.Popen(
                (sys.executable, "-m", "tests.fork_server", str(listener.fileno())),
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=(listener.fileno(),), cwd=_ROOT,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def fits(self, environ: Mapping[str, str]) -> bool:
        """Return whether a program with this environment would be in a fork as after ``exec``."""
        return _early(environ) == (_early(os.environ) if self._process is None else self._early)

    async def start(
        self,
        module: str,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        folder: Path | None,
        streams: Sequence[int],
        limit: int,
    ) -> Forked:
        pipes = _Pipes(streams)
        try:
            wanted = order(module, arguments, environ, folder, [*pipes.theirs])
            connection = send(self.address, wanted, [*pipes.theirs.values()])
            pipes.close_theirs()
            said, talking = await asyncio.open_unix_connection(sock=connection)
            pipes.opened.append(talking.transport)
            stdin = await pipes.writer(0)
            stdout, stderr = await pipes.reader(1, limit), await pipes.reader(2, limit)
            pid = await said.readline()
            assert pid, "the fork server has ended"
        except BaseException:
            pipes.close()  # which ends the program
            raise
        return Forked(int(pid), said, talking, stdin, stdout, stderr)

    def close(self) -> None:
        """End the server with all that it started, whose processor time is then that of a child of this process."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(PATIENCE)
            self._process = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


class _Pipes:
    """The streams of one start. ``theirs`` has the descriptors of the open ones by number, ``opened`` what is open
    here."""

    def __init__(self, streams: Sequence[int]) -> None:
        self.theirs: dict[int, int] = {}
        self.opened: list[asyncio.BaseTransport] = []
        self._ours: dict[int, int] = {}
        for number, stream in enumerate(streams):
            if stream == subprocess.PIPE:
                reading, writing = os.pipe()
                self.theirs[number], self._ours[number] = (writing, reading) if number else (reading, writing)
            elif stream == subprocess.DEVNULL:
                self.theirs[number] = os.open(os.devnull, os.O_RDWR)
            elif stream == subprocess.STDOUT:
                self.theirs[number] = os.dup(self.theirs[1])
            elif stream != CLOSED:
                self.theirs[number] = os.dup(stream)

    async def writer(self, number: int) -> asyncio.StreamWriter | None:
        if number not in self._ours:
            return None
        loop = asyncio.get_running_loop()
        file = os.fdopen(self._ours.pop(number), "wb", 0)
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, file)
        self.opened.append(transport)
        return asyncio.StreamWriter(transport, protocol, None, loop)

    async def reader(self, number: int, limit: int) -> asyncio.StreamReader | None:
        if number not in self._ours:
            return None
        reader = asyncio.StreamReader(limit=limit)
        file = os.fdopen(self._ours.pop(number), "rb", 0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), file
        )
        self.opened.append(transport)
        return reader

    def close_theirs(self) -> None:
        while self.theirs:
            os.close(self.theirs.popitem()[1])

    def close(self) -> None:
        self.close_theirs()
        for descriptor in self._ours.values():
            os.close(descriptor)
        for transport in self.opened:
            transport.close()


def _early(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name.startswith(BEFORE_THE_PROGRAM)}


fork_server: ForkServer | None = None
"""That of this process. Where pytest runs, tests/conftest.py sets it."""


@contextmanager
def starting_by(server: ForkServer | None) -> Iterator[None]:
    """Start in forks of this server until the block ends, or for real."""
    global fork_server
    before, fork_server = fork_server, server
    try:
        yield
    finally:
        fork_server = before
