"""Keep the store in Redis, which replicas share. While it is unavailable, this process decides alone.

Then limits are divided by the number of replicas that were seen last, locks and notices are of this process, documents
cannot be read, and what must happen once over all replicas is refused or allowed, as ``store.when_away`` says.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final, Literal, TypeAlias

from cachetools import LRUCache, TTLCache
from redis.asyncio import Redis

from gateway.errors import StoreUnavailable
from gateway.store import MAX_DOCUMENT, Permit, purpose_of, scripts
from gateway.store.leases import SHARE, Lease, LeasedPermit
from gateway.store.memory import MemoryStore
from gateway.store.redis_client import CONNECT
from gateway.store.redis_link import PREFIX, SILENT, SLOW, Link, Unavailable

MAX_LEASES: Final = 10_000
"""Most leases that are kept. What is left of a forgotten one is lost, which its caller hardly notices."""
MAX_LATE_MARKS: Final = 10_000
"""Most markers that Redis is told of once it is back."""
_MARK_TTL: Final = 25 * 3600
_ENDED: Final = "mark ended"
"""Topic of the keys whose marks were ended."""
_KEYS_AT_ONCE: Final = 500
"""Keys of one command, which nothing else of Redis can interrupt."""
_RETRY_AFTER: Final = 1
_When: TypeAlias = Literal["always", "new", "same"]
"""When :data:`scripts.WRITE` writes."""


class RedisStore:
    """Implement :class:`gateway.store.ServerStore`. ``clock`` is monotonic seconds of this process, ``time_script`` Lua
    for the time of all; ``pause`` waits before Redis is tried again, and an answer after ``slow`` seconds is too
    late. ``complete_after`` is the seconds after which all replicas have told another server what they had marked."""

    is_shared: Final = True

    def __init__(
        self,
        redis: Redis,
        when_away: Literal["refuse", "allow"] = "refuse",
        *,
        clock: Callable[[], float] = time.monotonic,
        time_script: str = scripts.SERVER_TIME,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        slow: float = SLOW,
        complete_after: float = SILENT,
    ) -> None:
        self._link = Link(redis, time_script, receive=self._receive, returned=self._tell_marks, pause=pause, slow=slow)
        self.problem = self._link.problem
        self._refuses = when_away == "refuse"
        self._clock = clock
        self._local = MemoryStore(clock)
        self._local.subscribe(_ENDED, self._end_mark)
        self._leases: LRUCache[tuple[str, float, int], Lease] = LRUCache(MAX_LEASES)
        self._late_marks: TTLCache[str, float] = TTLCache(MAX_LATE_MARKS, _MARK_TTL, clock)
        self._complete_after = complete_after
        script = redis.register_script
        self._read = script(scripts.READ % time_script)
        self._write = script(scripts.WRITE % time_script)
        self._take = script(scripts.TAKE % time_script)
        self._give_back = script(scripts.GIVE_BACK % time_script)

    def __repr__(self) -> str:
        return f"<RedisStore {self._link!r}>"

    @property
    def commands(self) -> int:
        return self._link.commands

    @property
    def leased(self) -> int:
        return sum(lease.count for lease in self._leases.values())

    async def open(self) -> None:
        await self._link.open()

    async def close(self) -> None:
        await self._give_leases_back()
        await self._link.close()

    async def add(self, key: str, ttl: float) -> bool:
        if await self._local.has(key):  # allowed while Redis was unavailable, or known here already
            return False
        try:
            if self._refuses and time.monotonic() < self._link.other_since + self._complete_after:
                raise Unavailable
            is_new = await self._set("marker", key, b"", ttl, "new")
        except Unavailable:
            if self._refuses:
                raise StoreUnavailable(
                    "Cannot tell at the moment whether this was used before", retry_after=_RETRY_AFTER
                ) from None
            is_new = await self._local.add(key, ttl)
            self._late_marks[key] = self._clock() + ttl
        if is_new:
            await self._local.mark(key, ttl)
        return is_new

    async def mark(self, key: str, ttl: float) -> None:
        await self._local.mark(key, ttl)
        try:
            await self._set("marker", key, b"", ttl)
        except Unavailable:
            self._late_marks[key] = self._clock() + ttl
        if not ttl:  # each replica keeps what it has marked itself
            await self.publish(_ENDED, key.encode("utf-8", "surrogatepass"))

    def _end_mark(self, notice: bytes) -> None:
        with suppress(ValueError):
            self._local.end_mark(notice.decode("utf-8", "surrogatepass"))

    async def has(self, key: str) -> bool:
        if await self._local.has(key):
            return True
        try:
            return await self._get("marker", key) is not None
        except Unavailable:
            return False

    def permit(self, key: str, rate: float, burst: int) -> LeasedPermit:
        lease = self._leases.get((key, rate, burst))
        if lease is None:
            lease = self._leases[key, rate, burst] = Lease()
        name, micros = _name("permit", key), 1e6 / rate

        async def ask(unused: int) -> tuple[int, float] | None:
            async def take() -> tuple[int, float]:
                taken, owed = await self._take([name], [repr(micros), burst, SHARE, unused])
                return int(taken), int(owed) / 1e6

            try:
                return await self._link.ask(take)
            except Unavailable:
                return None

        def local() -> Permit:
            replicas = self._link.replicas
            return self._local.permit(key, rate / replicas, max(1, burst // replicas))

        return LeasedPermit(lease, 1 / rate, burst, self._clock, ask, local)

    async def get(self, key: str) -> bytes | None:
        try:
            return await self._get("document", key, CONNECT)
        except Unavailable:
            return None

    async def put(self, key: str, value: bytes, ttl: float) -> bool:
        if len(value) > MAX_DOCUMENT:
            return False
        try:
            return await self._set("document", key, value, ttl, patience=CONNECT)
        except Unavailable:
            return False

    async def acquire(self, key: str, ttl: float, token: str = "") -> str:
        own = token or secrets.token_hex(8)
        try:
            return own if await self._set("lock", key, own.encode(), ttl, "same" if token else "new") else ""
        except Unavailable:
            return await self._local.acquire(key, ttl, token)

    async def release(self, key: str, token: str) -> None:
        await self._local.release(key, token)
        with suppress(Unavailable):  # it ends by itself
            await self._set("lock", key, token.encode(), 0, "same")

    async def publish(self, topic: str, notice: bytes) -> bool:
        self._local.deliver(topic, notice)
        encoded = topic.encode("utf-8", "surrogatepass")
        try:
            await self._link.publish(len(encoded).to_bytes(4, "big") + encoded + notice)
        except Unavailable:
            return False
        return True

    def subscribe(self, topic: str, receive: Callable[[bytes], None]) -> Callable[[], None]:
        return self._local.subscribe(topic, receive)

    def _receive(self, message: bytes) -> None:
        """Deliver a notice of another replica. One that is none of ours is dropped."""
        end = 4 + int.from_bytes(message[:4], "big")
        try:
            self._local.deliver(message[4:end].decode("utf-8", "surrogatepass"), message[end:])
        except ValueError:
            return

    async def _get(self, kind: str, key: str, patience: float = 0) -> bytes | None:
        async def read() -> bytes | None:
            value = await self._read([_name(kind, key)])
            if value is not None and not isinstance(value, bytes):
                raise TypeError("a value is not bytes")
            return value

        return await self._link.ask(read, patience)

    async def _set(
        self, kind: str, key: str, value: bytes, ttl: float, when: _When = "always", *, patience: float = 0
    ) -> bool:
        async def write() -> bool:
            return bool(int(await self._write([_name(kind, key)], [value, when, int(ttl * 1e6)])))

        return await self._link.ask(write, patience)

    async def _give_leases_back(self) -> None:
        """Give back what this replica has not used, so that a restart of all costs no caller its permits."""
        held = [(key, lease.count / rate) for (key, rate, _), lease in self._leases.items() if lease.count]
        with suppress(Unavailable):
            for start in range(0, len(held), _KEYS_AT_ONCE):
                some = held[start : start + _KEYS_AT_ONCE]
                names, micros = [_name("permit", key) for key, _ in some], [repr(1e6 * owed) for _, owed in some]
                await self._link.ask(partial(self._give_back, names, micros))

    async def _tell_marks(self, is_other: bool) -> None:
        """Tell Redis what was marked while it was unavailable, and another server than before all marks from here."""
        marks = dict(self._late_marks)
        if is_other:
            marks = self._local.marked() | marks
        waiting = iter(marks.items())
        while some := list(islice(waiting, _KEYS_AT_ONCE)):
            names = [_name("marker", key) for key, _ in some]
            micros = [max(1, int((until - self._clock()) * 1e6)) for _, until in some]
            try:
                await self._link.ask(partial(self._write, names, [b"", "new", *micros]))
            except Unavailable:
                return
            for key, _ in some:
                self._late_marks.pop(key, None)


def _name(kind: str, key: str) -> str:
    """Return the name of a key in Redis: its purpose, which has the resource's digest, and a digest of the whole. So
    names are short, and say neither who called nor what was used."""
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{PREFIX}{kind}:{purpose_of(key)}:{digest}"
