"""Refuse calls at once while the service does not answer, except one a second (a circuit breaker).

It opens where, within ten seconds and without a success:

- ten exchanges got no connection, or twenty of at least two tools timed out: for all tools
- twenty exchanges of one tool timed out: for this tool

Any answer of the service is a success, also an error. The first success closes the breaker.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final

import structlog
from cachetools import LRUCache

from gateway.outbound import ConnectFailed, DeadlinePassed, NoConnection, OutboundError

WINDOW: Final = 10.0
"""Seconds in which failures are counted together."""
UNCONNECTED: Final = 10
TIMED_OUT: Final = 20
INTERVAL: Final = 1.0
"""Seconds between two calls that pass an open breaker."""
_MOST_TOOLS: Final = 10_000

log = structlog.get_logger()


class CircuitOpen(OutboundError):
    """Raised where a call was not sent because the service does not answer."""

    sent = False


class _Circuit:
    """Hold the failures since the last success, each with its tool. ``most`` of at least ``tools`` tools open it."""

    def __init__(self, most: int, tools: int = 1) -> None:
        self.is_open = False
        self._most = most
        self._tools = tools
        self._failures: deque[tuple[float, Hashable]] = deque()
        self._next = 0.0

    def fail(self, now: float, tool: Hashable = None) -> bool:
        """Count a failure. Return whether it opens the circuit."""
        self._failures.append((now, tool))
        while now - self._failures[0][0] > WINDOW:
            self._failures.popleft()
        if self.is_open or len(self._failures) < self._most or len({tool for _, tool in self._failures}) < self._tools:
            return False
        self.is_open, self._next = True, now + INTERVAL
        return True

    def admits(self, now: float) -> bool:
        return not self.is_open or now >= self._next

    def enter(self, now: float) -> None:
        self._next = now + INTERVAL


class Breaker:
    """Hold the circuits of one service and of its tools. ``clock`` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._connect_circuit = _Circuit(UNCONNECTED)
        self._timeout_circuit = _Circuit(TIMED_OUT, tools=2)
        self._failing = False
        self.is_calm = True
        """True while no failure is counted. Then nothing has to be asked or told, but :meth:`fail`."""
        self._tools: LRUCache[Hashable, _Circuit] = LRUCache(_MOST_TOOLS)

    def __repr__(self) -> str:
        tools = sum(circuit.is_open for circuit in self._tools.values())
        return f"<Breaker: {'open' if self.is_open else 'closed'}, {tools} tools open>"

    @property
    def is_open(self) -> bool:
        """Return whether calls of all tools are refused."""
        return self._connect_circuit.is_open or self._timeout_circuit.is_open

    def enter(self, tool: Hashable) -> bool:
        """Let one exchange pass. Return whether it passes an open circuit. Raise :class:`CircuitOpen`."""
        if self.is_calm:
            return False
        now = self._clock()
        circuits = self._of(tool)
        if not all(circuit.admits(now) for circuit in circuits):
            raise CircuitOpen("it does not answer, and is asked once a second")
        for circuit in circuits:
            circuit.enter(now)
        return any(circuit.is_open for circuit in circuits)

    def fail(self, tool: Hashable, error: OutboundError) -> None:
        """Count an exchange without an answer. One that the service broke off is neither a failure nor a success."""
        now = self._clock()
        if isinstance(error, ConnectFailed | NoConnection):
            self._failing, self.is_calm = True, False
            if self._connect_circuit.fail(now):
                log.error("the backend takes no connections; calls are refused but for one a second", reason=str(error))
        elif isinstance(error, DeadlinePassed):
            self._failing, self.is_calm = True, False
            if self._timeout_circuit.fail(now, tool):
                log.error("the backend does not answer; calls are refused but for one a second")
            circuit = self._tools.get(tool)
            if circuit is None:
                circuit = self._tools[tool] = _Circuit(TIMED_OUT)
            if circuit.fail(now):
                log.error("a method does not answer; calls of it are refused but for one a second", method=str(tool))

    def succeed(self, tool: Hashable = None) -> None:
        """Count an answer. Without a ``tool`` it answers a listing."""
        if self.is_calm:
            return
        if self._tools.pop(tool, _NONE).is_open:
            log.info("a method answers again", method=str(tool))
        if self._failing:
            was_open = self.is_open
            self._failing = False
            self._connect_circuit, self._timeout_circuit = _Circuit(UNCONNECTED), _Circuit(TIMED_OUT, tools=2)
            if was_open:
                log.info("the backend answers again")
        self.is_calm = not self._tools

    def _of(self, tool: Hashable) -> tuple[_Circuit, ...]:
        return self._connect_circuit, self._timeout_circuit, self._tools.get(tool, _NONE)


_NONE: Final = _Circuit(1)
