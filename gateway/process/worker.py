"""Keep one worker running, as its parent sees it."""

import asyncio
import os
import signal
import socket
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import structlog

from gateway import jsonrpc
from gateway.http_server.accepting import bind_beside
from gateway.process.link import MAX_LENT, MAX_LINE, VARIABLE, Inheritance
from gateway.telemetry.merging import Totals

_LASTING: Final = 10.0  # seconds of service after which a worker's end is the first failure again
_CLOSED_FROM: Final = 3
"""Failures in a row from which on the socket is closed until the worker serves again, if no other one serves."""
SILENT: Final = 8.0
"""Seconds without a report after which a worker hangs. It reports twice a second."""
_START: Final = 120.0  # seconds until the first report: on a busy machine the imports alone may take many
EMPTY: Final[dict[str, Any]] = {"configuration": None, "services": [], "problems": [], "jobs": [], "under_way": {}}
_PATIENCE: Final = 2.0  # seconds for what a page shows
_LAST_WORDS: Final = 1.0  # seconds to read what a process reported before it ended
_LENT_FROM: Final = 1.0
"""Seconds without a report after which others accept the worker's connections, too. That harms no slow one."""

log = structlog.get_logger()


@dataclass(eq=False)
class Worker:
    """Run worker ``number``, counted from 1, and another in its place where it ends. The worker makes ``sockets`` of
    the public port listen; ``delay`` is as for :class:`~gateway.process.parent.Parent`. ``totals`` gets the metrics.
    ``served`` is set once it has ever served. :meth:`look` counts the time, since a parent that was held up itself must
    not take that for silence."""

    number: int
    sockets: list[socket.socket]
    _command: Sequence[str]
    _delay: Callable[[int], float]
    _nobody_serves: Callable[[], bool]
    _totals: Totals

    def __post_init__(self) -> None:
        self.pid = 0
        self.served = asyncio.Event()
        self.replaced = 0
        self._stopping = asyncio.Event()
        self._channel: asyncio.StreamWriter | None = None
        self._lending: socket.socket | None = None
        self._lent: Sequence[socket.socket] = []
        self._state: dict[str, Any] | None = None
        self._silence = self._service = 0.0  # seconds since it was last heard, and in which it served
        self._asked: defaultdict[str, list[asyncio.Future[Any]]] = defaultdict(list)

    def status(self) -> dict[str, Any]:
        """Return what the worker says of itself, and what its parent knows of it."""
        known = {"unready": self.unready(), "worker": self.number, "process": self.pid}
        return {**EMPTY, **(self._state or {}), **known}

    def unready(self) -> str | None:
        absence = self.absence(SILENT)
        return self._state["unready"] if self._state and absence is None else absence

    def absence(self, seconds: float = _LENT_FROM) -> str | None:
        """Return why the worker accepts no connections: it was silent for so long, or drains. None if it does."""
        if self._state is None:
            return "is starting" if self.pid else "does not run"
        if self._silence > seconds:
            return f"has not reported for {self._silence:.0f} s"
        return "stopping" if self._state["unready"] == "stopping" else None

    def look(self, seconds: float) -> None:
        """Note that so much time has passed, and kill a process that was silent for too long: it hangs."""
        self._silence += seconds
        if self.absence() is None:
            self._service += seconds
        if self.pid and self._silence > (SILENT if self._state else _START):
            log.error("a worker hangs and is killed", worker=self.number, process=self.pid, silent_for=self._silence)
            self._state, self._silence = None, 0.0
            self.kill()

    def lend(self, sockets: Sequence[socket.socket]) -> None:
        """Have the worker accept from these sockets of others, and no more from those that it was lent before."""
        if self._lending is not None and sockets != self._lent:
            with suppress(OSError):  # it ends, or has not read the last message: it is told again at the next look
                socket.send_fds(self._lending, [b"."], [one.fileno() for one in sockets[:MAX_LENT]])
                self._lent = sockets

    def tell(self, word: str) -> bool:
        """Send a word, which a worker that is starting reads later. Return whether there is a worker."""
        if self._channel is None:
            return False
        self._channel.write(f"{word}\n".encode())
        return True

    async def details(self) -> dict[str, Any]:
        """Return what the admin page says beside the status, nothing where the worker does not say it soon."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                found = await self.ask("details")
                return found if isinstance(found, dict) else {}
        return {}

    async def ask(self, word: str) -> Any:
        """Return the answer to a word, which may take long, or why there is none. The caller may give up: the answer
        comes in its turn. Words are "refresh", "read" and "details" of :class:`~gateway.process.link.ParentLink`."""
        if not self.tell(word):
            return "does not run"
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[word].append(answer)
        await asyncio.wait([answer])
        return answer.result()

    def stop(self) -> None:
        """Let the worker finish its requests; do not restart it. The worker closes its port."""
        self._stopping.set()
        self.tell("stop")
        for one in self.sockets:
            one.close()

    def kill(self) -> None:
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    async def keep_running(self, must_serve: bool) -> int:
        """Run the worker until :meth:`stop`, or, if it ``must_serve``, its first end. Return its exit code."""
        failures = 0
        while not self._stopping.is_set():
            self._service = 0.0
            try:
                code = await self._run()
            except OSError as error:
                log.error("a worker cannot be started", worker=self.number, reason=str(error))
                code = 1
            if self._stopping.is_set() or (must_serve and not self.served.is_set()):
                return code
            failures = 1 if self._service >= _LASTING else failures + 1
            wait = self._delay(failures - 1) if failures > 1 else 0.0
            self.replaced += 1
            log.error("a worker ended and is replaced", worker=self.number, exit_code=code, starts_in=wait)
            if failures >= _CLOSED_FROM and self._nobody_serves():
                self._renew_sockets()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._stopping.wait()
        return 0

    async def _run(self) -> int:
        """Run one process. Return its exit code: 128 plus the number of the signal that ended it, as in shells."""
        ours, theirs = socket.socketpair()
        self._lending, lent = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lending.setblocking(False)
        inheritance = Inheritance(self.number, theirs, lent, tuple(self.sockets))
        reader, self._channel = await asyncio.open_unix_connection(sock=ours, limit=MAX_LINE)
        hearing = asyncio.create_task(self._hear(reader))
        try:
            with theirs, lent:
                if self._stopping.is_set():  # meanwhile: the sockets are closed
                    return 0
                process = await asyncio.create_subprocess_exec(
                    *self._command,
                    stdin=asyncio.subprocess.DEVNULL,
                    pass_fds=inheritance.descriptors,
                    env={**os.environ, "NOTIFY_SOCKET": "", VARIABLE: inheritance.as_variable(os.getpid())},
                    start_new_session=True,  # so that Ctrl-C reaches the parent alone
                )
            self.pid, self._silence = process.pid, 0.0
            code = await process.wait()
            await asyncio.wait({hearing}, timeout=_LAST_WORDS)
        finally:
            hearing.cancel()
            self._channel.close()
            self._lending.close()
            self._forget()
        return 128 - code if code < 0 else code

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            async for line in reader:
                message = jsonrpc.decode(line)
                if "metrics" in message:
                    self._totals.take(self.number, message["metrics"])
                elif "answer" in message:
                    self._asked[message["answer"]].pop(0).set_result(message["value"])
                else:
                    self._state, self._silence = message, 0.0
                    self.served.set()

    def _forget(self) -> None:
        self.pid, self._state, self._channel = 0, None, None
        self._totals.end(self.number)
        self._lending, self._lent = None, []
        for waiting in self._asked.values():
            while waiting:
                waiting.pop().set_result("ended meanwhile")

    def _renew_sockets(self) -> None:
        """Replace the sockets by bound ones that do not listen: the worker may not come, none may wait for it."""
        listened = self.sockets
        try:
            self.sockets = bind_beside(listened)
        except OSError as error:
            log.error("the socket of a worker cannot be replaced", worker=self.number, reason=str(error))
            return
        for one in listened:
            one.close()
        log.error("a worker fails again and again: its socket is closed until it serves", worker=self.number)
