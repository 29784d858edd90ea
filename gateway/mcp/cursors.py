"""Where the next page of a listing begins: the last name of the page before, signed.

A cursor goes on in the catalog of the moment, on any replica. It belongs to whoever it was given to, as a session does,
and lives ten minutes: what one caller may replay is bounded, and by that caller's own budget.
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
    """``keys`` are the resource's, ``budget`` what following spends; ``clock`` is wall-clock seconds, since
    replicas share it."""

    def __init__(self, keys: SigningKeys, budget: Budget, clock: Callable[[], float] = time.time) -> None:
        self._signer = Signer(keys, "cursor", TTL, clock)
        self._budget = budget

    def issue(self, last: str, caller: Caller) -> str:
        """The cursor of the page behind the name ``last``."""
        return self._signer.sign(last, *caller.identity)

    async def follow(self, cursor: object, caller: Caller) -> str:
        """The name behind which the page begins. Raises :class:`InvalidCursor` (server/utilities/pagination, "Error
        Handling") and :class:`~gateway.errors.RateLimited`."""
        last = self._signer.verify(cursor, *caller.identity) if isinstance(cursor, str) else None
        if last is None:
            raise InvalidCursor(
                f"Invalid cursor: not issued here to this caller within the last {TTL / 60:.0f} minutes; "
                "list again from the start"
            )
        await self._budget.spend(caller)
        return last
