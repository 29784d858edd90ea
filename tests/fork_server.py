"""Start the program in forks of one process that has imported it: a start takes a tenth of the processor time.

``python -m tests.fork_server SOCKET`` has imported every module of the gateway when it takes the first order. It forks
for each order, and ends with its standard input. :mod:`tests.starts` orders, and says which starts are real ones.

In a fork, ``python -m gateway`` finds what it would find after ``exec``, and ends as then. These alone differ: the
modules that are there, and hence the memory; the parent; the command line in /proc; and that all forks of one server
hash texts alike.
"""

from __future__ import annotations

import gc
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Final, TextIO

import gateway
from gateway.config.source import load_settings

KILL: Final = bytes((signal.SIGKILL,))
_STANDARD: Final = ("<stdin>", "<stdout>", "<stderr>")
_CHUNK: Final = 65536
_END: Final = b"}\n"  # of an order: JSON has no line end within


@dataclass(frozen=True)
class Order:
    """Hold what a start takes over from who asks for it. ``streams`` has the numbers of the standard streams that are
    open, in the order of the descriptors that come with it. ``ignored`` and ``blocked`` are signals."""

    module: str
    arguments: Sequence[str]
    environ: Mapping[str, str]
    folder: str
    umask: int
    ignored: Sequence[int]
    blocked: Sequence[int]
    streams: Sequence[int]


def order(
    module: str, arguments: Sequence[str], environ: Mapping[str, str], folder: Path | None, streams: Sequence[int]
) -> Order:
    """Return the order for a start of a module from this process, in ``folder`` or here."""
    states = Path("/proc/self/status").read_text().splitlines()
    umask = next(int(line.split()[1], 8) for line in states if line.startswith("Umask:"))
    ignored = [number for number in signal.valid_signals() if signal.getsignal(number) == signal.SIG_IGN]
    blocked = [*signal.pthread_sigmask(signal.SIG_BLOCK, ())]
    return Order(module, arguments, environ, str(folder or Path.cwd()), umask, ignored, blocked, streams)


def send(address: str, wanted: Order, descriptors: Sequence[int]) -> socket.socket:
    """Give an order to the server at this address. Return a connection: it says the process id on a line, and at the
    end of the process the exit code. Each byte sent to it is the number of a signal; when it is closed, the process is
    killed."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    socket.send_fds(connection, [b"\n"], descriptors)
    connection.sendall(json.dumps(asdict(wanted)).encode() + b"\n")
    return connection


class _Child:
    """A process, and the connection to who ordered it, which lasts until that closes it."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self.connection = connection
        self.end = os.pidfd_open(pid)
        self.is_reaped = False
        self._tell(pid)

    def _tell(self, number: int) -> None:
        with suppress(OSError):  # who ordered it has gone; the connection tells that, too
            self.connection.sendall(b"%d\n" % number)

    def obey(self) -> bool:
        """Send the process the signals that are ordered. Return whether there may be more."""
        numbers = b""
        with suppress(ConnectionError):
            numbers = self.connection.recv(_CHUNK)
        for number in numbers or KILL:
            if not self.is_reaped:
                os.kill(self.pid, number)
        return bool(numbers)

    def reap(self) -> None:
        """Wait for the process, and say its exit code."""
        _, status = os.waitpid(self.pid, 0)
        self.is_reaped = True
        os.close(self.end)
        self._tell(os.waitstatus_to_exitcode(status))


class _Server:
    """Fork for each order. There are no threads: a lock that one holds would stay locked in a fork."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._running: dict[int, _Child] = {}  # by the descriptor that tells of their end
        self._talking: dict[int, _Child] = {}  # by that of their connection
        self._poll = select.poll()
        self._poll.register(0, select.POLLIN)
        self._poll.register(listener, select.POLLIN)

    def run(self) -> tuple[Order, list[int]] | None:
        """Return None when standard input ends, and in each fork its order, with the descriptors of its streams."""
        while True:
            ready = {descriptor for descriptor, _ in self._poll.poll()}
            if 0 in ready:
                self._end()
                return None
            for descriptor in ready & self._talking.keys():
                if not self._talking[descriptor].obey():
                    self._poll.unregister(descriptor)
                    self._talking.pop(descriptor).connection.close()
            for descriptor in ready & self._running.keys():
                self._poll.unregister(descriptor)
                self._running.pop(descriptor).reap()
            if self._listener.fileno() in ready and (ordered := self._take_order()):
                return ordered

    def _take_order(self) -> tuple[Order, list[int]] | None:
        """Fork for one order. Return it in the fork, and None in the server."""
        connection, _ = self._listener.accept()
        text, descriptors, _, _ = socket.recv_fds(connection, _CHUNK, len(_STANDARD))
        while text and not text.endswith(_END):
            more = connection.recv(_CHUNK)
            text = text + more if more else b""
        if not text:  # who ordered has gone
            connection.close()
        elif (pid := os.fork()) == 0:
            self._leave()
            connection.close()
            return Order(**json.loads(text)), descriptors
        else:
            self._keep(_Child(pid, connection))
        for descriptor in descriptors:
            os.close(descriptor)
        return None

    def _leave(self) -> None:
        """Close what is the server's, in a fork."""
        for child in self._running.values():
            os.close(child.end)
        for child in self._talking.values():
            child.connection.close()
        self._listener.close()

    def _keep(self, child: _Child) -> None:
        self._running[child.end] = self._talking[child.connection.fileno()] = child
        self._poll.register(child.end, select.POLLIN)
        self._poll.register(child.connection, select.POLLIN)

    def _end(self) -> None:
        for child in self._running.values():
            os.kill(child.pid, signal.SIGKILL)
            child.reap()


def _prepare() -> None:
    """Import what any command may import, but for what runs the program."""
    import_module("uvloop")
    for module in pkgutil.walk_packages(gateway.__path__, "gateway."):
        if module.name != "gateway.__main__":
            import_module(module.name)
    load_settings(None, ("backend.url=http://127.0.0.1/", "auth.mode=off"), environ={})  # builds the models
    # What is there stays: a fork that looked through it would copy its memory, and take five times as long.
    gc.collect()
    gc.freeze()


def _become(ordered: Order, descriptors: Sequence[int]) -> None:
    """Make this process what it would be at the start of the program."""
    given = dict(zip(ordered.streams, descriptors, strict=True))
    for number in range(len(_STANDARD)):
        if number in given:
            os.dup2(given[number], number)
            os.close(given[number])
        else:
            os.close(number)
    os.environ.clear()
    os.environ.update(ordered.environ)
    time.tzset()
    os.chdir(ordered.folder)
    os.umask(ordered.umask)
    sys.path[0] = str(Path.cwd())
    sys.argv = ["-m", *ordered.arguments]
    sys.orig_argv = [sys.executable, "-m", ordered.module, *ordered.arguments]
    is_direct = sys.stdin.write_through  # with PYTHONUNBUFFERED
    encoding, errors = sys.stdin.encoding, [stream.errors for stream in (sys.stdin, sys.stdout, sys.stderr)]
    sys.stdin, sys.stdout, sys.stderr = (_stream(number, encoding, errors[number], is_direct) for number in range(3))
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        handler = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in ordered.ignored else handler)
    # The server blocks all of them, so that one that comes before this is not lost.
    signal.pthread_sigmask(signal.SIG_SETMASK, ordered.blocked)


def _stream(number: int, encoding: str, errors: str, is_direct: bool) -> TextIO | None:
    """Return a standard stream as the interpreter makes it, None where its descriptor is closed."""
    try:
        os.fstat(number)
    except OSError:
        return None
    mode = "w" if number else "r"
    buffer = open(number, f"{mode}b", 0 if number and is_direct else -1, closefd=False)  # noqa: SIM115, until the end
    raw = getattr(buffer, "raw", buffer)
    raw.name = _STANDARD[number]
    is_by_line = not is_direct and (number == 2 or raw.isatty())
    stream = io.TextIOWrapper(
        buffer, encoding, errors, newline="\n", line_buffering=is_by_line, write_through=is_direct
    )
    stream.mode = mode
    return stream


def _main() -> None:
    _prepare()
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    threads = [*Path("/proc/self/task").iterdir()]
    assert len(threads) == 1, "an import has started a thread, which no fork would have"
    ordered = _Server(socket.socket(fileno=int(sys.argv[1]))).run()
    if ordered is not None:
        _become(*ordered)
        # Not in a `try`: how the program ends is how this process ends.
        runpy.run_module(ordered[0].module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
