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
_CALLS, _AGAIN = 1, 2
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
        self._counts: deque[list[float]] = deque(([-math.inf, 0, 0],), maxlen=round(WINDOW / _SLOT))
        """Seconds with a call: when each began, calls, calls sent again."""

    def count(self, now: float, part: int = _CALLS) -> None:
        """Count a call, or one that is sent again."""
        if now - self._counts[-1][0] >= _SLOT:
            self._counts.append([now, 0, 0])
        self._counts[-1][part] += 1

    def spend(self) -> bool:
        """Take one resend. Return False where none is left."""
        now = self._clock()
        recent = [count for count in self._counts if now - count[0] < WINDOW]
        calls, again = sum(count[_CALLS] for count in recent), sum(count[_AGAIN] for count in recent)
        if again + 1 > max(LEAST, SHARE * calls):
            return False
        self.count(now, _AGAIN)
        return True


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
            self.budget.count(now)
            return self.timeout
        passed = now - self._started_at
        return self.timeout if passed < _AT_ONCE else self.timeout - passed

    @property
    def may_have_run(self) -> bool:
        """Return whether an exchange before the present one may have run the call."""
        return not MARKED_ONLY.isdisjoint(self._sent_again_for)

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
