"""Admit exchanges to the service: each passes the breaker, waits for its turn, and reports its end to the breaker."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from cachetools import LRUCache

from gateway.backend.breaker import INTERVAL, Breaker
from gateway.backend.queue import LISTING, FairQueue, NoTurn
from gateway.backend.resending import Attempts, ResendBudget
from gateway.backend.transport import Outgoing, Reply, Transport
from gateway.http_client.response import DeadlinePassed, OutboundError, UnusableAnswer
from gateway.telemetry.record import CANCELLED, RECORD

_FAIR_SHARE: Final = 0.5
"""Part of the call's time that an exchange must have had, for its time-out to be the fault of the service and not of
the queue."""

SHORT: Final = 2.0
"""Seconds for a question of a listing that timed out last time, while others wait."""
_AGAIN_TIMEOUT: Final = 8.0
"""Seconds for a question that is asked again beside an earlier one, which bounds how many are under way at a time."""
_LEAST_TIMEOUT: Final = 0.001
_MOST_LATE: Final = 10_000
_record: Final = RECORD.get


class BackendGate:
    """Hold the queue, the breaker and the budget of resends of one backend with so many ``connections``. Successive
    services share it: a reload neither frees a slot nor closes a breaker. ``clock`` is monotonic seconds."""

    def __init__(self, connections: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.queue = FairQueue(connections, clock)
        self.breaker = Breaker(self.queue.answered_at, clock)
        self.resends = ResendBudget(clock)
        self.late: LRUCache[str, None] = LRUCache(_MOST_LATE)
        """Callers whose listing timed out last time."""


class CallAdmission:
    """Send the calls of one service. ``queue_timeout`` is the longest wait for a turn, in seconds."""

    def __init__(self, transport: Transport, gate: BackendGate, queue_timeout: float) -> None:
        self._transport = transport
        self._queue = gate.queue
        self._breaker = gate.breaker
        self._queue_timeout = queue_timeout

    async def send(self, outgoing: Outgoing, attempts: Attempts, *, max_bytes: int) -> Reply:
        """Make one exchange of a call. Raise :class:`OutboundError`; before anything is sent, that is
        :class:`~gateway.backend.breaker.CircuitOpen`, :class:`~gateway.backend.queue.NoTurn` or
        :class:`~gateway.backend.queue.QueueFull`."""
        # The one call a second that passes an open breaker is chosen before the queue, so that no other waits there.
        caller, tool = attempts.caller, attempts.tool
        was_open = not self._breaker.is_calm and self._breaker.enter(caller, tool)
        timeout = attempts.seconds_left()
        slot = self._queue.take_at_once(caller, tool)
        waited = slot is None
        if slot is None:
            began = time.perf_counter()
            try:
                slot = await self._queue.take(caller, tool, min(self._queue_timeout, max(0.0, timeout)))
            finally:
                _record().note_wait(time.perf_counter() - began)
        answered = False
        try:
            if waited:
                if not was_open:
                    self._breaker.enter(caller, tool)  # again: it may have opened meanwhile
                timeout = attempts.seconds_left()
            if timeout <= 0:
                raise NoTurn("its time was over before its turn")
            sent_at, failure = time.perf_counter(), CANCELLED
            try:
                reply = await self._transport.send(outgoing, timeout=timeout, max_bytes=max_bytes)
                failure = ""
            except OutboundError as error:
                failure, answered = "", isinstance(error, UnusableAnswer)
                if answered:
                    self._breaker.succeed(tool)
                elif timeout >= _FAIR_SHARE * attempts.timeout:
                    self._breaker.fail(caller, tool, error, time.perf_counter() - sent_at)
                raise
            finally:
                record = _record()
                if record.sent_at:
                    record.keep_exchange()
                record.sent_at = sent_at
                if failure:
                    record.note_failure(failure)
                record.service_time += time.perf_counter() - sent_at
            answered = True
            if not self._breaker.is_calm:
                self._breaker.succeed(tool)
            return reply
        finally:
            self._queue.free(slot, answered=answered)


class ListingAdmission:
    """Send the questions of one caller's listings, each in its turn. An open breaker does not hold them back: it must
    not hide a listing."""

    def __init__(self, transport: Transport, gate: BackendGate, caller: str) -> None:
        self.has_documents = transport.has_documents
        self._transport = transport
        self._queue = gate.queue
        self._breaker = gate.breaker
        self._late = gate.late
        self._caller = caller

    async def ends_after_one(self, patience: float) -> bool:
        return await self._transport.ends_after_one(patience)

    async def send(self, outgoing: Outgoing, *, timeout: float, max_bytes: int) -> Reply:
        """Ask one question, within ``timeout`` seconds including the wait for a turn. Raise :class:`OutboundError`."""
        caller, deadline = self._caller, time.monotonic() + timeout
        patience = min(timeout, SHORT) if caller in self._late and self._queue.listing_waits else timeout
        slot = await self._queue.take(caller, LISTING, timeout)
        answered = False
        try:
            left = min(patience, max(_LEAST_TIMEOUT, deadline - time.monotonic()))
            reply = await self._ask(outgoing, left, max_bytes)
        except OutboundError as error:
            if isinstance(error, UnusableAnswer):
                answered = True
                self._breaker.succeed()
            elif isinstance(error, DeadlinePassed):
                self._late[caller] = None
            else:
                self._breaker.fail(caller, LISTING, error)
            raise
        else:
            answered = True
            self._late.pop(caller, None)
            self._breaker.succeed()
            return reply
        finally:
            self._queue.free(slot, answered=answered)

    async def _ask(self, outgoing: Outgoing, timeout: float, max_bytes: int) -> Reply:
        """Ask once; while the breaker is open, ask again where nothing has ended for a second. The connection of an
        earlier question may be dead although the service is back. The first answer counts. Without one, the end of the
        first question counts."""
        send = partial(self._transport.send, outgoing, max_bytes=max_bytes)
        if not self._breaker.is_open:
            return await send(timeout=timeout)
        deadline = time.monotonic() + timeout
        first = asyncio.create_task(send(timeout=timeout))
        attempts = {first}
        try:
            while not first.done():
                ended, _ = await asyncio.wait(attempts, timeout=INTERVAL, return_when=asyncio.FIRST_COMPLETED)
                for attempt in ended - {first}:
                    if attempt.exception() is None:
                        return attempt.result()
                attempts -= ended
                if not ended:
                    left = max(_LEAST_TIMEOUT, deadline - time.monotonic())
                    attempts.add(asyncio.create_task(send(timeout=min(left, _AGAIN_TIMEOUT))))
            return first.result()
        finally:
            for attempt in attempts:
                attempt.cancel()
            await asyncio.gather(*attempts, return_exceptions=True)
