"""Decide whether a call may be sent a second time. No other place decides it.

| end of the first exchange | sent again |
|---|---|
| no connection, so surely nothing was sent | once, from the budget |
| the service broke off, so the call may have run | once, from the budget, if the operator marked the tool |
| params refused, so the other structure may be right | once, if the operator marked the tool |
| the gateway's own credential refused (401, or what ``login.expired`` names) | once, with a new credential |
| no answer in time, no turn in time, any other answer | never |

A tool is marked by ``readOnlyHint`` or ``idempotentHint`` under ``catalog.tools``. Refused params do not prove that
nothing ran: Flask-JSONRPC answers -32602 for a TypeError that came after the side effect.
"""

import math
import time
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final

from msgspec import Struct

from gateway.telemetry.record import RECORD

WINDOW: Final = 10.0
"""Seconds over which calls are counted for the budget."""
SHARE: Final = 0.1
LEAST: Final = 10
"""Calls that may be sent again within :data:`WINDOW`, however few calls there are."""
_SLOT: Final = 1.0
_AT_ONCE: Final = 0.001
"""Seconds that count as none. A call that did not wait then has a round time-out, for which the transport has an object
already."""


class Reason(Enum):
    """Name why a call might be sent again."""

    UNSENT = "no connection"
    BROKEN_OFF = "broken off"
    PARAMS_REFUSED = "params refused"
    CREDENTIAL_REFUSED = "credential refused"


MARKED_ONLY: Final = frozenset((Reason.BROKEN_OFF, Reason.PARAMS_REFUSED))
BUDGETED: Final = frozenset((Reason.UNSENT, Reason.BROKEN_OFF))


class ResendBudget:
    """Allow a tenth of the calls of the last ten seconds to be sent again, but at least ten. So a service in trouble
    does not get many more calls. ``clock`` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._latest: list[float] = [-math.inf, 0, 0]
        """Counts of the last second with a call: when it began, calls, calls sent again."""
        self._counts: deque[list[float]] = deque(maxlen=round(WINDOW / _SLOT))

    def count_call(self, now: float) -> None:
        if now - self._latest[0] >= _SLOT:
            self._begin_count(now)
        self._latest[1] += 1

    def spend(self) -> bool:
        """Take one resend. Return False where none is left."""
        now = self._clock()
        if now - self._latest[0] >= _SLOT:
            self._begin_count(now)
        while now - self._counts[0][0] >= WINDOW:
            self._counts.popleft()
        calls, again = sum(count[1] for count in self._counts), sum(count[2] for count in self._counts)
        if again + 1 > max(LEAST, SHARE * calls):
            return False
        self._latest[2] += 1
        return True

    def _begin_count(self, now: float) -> None:
        self._latest = [now, 0, 0]
        self._counts.append(self._latest)


class Attempts(Struct, eq=False):
    """Hold what is known of one call while it is sent: its ``caller`` and ``tool``, and whether the operator marked the
    tool as ``repeatable``. ``timeout`` is the time in seconds from the first use of :meth:`seconds_left` to the last
    byte of the answer. ``clock`` is monotonic seconds."""

    caller: str
    tool: str
    timeout: float
    budget: ResendBudget
    repeatable: bool = False
    clock: Callable[[], float] = time.monotonic
    _started_at: float | None = None
    _sent_again_for: frozenset[Reason] = frozenset()

    def seconds_left(self) -> float:
        """Return the seconds until the deadline, negative after it."""
        now = self.clock()
        if self._started_at is None:
            self._started_at = now
            self.budget.count_call(now)
            return self.timeout
        passed = now - self._started_at
        return self.timeout if passed < _AT_ONCE else self.timeout - passed

    def may_repeat(self, reason: Reason) -> bool:
        """Decide whether the call is sent again. A caller that gets True must send it."""
        if (
            reason in self._sent_again_for
            or (reason in MARKED_ONLY and not self.repeatable)
            or self.seconds_left() <= 0
        ):
            return False
        if reason in BUDGETED and not self.budget.spend():
            return False
        self._sent_again_for |= {reason}
        RECORD.get().note_resend()
        return True
