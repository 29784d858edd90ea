"""Share the turns of the event loop: let one step of all long work run in each (decision 21), run at the end of one
what is cheaper together (decision 44), have one timer for many deadlines, and measure how long the loop is held."""

import asyncio
import math
import os
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Final, ParamSpec, Self, TypeVar
from weakref import WeakKeyDictionary

SLICE: Final = 0.002
"""Seconds of work after which other tasks get a turn."""
_MAX_QUEUED: Final = 8
"""Functions that run one after the other at most. More would gain nothing, and the first would wait longer."""
_THREAD: Final = [ThreadPoolExecutor(1, "long work")]
"""The one executor. A process that is forked gets one of its own: the thread is not there."""
_Parameters = ParamSpec("_Parameters")
_Returned = TypeVar("_Returned")


def _renew() -> None:
    _THREAD[0] = ThreadPoolExecutor(1, "long work")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


class OneEachTurn:
    """Let one of those that wait go on in each turn of the event loop, first in, first out: however many there are, the
    loop is held no longer than by one of them. Each event loop has its own, see :meth:`of`."""

    def __init__(self) -> None:  # without its loop, which would live as long as the dictionary of :meth:`of`
        self._waiting: deque[Callable[[], Any]] = deque()
        self._is_taken = False

    @classmethod
    def of(cls, queues: WeakKeyDictionary[asyncio.AbstractEventLoop, Self]) -> Self:
        """Return the one of the running event loop among these, made when it is first needed."""
        loop = asyncio.get_running_loop()
        queue = queues.get(loop)
        if queue is None:
            queue = queues[loop] = cls()
        return queue

    def take(self) -> bool:
        """Return whether nobody else goes on in this turn. If so, nobody else will."""
        if self._is_taken:
            return False
        self._is_taken = True
        asyncio.get_running_loop().call_soon(self._next)
        return True

    def add(self, go_on: Callable[[], Any]) -> None:
        """Call a function in a later turn, when all that came before it were called."""
        self._waiting.append(go_on)
        self.take()

    async def wait(self) -> None:
        """Return in a later turn, when it is that of the caller."""
        turn = asyncio.get_running_loop().create_future()
        self.add(partial(_end, turn))
        await turn

    def _next(self) -> None:
        self._is_taken = bool(self._waiting)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
            self._waiting.popleft()()


def _end(turn: asyncio.Future[None]) -> None:
    if not turn.done():  # the task that waited was cancelled
        turn.set_result(None)


_LISTINGS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, OneEachTurn]] = WeakKeyDictionary()
_CALLERS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, OneEachTurn]] = WeakKeyDictionary()


class Turns:
    """Count the time of one long piece of work. Made at once for work that a caller waits for and that is mostly short:
    such work has turns of its own, which those who list do not take. :meth:`begin` is for all other."""

    def __init__(self) -> None:
        self._queues = _CALLERS
        self._began = time.monotonic()

    @classmethod
    async def begin(cls) -> Self:
        """Wait for the first turn, unless no other long work begins in this one."""
        queue = OneEachTurn.of(_LISTINGS)
        if not queue.take():
            await queue.wait()
        turns = cls()
        turns._queues = _LISTINGS
        return turns

    async def give(self) -> None:
        """Give other tasks a turn, if this one has worked for its slice, and wait for the next of its own."""
        if time.monotonic() - self._began > SLICE:
            await OneEachTurn.of(self._queues).wait()
            self._began = time.monotonic()


async def run_in_thread(
    function: Callable[_Parameters, _Returned], *args: _Parameters.args, **kwargs: _Parameters.kwargs
) -> _Returned:
    """Run long work in a thread, when all that came before it is done, and return its value in a turn of the caller's
    own: what follows is long, too. Threads share the interpreter: the event loop waits for each that computes, so
    there is one. What may hang does not belong here."""
    work = partial(copy_context().run, partial(function, *args, **kwargs))
    value = await asyncio.get_running_loop().run_in_executor(_THREAD[0], work)
    await Turns.begin()
    return value


class EndOfTurnQueue:
    """Run queued functions at the end of this event-loop iteration, or as soon as :data:`_MAX_QUEUED` are queued."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def add(self, function: Callable[..., None], *arguments: Any) -> None:
        queue = self._queue
        if not queue:
            self._loop.call_soon(self._run, queue)
        queue.append((function, arguments))
        if len(queue) >= _MAX_QUEUED:
            self._run(queue)

    def _run(self, queue: list[tuple[Callable[..., None], tuple[Any, ...]]]) -> None:
        if queue is self._queue:
            self._queue = []
        for function, arguments in queue:
            try:
                function(*arguments)
            except Exception as error:  # noqa: BLE001, the others must run
                self._loop.call_exception_handler({"message": "a queued function failed", "exception": error})
        queue.clear()


class Deadline:
    """Call ``on_expiry`` when the loop's clock reaches :attr:`due`, which may be set to None at any time. A timer for
    an earlier time keeps running, and looks at ``due`` when it ends: so most requests need no timer of their own."""

    __slots__ = ("_context", "_loop", "_on_expiry", "_timer", "_timer_at", "due")

    def __init__(self, on_expiry: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = Context()  # not that of the request that starts the timer, which would live as long
        self._on_expiry = on_expiry
        self._timer: asyncio.Handle | None = None
        self._timer_at = math.inf
        self.due: float | None = None

    def expire_in(self, seconds: float) -> None:
        due = self.due = self._loop.time() + seconds
        if self._timer_at > due:
            self._start_timer(due)

    def close(self) -> None:
        """Stop the timer, and drop the reference to the owner, so that reference counts alone free it."""
        self.due = None
        self._timer_at = -math.inf
        self._on_expiry = lambda: None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start_timer(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = self._loop.call_at(due, self._look, context=self._context)

    def _look(self) -> None:
        self._timer_at = math.inf
        if self.due is None:
            return
        if self.due > self._loop.time():
            self._start_timer(self.due)
        else:
            # Later: after a pause of the whole process, what came is read in the turn that this timer is due in.
            self._timer = self._loop.call_soon(self._expire, self.due)

    def _expire(self, due: float) -> None:
        if self.due == due:
            self._on_expiry()
        elif self.due is not None and self._timer_at > self.due:
            self._start_timer(self.due)


async def run_in_turns(steps: Generator[None, None, Any], turns: Turns | None = None) -> Any:
    """Return the value of the generator. Other tasks may get a turn where it yields, and before, without ``turns``."""
    turns = turns or await Turns.begin()
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value
        await turns.give()


def run_at_once(steps: Generator[None, None, Any]) -> Any:
    """Return the value of the generator, which gives no other task a turn."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value


_LOOK: Final = 0.25  # seconds from one timer to the next
_LOOKS: Final = 30  # timers of each of the two windows whose maximum is kept


class LoopLag:
    """Hold the longest delay of a timer in the last 7.5 to 15 seconds, once it is started. It ends with the loop."""

    def __init__(self) -> None:
        self._before = self._now = self._due = 0.0
        self._looks = 0

    @property
    def seconds(self) -> float:
        return max(self._before, self._now)

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._due = loop.time() + _LOOK
        self._timer = loop.call_at(self._due, self._look, loop)

    def stop(self) -> None:
        if self._due:
            self._timer.cancel()

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        self._now = max(self._now, now - self._due)
        self._looks += 1
        if not self._looks % _LOOKS:
            self._before, self._now = self._now, 0.0
        self._due = now + _LOOK
        self._timer = loop.call_at(self._due, self._look, loop)
