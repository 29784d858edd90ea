"""Refuse calls at once while the service does not answer, except one a second (a circuit breaker).

It opens where, within ten seconds and the time of the last exchange, and without an answer:

- ten exchanges got no connection: for all calls
- twenty exchanges of at least two tools timed out: for all calls
- twenty exchanges of one tool timed out: for the calls of this tool

Time-outs of one caller alone open it for this caller alone: perhaps only its arguments hang. A time-out does not count
if the service, or this tool, has answered anybody since the exchange was sent. Any answer closes the breaker, also an
error.

While time-outs keep it open, the call that passes should be one that has a chance: of a caller and a tool without a
time-out since the last answer. Where none of these comes for two seconds, any call may pass.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final

import structlog
from cachetools import LRUCache

from gateway.concurrency.background import Problem
from gateway.http_client.response import ConnectFailed, DeadlinePassed, NoConnection, OutboundError

WINDOW: Final = 10.0
"""Seconds in which failures are counted together, beside the time of the last one: a caller whose share are 16
exchanges has not 20 that time out together."""
UNCONNECTED: Final = 10
TIMED_OUT: Final = 20
INTERVAL: Final = 1.0
"""Seconds between two calls that pass an open breaker."""
PREFERENCE: Final = 2.0
"""Seconds without a call that has a chance, after which any call may pass. They begin with the first failure that
counts: a tool that hung for all callers is to be found again within two seconds of its return."""
_MOST_TOOLS: Final = 10_000
_MOST_LATE: Final = 10_000
_REFUSED: Final = ", and are refused but for one a second"
EVERYONE: Final = object()
"""Mark in place of a caller."""

log = structlog.get_logger()


class CircuitOpen(OutboundError):
    """Raised where a call was not sent because the last ones had no answer. The caller may read the message."""

    sent = False


class _Circuit:
    """Hold the failures since the last answer. ``most`` of them, of at least ``tools`` tools, open the circuit: for
    their caller, or for everyone if they have several. ``of`` says which calls it is about, in words for callers."""

    def __init__(self, most: int, tools: int = 1, of: str = "") -> None:
        self.open_for: Hashable = None
        self._of = of
        self._most = most
        self._tools = tools
        self._failures: deque[tuple[float, Hashable, Hashable]] = deque()
        self._next = self._next_of_any = 0.0

    def fail(self, now: float, lasted: float, caller: Hashable, tool: Hashable = None) -> bool:
        """Count a failure. Return whether it opens the circuit, or opens it for everyone."""
        self._failures.append((now, caller, tool))
        while now - self._failures[0][0] > WINDOW + lasted:
            self._failures.popleft()
        if self.open_for is EVERYONE or len(self._failures) < self._most:
            return False
        callers, tools = ({failure[part] for failure in self._failures} for part in (1, 2))
        if len(tools) < self._tools or callers == {self.open_for}:
            return False
        self.open_for = EVERYONE if self.open_for is not None or len(callers) > 1 else caller
        self._next = now + INTERVAL
        self._next_of_any = max(self._next, self._failures[0][0] + PREFERENCE)
        return True

    def is_open_for(self, caller: Hashable) -> bool:
        return self.open_for is EVERYONE or (self.open_for is not None and self.open_for == caller)

    def check(self, now: float, *, has_chance: bool) -> None:
        """Raise :class:`CircuitOpen` unless a call may pass now."""
        if has_chance:
            self._next_of_any = now + PREFERENCE
        if now >= self._next and (has_chance or now >= self._next_of_any):
            return
        if self.open_for is EVERYONE:
            raise CircuitOpen(f"The backend does not answer{self._of and f' calls{self._of}'} at the moment")
        raise CircuitOpen(f"The backend answered none of your last calls{self._of} in time")

    def enter(self, now: float) -> None:
        self._next = now + INTERVAL


class Breaker:
    """Hold the circuits of one service and of its tools. ``answered_at`` returns when a tool last answered, and without
    a tool when the service did. It and ``clock`` are monotonic seconds."""

    def __init__(self, answered_at: Callable[[Hashable], float], clock: Callable[[], float] = time.monotonic) -> None:
        self._answered_at = answered_at
        self._clock = clock
        self._connect_circuit, self._timeout_circuit = _of_service()
        self.problem, self.problem_of_tool = Problem(), Problem()
        """Why calls, or those of one tool, have had no answer since the last one that had."""
        self.openings = 0
        """How often a circuit opened."""
        self.is_calm = True
        """True while no failure is counted. Then nothing has to be asked or told, but :meth:`fail`."""
        self._tools: LRUCache[Hashable, _Circuit] = LRUCache(_MOST_TOOLS)
        self._late_callers: LRUCache[Hashable, float] = LRUCache(_MOST_LATE)
        self._late_tools: LRUCache[Hashable, float] = LRUCache(_MOST_TOOLS)
        """When an exchange of each last timed out."""

    def __repr__(self) -> str:
        tools = sum(circuit.open_for is not None for circuit in self._tools.values())
        return f"<Breaker: {'open' if self.is_open else 'closed'}, {tools} tools open>"

    @property
    def open_circuits(self) -> int:
        """Return how many circuits are open, for everyone or for one caller."""
        circuits = (self._connect_circuit, self._timeout_circuit, *self._tools.values())
        return sum(circuit.open_for is not None for circuit in circuits)

    @property
    def is_open(self) -> bool:
        """Return whether calls of all tools are refused to everyone."""
        return EVERYONE in (self._connect_circuit.open_for, self._timeout_circuit.open_for)

    def enter(self, caller: Hashable, tool: Hashable) -> bool:
        """Let one exchange pass. Return whether it passes an open circuit. Raise :class:`CircuitOpen`."""
        if self.is_calm:
            return False
        now = self._clock()
        scopes = (self._connect_circuit, None), (self._timeout_circuit, None), (self._tools.get(tool, _NONE), tool)
        passed = [(circuit, scope) for circuit, scope in scopes if circuit.is_open_for(caller)]
        for circuit, scope in passed:
            circuit.check(now, has_chance=self._has_chance(caller, tool, scope))
        for circuit, _ in passed:
            circuit.enter(now)
        return bool(passed)

    def _has_chance(self, caller: Hashable, tool: Hashable, scope: Hashable) -> bool:
        """Return whether no exchange of caller or tool has timed out since the last answer. ``scope`` is None for
        an answer of the service, or the tool."""
        answered_at = self._answered_at(scope)
        late_tool = -math.inf if tool == scope else self._late_tools.get(tool, -math.inf)
        return max(late_tool, self._late_callers.get(caller, -math.inf)) <= answered_at

    def fail(self, caller: Hashable, tool: Hashable, error: OutboundError, lasted: float = 0.0) -> None:
        """Count an exchange without an answer, which ``lasted`` so many seconds. One that the service broke off is
        neither a failure nor a success."""
        now = self._clock()
        if isinstance(error, ConnectFailed | NoConnection):
            if self._connect_circuit.fail(now, 0.0, EVERYONE):
                self.openings += 1
                log.error("the backend takes no connections; calls are refused but for one a second", reason=str(error))
            self._note(error)
        elif isinstance(error, DeadlinePassed):
            self._late_callers[caller] = self._late_tools[tool] = now
            if self._answered_at(None) <= now - lasted:
                if self._timeout_circuit.fail(now, lasted, caller, tool):
                    self.openings += 1
                    _log_opening("the backend does not answer", self._timeout_circuit)
                self._note(error)
            if self._answered_at(tool) <= now - lasted:
                self.is_calm = False
                circuit = self._tools.get(tool)
                if circuit is None:
                    circuit = self._tools[tool] = _Circuit(TIMED_OUT, of=" of this tool")
                if circuit.fail(now, lasted, caller):
                    self.openings += 1
                    _log_opening("a method does not answer", circuit, method=str(tool))
                if circuit.open_for is EVERYONE:
                    self.problem_of_tool.set(f"calls of the method {tool} have no answer in time{_REFUSED}")

    def _note(self, error: OutboundError) -> None:
        self.problem.set(f"calls have no answer{_REFUSED if self.is_open else ''}: {error}")
        self.is_calm = False

    def succeed(self, tool: Hashable = None) -> None:
        """Count an answer. Without a ``tool`` it answers a listing."""
        if self.is_calm:
            return
        if self._tools.pop(tool, _NONE).open_for is not None:
            log.info("a method answers again", method=str(tool))
            self.problem_of_tool.set("")
        if self.problem.cause:
            was_open = self.is_open
            self.problem.set("")
            self._connect_circuit, self._timeout_circuit = _of_service()
            if was_open:
                log.info("the backend answers again")
        self.is_calm = not self._tools


def _of_service() -> tuple[_Circuit, _Circuit]:
    """Return the circuits for exchanges without a connection, and for those that timed out."""
    return _Circuit(UNCONNECTED), _Circuit(TIMED_OUT, tools=2)


def _log_opening(what: str, circuit: _Circuit, **fields: str) -> None:
    whose = "calls are" if circuit.open_for is EVERYONE else "calls of one caller are"
    log.error(f"{what}; {whose} refused but for one a second", **fields)


_NONE: Final = _Circuit(1)
