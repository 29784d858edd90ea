"""Cursors of ``tools/list``: the last name of the page before, signed.

A cursor is good in the current catalog and on any replica. Like a session it belongs to one caller. It expires after
ten minutes and spends from a budget of that caller, which bounds how often it can be replayed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from gateway.errors import InvalidCursor
from gateway.limits import Budget
from gateway.model import Caller
from gateway.signing import Signer, SigningKeys

TTL: Final = 600.0
"""Seconds for which a cursor is good."""


class Cursors:
    """Issue and follow cursors. ``keys`` are the resource's; :meth:`follow` spends from ``budget``; ``clock`` gives
    wall-clock seconds, since replicas compare them."""

    def __init__(self, keys: SigningKeys, budget: Budget, clock: Callable[[], float] = time.time) -> None:
        self._signer = Signer(keys, "cursor", TTL, clock)
        self._budget = budget

    def issue(self, last: str, caller: Caller) -> str:
        """Return the cursor of the page that begins after the name ``last``."""
        return self._signer.sign(last, *caller.identity)

    async def follow(self, cursor: object, caller: Caller) -> str:
        """Return the name after which the page begins. Raise :class:`InvalidCursor` (server/utilities/pagination,
        "Error Handling") and :class:`~gateway.errors.RateLimited`."""
        last = self._signer.verify(cursor, *caller.identity) if isinstance(cursor, str) else None
        if last is None:  # checked before the budget: a forged cursor costs the caller nothing
            raise InvalidCursor(
                f"Invalid cursor: not issued here to this caller within the last {TTL / 60:.0f} minutes; "
                "list again from the start"
            )
        await self._budget.spend(caller)
        return last
