"""Decide when a credential that the service refused is sent again: many services lock a user out after a few refusals.

It is tried at once, after 15 minutes, after 2 hours, and then every 6 hours: at most three times in 6 hours, by all
replicas together. The store counts: markers say that the next try has to wait, and how many there were. While nobody
knows whether a credential is accepted, one process at a time tries it, and the others learn what came of it.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import structlog

from gateway.errors import StoreUnavailable
from gateway.store import Store
from gateway.units import format_duration

DELAYS: Final = (900.0, 6300.0, 21600.0)
"""Seconds from one refusal to the next try: after the first, the second, and each further one."""
_REMEMBERED: Final = 2 * DELAYS[-1] + DELAYS[0]
"""Seconds for which refusals count, longer than any wait."""
DOUBT: Final = 15.0
"""Seconds for which no further question follows a call whose credential was refused."""
_FORCED: Final = 5.0
"""Seconds in which the workers of one gateway force one try together."""
_TURN: Final = 60.0
"""Seconds after which the turn of a process ends that died in it."""
_PAUSE: Final = 0.5
_LOOK_AGAIN: Final = 60.0
"""Seconds after which a process looks again that does not know when the next try is."""
_REFUSED: Final = b"refused"
_ACCEPTED: Final = b"accepted"

log = structlog.get_logger()


class RefusedBefore(Exception):
    """Raised where a credential was refused, and it is not time for the next try."""

    def __init__(self, wait: float) -> None:
        self.wait = wait
        minutes = 60 * max(1, math.ceil(wait / 60))
        super().__init__(f"refused before; it is sent again within {format_duration(minutes)}")


class CredentialTries:
    """Count the refusals of one credential at one service. ``key`` tells it from others, and changes with it.

    ``stops_calls`` says that the JSON-RPC endpoint itself refused it, so that no call is sent. ``is_calm`` says that
    no call has to ask. ``clock`` is monotonic seconds, and ``pause`` waits for another process.
    """

    def __init__(
        self,
        store: Store,
        key: str,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._clock = clock
        self._pause = pause
        self._topic, self._turn = f"credential:{key}", f"credential turn:{key}"
        self._wait, self._stop = f"credential wait:{key}", f"credential stop:{key}"
        self._asked, self._told = f"credential asked:{key}", f"credential told:{key}"
        self._counted = tuple(f"credential refusal {number}:{key}" for number in range(len(DELAYS) - 1))
        self.is_calm = self.stops_calls = False
        self._accepted = self._forced = False
        self._next = clock()
        self._end = store.subscribe(self._topic, self._hear)

    def __repr__(self) -> str:
        state = "accepted" if self._accepted else "refused" if self.stops_calls else "not known"
        return f"<CredentialTries {state}>"

    def close(self) -> None:
        self._end()

    @property
    def wait(self) -> float:
        """Return the seconds until the next try, as far as this process knows."""
        return max(0.0, self._next - self._clock())

    def force(self) -> None:
        """Have the credential tried at once: the operator may have mended the account."""
        self._forced = True

    @asynccontextmanager
    async def turn(self, *, always: bool = False) -> AsyncIterator[None]:
        """Hold the turn for a try, ``always`` also where the credential is known to be accepted. Raises
        :class:`RefusedBefore`."""
        if self._accepted and not always:
            yield
            return
        token = await self._take_turn(always=always)
        try:
            if token and await self._has_to_wait():
                raise RefusedBefore(self.wait)
            yield
        finally:
            if token:
                await self._store.release(self._turn, token)

    async def _take_turn(self, *, always: bool) -> str:
        """Wait for the turn, and return its token, "" where another process was accepted meanwhile."""
        while always or not self._accepted:
            if token := await self._store.acquire(self._turn, _TURN):
                return token
            await self._pause(_PAUSE)
        return ""

    async def _has_to_wait(self) -> bool:
        forced, self._forced = self._forced, False
        if forced and await self._first(self._told, _FORCED):
            await self._store.mark(self._wait, 0)
        if not await self._store.has(self._wait):
            return False
        await self._look()
        return True

    async def _first(self, key: str, ttl: float) -> bool:
        try:
            return await self._store.add(key, ttl)
        except StoreUnavailable:
            return False

    async def refuse(self, *, stops_calls: bool) -> None:
        """Note that the service refused the credential."""
        if await self._store.has(self._wait):
            await self._look()  # another process noted it
            return
        counted = [key for key in self._counted if await self._store.has(key)]
        delay = DELAYS[len(counted)]
        for key in self._counted[: len(counted) + 1]:
            await self._store.mark(key, _REMEMBERED)
        await self._store.mark(self._wait, delay)
        if stops_calls:
            await self._store.mark(self._stop, _REMEMBERED)
        self._note_refusal(stops_calls=stops_calls, wait=delay)
        log.error("the service refuses the credential", sent_again_after=format_duration(delay))
        await self._store.publish(self._topic, b"%s %d %.3f" % (_REFUSED, stops_calls, delay))

    async def accept(self) -> None:
        """Note that the service accepted the credential."""
        if self._accepted:
            return
        for key in (self._wait, self._stop, *self._counted):
            if await self._store.has(key):
                await self._store.mark(key, 0)
        was_refused = self.stops_calls
        self._note_acceptance()
        await self._store.publish(self._topic, _ACCEPTED)
        if was_refused:
            log.info("the service accepts the credential again")

    async def admit(self, ask: Callable[[], Awaitable[bool | None]]) -> bool:
        """Return whether a call may be sent. Where it is time for the next try, ``ask`` first. It returns whether the
        credential was refused, None where nobody answered."""
        if self._clock() >= self._next or self._forced:
            await self._look()
            if self.stops_calls:
                await self._ask(ask)
        return not self.stops_calls

    async def doubt(self, ask: Callable[[], Awaitable[bool | None]]) -> None:
        """Ask once whether the credential is refused, as a call was that carried it."""
        if self.stops_calls or await self._store.has(self._stop):
            await self._look()
            return
        self._accepted = False  # so that one process asks, and no listing meanwhile
        await self._ask(ask)

    async def _ask(self, ask: Callable[[], Awaitable[bool | None]]) -> None:
        if not self._forced and not await self._first(self._asked, DOUBT):
            return
        try:
            async with self.turn():
                refused = await ask()
                if refused:
                    await self.refuse(stops_calls=True)
                elif refused is False:
                    await self.accept()
        except RefusedBefore:
            return

    async def _look(self) -> None:
        """Read from the store what other processes found out."""
        stops_calls, waits = await self._store.has(self._stop), await self._store.has(self._wait)
        if not (stops_calls or waits):
            self.is_calm, self.stops_calls = True, False
        elif not waits:
            self._note_refusal(stops_calls=stops_calls, wait=0)
        elif not (self.wait and stops_calls == self.stops_calls):
            self._note_refusal(stops_calls=stops_calls, wait=_LOOK_AGAIN)

    def _hear(self, notice: bytes) -> None:
        """Note what a process found out, this one or another."""
        word, _, rest = notice.partition(b" ")
        if word == _ACCEPTED:
            self._note_acceptance()
        elif word == _REFUSED:
            stops_calls, _, wait = rest.partition(b" ")
            self._note_refusal(stops_calls=stops_calls == b"1", wait=float(wait))

    def _note_refusal(self, *, stops_calls: bool, wait: float) -> None:
        self._accepted = False
        self.stops_calls, self.is_calm = stops_calls, not stops_calls
        self._next = self._clock() + wait

    def _note_acceptance(self) -> None:
        self._accepted = self.is_calm = True
        self.stops_calls = False
        self._next = self._clock()
