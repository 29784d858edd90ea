"""Limit each caller: rates of listings and calls, which replicas share through the store, and numbers of open streams
and of calls under way."""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from cachetools import LRUCache

from gateway.errors import CallLimited, RateLimited
from gateway.model import Caller, Tool
from gateway.store import Permit, Store
from gateway.units import PERIODS

MAX_HANDLES: Final = 4096
"""Most permits that one budget keeps; the store creates the others again."""
_LEAST_BURST: Final = 10
_BURST_SHARE: Final = 10
"""A burst is this part of a rate."""
_NEXT_TRY: Final = 1
"""Seconds after which to call again where too many calls are under way."""
_CallerKey: TypeAlias = str | tuple[str, str]
"""The caller's identity, or the address of a caller without a token."""


class Budget:
    """Limit the rate of each caller to ``multiplier`` times ``rate``. ``60/minute`` allows 60 requests at once and then
    one each second. The store holds what was spent, so a reload with another rate does not reset it."""

    def __init__(self, store: Store, name: str, rate: str, multiplier: int = 1) -> None:
        self._store = store
        self._name = name
        count, _, self._period = rate.partition("/")
        self._burst = int(count) * multiplier
        self._permits: LRUCache[_CallerKey, Permit] = LRUCache(MAX_HANDLES)

    async def spend(self, caller: Caller) -> None:
        """Count one request of a caller. Raise :class:`RateLimited` with the seconds to wait."""
        key = caller.address if caller.principal is None else caller.identity
        try:
            permit = self._permits[key]
        except KeyError:
            permit = self._permits[key] = self._permit(caller)
        if wait := await permit.take():
            raise RateLimited(
                f"Too many {self._name} requests, at most {self._burst} per {self._period}", retry_after=math.ceil(wait)
            )

    def _permit(self, caller: Caller) -> Permit:
        key = _key(_purpose(self._name, caller), rate_limit_key(caller))
        return self._store.permit(key, self._burst / PERIODS[self._period], self._burst)


@dataclass(slots=True)
class Quota:
    """Hold what is left of a rate of ``count`` calls in a ``period`` (see :data:`PERIODS`): ``left`` calls now, and the
    whole burst after ``full_in`` seconds. ``wait`` is the time in seconds after which a refused call may come again; 0
    where the call was not refused. ``name`` tells whose rate it is: ``call``, ``tool`` or ``client``."""

    name: str
    count: int
    period: str
    left: int
    full_in: int
    wait: int = 0

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers for the client (draft-ietf-httpapi-ratelimit-headers-10 §3 and §4, RFC 9110 §10.2.3)."""
        headers = {
            "RateLimit-Policy": _policy(self.name, self.count, self.period),
            "RateLimit": f'"{self.name}";r={self.left};t={self.full_in}',
        }
        return {**headers, "Retry-After": str(self.wait)} if self.wait else headers

    @property
    def fault(self) -> CallLimited | None:
        """Return the error for a call that was refused, in words that a model can act on."""
        if not self.wait:
            return None
        what = {"tool": "calls of this tool", "client": "calls of all users of this client"}.get(self.name, "calls")
        return CallLimited(
            f"Too many {what}: at most {self.count} per {self.period}. This call was not made. "
            f"Wait {self.wait} s, then call again; the arguments may stay as they are",
            retry_after=self.wait,
        )


@dataclass(slots=True, eq=False)
class _Rate:
    """Hold a rate. ``name`` is the one of its :class:`Quota`."""

    name: str
    count: int
    period: str
    burst: int


class CallBudget:
    """Limit the rate of calls: of each caller, of each OAuth client with ``per_client``, of each caller and tool where
    the tool has a limit. The burst is a tenth of a rate, but at least ten, and for a tool at most its rate. The store
    holds what was spent, so a reload with another rate does not reset it."""

    def __init__(self, store: Store, per_caller: str, per_client: str | None = None) -> None:
        self._store = store
        self._per_caller = _read_rate(per_caller, "call")
        self._per_client = None if per_client is None else _read_rate(per_client, "client")
        self._permit = lru_cache(MAX_HANDLES)(self._new_permit)

    async def spend(self, caller: Caller, tool: Tool) -> Quota:
        """Count one call against all rates that apply. Return the caller's quota, or the one that refused the call.
        Then the other rates may have been spent for nothing."""
        principal = caller.principal
        permit = self._permit(self._per_caller, _purpose("call", caller), rate_limit_key(caller))
        quota = _quota(self._per_caller, permit, await permit.take())
        if tool.limit is not None and not quota.wait:
            quota = await self.spend_tool(caller, tool) or quota
        if self._per_client is not None and principal is not None and not quota.wait:
            permit = self._permit(self._per_client, "client", principal.issuer, principal.client)
            shared = _quota(self._per_client, permit, await permit.take())
            quota = shared if shared.wait else quota
        return quota

    async def spend_tool(self, caller: Caller, tool: Tool) -> Quota | None:
        """Count one call of a caller against the tool's own limit. Return the quota only where it refuses the call."""
        if tool.limit is None:
            return None
        rate = _read_rate(tool.limit, "tool")
        permit = self._permit(rate, _purpose("tool", caller), rate_limit_key(caller), tool.method)
        quota = _quota(rate, permit, await permit.take())
        return quota if quota.wait else None

    def _new_permit(self, rate: _Rate, purpose: str, *whose: str) -> Permit:
        return self._store.permit(_key(purpose, *whose), rate.count / PERIODS[rate.period], rate.burst)


@lru_cache(1000)
def _read_rate(text: str, name: str) -> _Rate:
    number, _, period = text.partition("/")
    count = int(number)
    burst = max(_LEAST_BURST, count // _BURST_SHARE)
    return _Rate(name, count, period, min(burst, count) if name == "tool" else burst)


def _quota(rate: _Rate, permit: Permit, wait: float) -> Quota:
    left, full_in = permit.remaining()
    return Quota(rate.name, rate.count, rate.period, left, math.ceil(full_in), math.ceil(wait))


@lru_cache(1000)
def _policy(name: str, count: int, period: str) -> str:
    return f'"{name}";q={count};w={PERIODS[period]}'


class ConcurrencyLimit:
    """Count the calls that each caller has under way at one mount, at most ``most`` for each."""

    def __init__(self) -> None:
        self.most: float = math.inf
        self._held: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<ConcurrencyLimit {self.most} each, {self.total} under way of {len(self._held)} callers>"

    @property
    def total(self) -> int:
        """Return how many calls are under way, of all callers."""
        return sum(self._held.values())

    def hold_call(self, caller: Caller) -> _Counted:
        """Count a call while it is under way, which a ``with`` block is. Raise :class:`CallLimited` where the caller
        has ``most`` under way."""
        key = rate_limit_key(caller)
        if self._held.get(key, 0) >= self.most:
            raise CallLimited(
                f"Too many calls at once: at most {self.most} may be under way. This call was not made. "
                "Wait until another one is answered, then call again",
                retry_after=_NEXT_TRY,
            )
        return _Counted(self._held, key)


class StreamLimit:
    """Count the open streams of each caller at one mount, at most ``most`` for each."""

    def __init__(self) -> None:
        self.most = 0
        self._open: dict[str, int] = {}

    @property
    def total(self) -> int:
        """Return how many streams are open, of all callers."""
        return sum(self._open.values())

    def has_room(self, caller: Caller) -> bool:
        """Tell whether the caller may open another stream."""
        return self._open.get(rate_limit_key(caller), 0) < self.most

    def check(self, caller: Caller) -> None:
        """Raise :class:`RateLimited` where the caller has ``most`` streams open."""
        if not self.has_room(caller):
            raise RateLimited(f"Too many open streams, at most {self.most}", retry_after=10)

    def hold_stream(self, caller: Caller) -> _Counted:
        """Count a stream while it is open, which a ``with`` block is."""
        return _Counted(self._open, rate_limit_key(caller))


class _Counted:
    """Count one more of a key within a ``with`` block. A function with ``@contextmanager`` would take four times as
    long, and each call comes through here."""

    __slots__ = ("_counts", "_key")

    def __init__(self, counts: dict[str, int], key: str) -> None:
        self._counts, self._key = counts, key

    def __enter__(self) -> None:
        self._counts[self._key] = self._counts.get(self._key, 0) + 1

    def __exit__(self, *_: object) -> None:
        left = self._counts[self._key] - 1
        if left:
            self._counts[self._key] = left
        else:
            del self._counts[self._key]


def _purpose(name: str, caller: Caller) -> str:
    """Return the purpose of a caller's permits. Addresses are cheap: a flood of them must not evict the counts of
    callers with a token. So they have a purpose of their own."""
    return name if caller.principal is None else f"{name} by token"


def _key(purpose: str, *whose: str) -> str:
    return f"{purpose}:" + "\n".join(whose)


def rate_limit_key(caller: Caller) -> str:
    """Return whom limits count: the caller's identity, else its network."""
    principal = caller.principal
    return network_of(caller.address) if principal is None else principal.key


@lru_cache(MAX_HANDLES)
def network_of(address: str) -> str:
    """Return the network of one caller: an IPv4 address, or an IPv6 /64, whose addresses one caller can all use."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
