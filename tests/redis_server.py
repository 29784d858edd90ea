"""A real redis-server on a free port of 127.0.0.1, without persistence, and a clock for the scripts of the store."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import redis

from tests.manual_clock import ManualClock
from tests.services.process import free_port
from tests.waiting import PATIENCE, wait_until

TEST_TIME: Final = "redis.call('GET', 'test-clock')"
"""What :class:`ServerClock` sets, as Lua: in place of the server's own time."""


class RedisServer:
    """A redis-server, or with ``sentinel`` one that watches others, while the block runs."""

    def __init__(
        self,
        *options: str,
        port: int = 0,
        password: str | None = None,
        folder: Path | None = None,
        sentinel: Path | None = None,
    ) -> None:
        self.port = port or free_port()
        common = ["--port", str(self.port), "--bind", "127.0.0.1", "--daemonize", "no", "--logfile", ""]
        options = options if password is None else ("--requirepass", password, "--masterauth", password, *options)
        own = ["--save", "", "--appendonly", "no", "--rdb-del-sync-files", "yes", *options] if sentinel is None else []
        self._command = ["redis-server", *([str(sentinel), "--sentinel"] if sentinel else []), *common, *own]
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.control = redis.Redis(port=self.port, password=password, protocol=2, socket_timeout=PATIENCE)
        """A connection of the test's own."""

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.kill()

    def start(self) -> None:
        """Start, and wait until it answers."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, cwd=self._folder)
        wait_until(self._answers)

    def _answers(self) -> bool:
        try:
            return bool(self.control.ping())
        except redis.ConnectionError:
            ended = self._process is None or self._process.poll() is not None
            assert not ended, "redis-server ended: is the Debian package redis-server installed?"
            return False

    def kill(self) -> None:
        """End it at once, as kill -9 does."""
        self.control.close()
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


class ServerClock(ManualClock):
    """A clock that scripts with :data:`TEST_TIME` read, too."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        super().__init__()

    @property
    def now(self) -> float:
        return self._now

    @now.setter
    def now(self, now: float) -> None:
        self._now = now
        self._server.control.set("test-clock", round(now * 1e6))
