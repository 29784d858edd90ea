"""Limit each caller: rates of listings and calls, which replicas share through the store, and numbers of open streams
and of calls under way."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf
from typing import Final

from msgspec import Struct

from gateway.errors import CallLimited, RateLimited
from gateway.model import Caller, Tool
from gateway.store import Permit, Store
from gateway.telemetry.record import RECORD
from gateway.units import PERIODS

MAX_HANDLES: Final = 4096
"""Most permits that one budget keeps; the store creates the others again."""
_LEAST_BURST: Final = 10
_BURST_SHARE: Final = 10
"""A burst is this part of a rate."""
_NEXT_TRY: Final = 1
"""Seconds after which to call again where too many calls are under way."""


class Budget:
    """Limit the rate of each caller to ``multiplier`` times ``rate``. ``60/minute`` allows 60 requests at once and then
    one each second. The store holds what was spent, so a reload with another rate does not reset it."""

    def __init__(self, store: Store, name: str, rate: str, multiplier: int = 1) -> None:
        self._store = store
        self._name = name
        count, _, self._period = rate.partition("/")
        self._burst = int(count) * multiplier
        self._permit = lru_cache(MAX_HANDLES)(self._new_permit)

    async def spend(self, caller: Caller) -> None:
        """Count one request of a caller. Raise :class:`RateLimited` with the seconds to wait."""
        permit = self._permit(caller.principal is not None, caller.key)
        if wait := await permit.take():
            RECORD.get().note_limit(self._name.replace(" ", "_"))
            raise RateLimited(
                f"Too many {self._name} requests, at most {self._burst} per {self._period}", retry_after=ceil(wait)
            )

    def _new_permit(self, by_token: bool, whose: str) -> Permit:
        return self._store.permit(_key(self._name, by_token, whose), self._burst / PERIODS[self._period], self._burst)


@dataclass(frozen=True, slots=True, eq=False)
class Rate:
    """Hold a rate of ``count`` calls in a ``period`` (see :data:`PERIODS`), of which ``burst`` may come at once.
    ``name`` tells whose rate it is: ``call`` or ``tool``. ``policy`` is the rate as a header."""

    name: str
    count: int
    period: str
    burst: int
    policy: str


class Quota(Struct):
    """Hold what is left of a rate: ``left`` calls now, and the whole burst after ``full_in`` seconds. ``wait`` is the
    time in seconds after which a refused call may come again; 0 where the call was not refused. ``headers`` tell the
    client (draft-ietf-httpapi-ratelimit-headers-10 §3 and §4, RFC 9110 §10.2.3)."""

    rate: Rate
    left: int
    full_in: int
    wait: int
    headers: dict[str, str]

    @property
    def fault(self) -> CallLimited:
        """Return the error for the call, which was refused, in words that a model can act on."""
        rate = self.rate
        what = "calls of this tool" if rate.name == "tool" else "calls"
        return CallLimited(
            f"Too many {what}: at most {rate.count} per {rate.period}. This call was not made. "
            f"Wait {self.wait} s, then call again; the arguments may stay as they are",
            retry_after=self.wait,
        )


class CallBudget:
    """Limit the rate of calls: of each caller, of each caller and tool where the tool has a limit. The burst is a tenth
    of a rate, but at least ten, and for a tool at most its rate. The store holds what was spent, so a reload with
    another rate does not reset it."""

    def __init__(self, store: Store, per_caller: str) -> None:
        self._store = store
        self._per_caller = read_rate(per_caller, "call")
        self._permit = lru_cache(MAX_HANDLES)(self._new_permit)

    async def spend(self, caller: Caller, tool: Tool | None = None) -> Quota:
        """Count one call against all rates that apply, without ``tool`` against the caller's alone. Return the caller's
        quota, or the one that refused the call. Then the other rate may have been spent for nothing."""
        permit = self._permit(self._per_caller, caller.principal is not None, caller.key)
        quota = await _take(self._per_caller, permit)
        if tool is not None and tool.limit is not None and not quota.wait:
            quota = await self.spend_tool(caller, tool) or quota
        return quota

    async def spend_tool(self, caller: Caller, tool: Tool) -> Quota | None:
        """Count one call of a caller against the tool's own limit. Return the quota only where it refuses the call."""
        if tool.limit is None:
            return None
        rate = read_rate(tool.limit, "tool")
        permit = self._permit(rate, caller.principal is not None, caller.key, tool.method)
        quota = await _take(rate, permit)
        return quota if quota.wait else None

    def _new_permit(self, rate: Rate, by_token: bool, *whose: str) -> Permit:
        return self._store.permit(_key(rate.name, by_token, *whose), rate.count / PERIODS[rate.period], rate.burst)


@lru_cache(1000)
def read_rate(text: str, name: str) -> Rate:
    """Return a rate such as ``10/minute``. The burst is a tenth of it, but at least ten, and for a tool at most all."""
    number, _, period = text.partition("/")
    count = int(number)
    burst = max(_LEAST_BURST, count // _BURST_SHARE)
    policy = f'"{name}";q={count};w={PERIODS[period]}'
    return Rate(name, count, period, min(burst, count) if name == "tool" else burst, policy)


async def _take(rate: Rate, permit: Permit) -> Quota:
    wait = ceil(await permit.take())
    left, seconds = permit.remaining()
    full_in = ceil(seconds)
    headers = {"RateLimit-Policy": rate.policy, "RateLimit": f'"{rate.name}";r={left};t={full_in}'}
    if wait:
        RECORD.get().note_limit("tool" if rate.name == "tool" else "invocation")
        headers["Retry-After"] = str(wait)
    return Quota(rate, left, full_in, wait, headers)


class _CallerCounts:
    """Count what each caller has under way at one mount, at most ``most`` for each."""

    def __init__(self) -> None:
        self.most: float = inf
        self._held: dict[str, int] = {}

    @property
    def total(self) -> int:
        """Return how much is under way, of all callers."""
        return sum(self._held.values())

    def end(self, key: str) -> None:
        """Count one less of the caller with this key."""
        left = self._held[key] - 1
        if left:
            self._held[key] = left
        else:
            del self._held[key]


class ConcurrencyLimit(_CallerCounts):
    """Count the calls of each caller."""

    @property
    def full(self) -> int:
        """Return how many callers have as many calls under way as they may."""
        return sum(held >= self.most for held in self._held.values())

    def begin_call(self, caller: Caller) -> str:
        """Count a call that begins. Return the key for :meth:`end`. Raise :class:`CallLimited` where the caller
        has ``most`` under way. A context manager would take twice as long, and each call comes through here."""
        key = caller.key
        held = self._held.get(key, 0)
        if held >= self.most:
            RECORD.get().note_limit("concurrency")
            raise CallLimited(
                f"Too many calls at once: at most {self.most} may be under way. This call was not made. "
                "Wait until another one is answered, then call again",
                retry_after=_NEXT_TRY,
            )
        self._held[key] = held + 1
        return key


class StreamLimit(_CallerCounts):
    """Count the open streams of each caller."""

    def has_room(self, caller: Caller) -> bool:
        """Return whether the caller may open another stream."""
        return self._held.get(caller.key, 0) < self.most

    def check(self, caller: Caller) -> None:
        """Raise :class:`RateLimited` where the caller has ``most`` streams open."""
        if not self.has_room(caller):
            RECORD.get().note_limit("streams")
            raise RateLimited(f"Too many open streams, at most {self.most}", retry_after=10)

    @contextmanager
    def hold_stream(self, caller: Caller) -> Iterator[None]:
        """Count a stream while it is open, which a ``with`` block is."""
        key = caller.key
        self._held[key] = self._held.get(key, 0) + 1
        try:
            yield
        finally:
            self.end(key)


def _key(name: str, by_token: bool, *whose: str) -> str:
    """Return the key of permits. Addresses are cheap: a flood of them must not evict the counts of callers with a
    token. So they have a purpose of their own."""
    return (f"{name} by token:" if by_token else f"{name}:") + "\n".join(whose)
