"""Define the interface of the store: markers that expire, permits, documents, locks and notices. It outlives a reload;
replicas may share it.

A key is any text. The part before its first colon is its purpose, such as ``dpop`` in ``dpop:…``. There are few
purposes. Keys of one purpose never evict keys of another. A topic of notices is a key, too.
"""

import hashlib
import struct
import time
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from gateway.concurrency.background import Problem
from gateway.signing import SKEW, Seal, SigningKeys

MAX_DOCUMENT: Final = 4 * 1024**2
"""Bytes of the largest document, as it is kept."""
MAX_NOTICE: Final = 96 * 1024
"""Bytes of the largest notice, as it is passed on."""

_TIMES: Final = struct.Struct("!dd")
"""When a sealed document was made and when it ends, in seconds of the wall clock, which replicas share."""

log = structlog.get_logger()


class StoreFault(Exception):
    """Raised where the store cannot be used as it is configured; the message says why."""


class Permit(Protocol):
    """Give out the permits of one key: a full ``burst`` at first, then ``rate`` more per second, up to the burst. This
    is the generic cell rate algorithm (ITU-T I.371)."""

    async def take(self) -> float:
        """Take a permit. Return 0.0 where there was one, else the seconds after which there is one if no other caller
        takes any, to the microsecond."""
        ...

    def remaining(self) -> tuple[int, float]:
        """Return how many permits there are after the last :meth:`take`, and after how many seconds the whole burst
        will be there, if nobody takes any meanwhile."""
        ...


class Store(Protocol):
    """Keep markers with a lifetime, permits and documents, lock keys, and pass notices on."""

    @property
    def is_shared(self) -> bool:
        """Return whether other processes may use the same store."""
        ...

    async def add(self, key: str, ttl: float) -> bool:
        """Mark the key for ``ttl`` seconds. Return False if it was marked. Of concurrent callers one gets True, on
        whichever replica. Raises :class:`~gateway.errors.StoreUnavailable` where nobody can tell at the moment."""
        ...

    async def mark(self, key: str, ttl: float) -> None:
        """Mark the key for ``ttl`` seconds anew, 0 to end the mark at all replicas. While a shared store is
        unavailable, the others learn of a mark later, and of an end never."""
        ...

    async def has(self, key: str) -> bool:
        """Return whether the key is marked."""
        ...

    def permit(self, key: str, rate: float, burst: int) -> Permit:
        """Return a handle on the permits of a key: ``rate`` per second, at most ``burst`` at once. It may be kept. All
        handles of one key share what was taken, also those with another rate or burst. After a change of the rate a
        caller without permits waits at the new rate, and at most as long as after a whole new burst."""
        ...

    async def get(self, key: str) -> bytes | None:
        """Return the document of a key. It may be gone before its time: it is a copy of what can be had again."""
        ...

    async def put(self, key: str, value: bytes, ttl: float) -> bool:
        """Keep a document for ``ttl`` seconds, in place of an earlier one. Return False where it is not kept: it is
        larger than :data:`MAX_DOCUMENT`, or the store is unavailable."""
        ...

    async def acquire(self, key: str, ttl: float, token: str = "") -> str:
        """Lock the key for at most ``ttl`` seconds. Return a token for :meth:`release`, "" where another one holds the
        lock. With a ``token``, renew its lock; return "" where that has ended. While a shared store is unavailable,
        each process has its own locks."""
        ...

    async def release(self, key: str, token: str) -> None:
        """Unlock the key, if the lock is still the one of this token."""
        ...

    async def publish(self, topic: str, notice: bytes) -> bool:
        """Give a notice to all subscribers of a topic, in this process at once. Return False where a shared store is
        unavailable: other replicas never hear of it. Raises :class:`ValueError` beyond :data:`MAX_NOTICE` bytes."""
        ...

    def subscribe(self, topic: str, receive: Callable[[bytes], None]) -> Callable[[], None]:
        """Call ``receive`` with each notice of a topic from now on. It must not raise. Return what ends that; it may be
        called again."""
        ...


class ServerStore(Store, Protocol):
    """Hold the store of the process, which the server opens and closes. ``problem`` says whether it is unavailable.
    ``commands`` counts what was sent to a shared store, ``leased`` the permits that were taken from it to be used."""

    problem: Problem

    @property
    def commands(self) -> int: ...

    @property
    def leased(self) -> int: ...

    async def open(self) -> None:
        """Connect, and try for a bounded time. A store that does not answer is not an error: it is unavailable until it
        does. Raises :class:`StoreFault`."""
        ...

    async def close(self) -> None:
        """Disconnect. Nothing may be asked afterwards."""
        ...


def purpose_of(key: str) -> str:
    """Return the part of a key before its first colon, "" without a colon."""
    return key.partition(":")[0] if ":" in key else ""


class ResourceStore:
    """Give one protected resource its own part of a store. The resource's digest is part of every key, so that services
    do not count each other's. It is part of the purpose, so that a flood at one service evicts no key of another.

    Documents and notices are sealed with ``keys``, which are the resource's: who can read the store learns nothing from
    them, and who can write to it cannot make any. A document has its end within the seal, so that nobody can put an old
    one back. ``clock`` is wall-clock seconds."""

    def __init__(self, store: Store, keys: SigningKeys, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._resource = hashlib.sha256(keys.resource.encode()).hexdigest()[:32]
        self._seal = Seal(keys, "store")
        self._document_seal = Seal(keys, "document")
        self._clock = clock
        self._warned: set[str] = set()

    @property
    def is_shared(self) -> bool:
        return self._store.is_shared

    async def add(self, key: str, ttl: float) -> bool:
        return await self._store.add(self._own(key), ttl)

    async def mark(self, key: str, ttl: float) -> None:
        await self._store.mark(self._own(key), ttl)

    async def has(self, key: str) -> bool:
        return await self._store.has(self._own(key))

    def permit(self, key: str, rate: float, burst: int) -> Permit:
        return self._store.permit(self._own(key), rate, burst)

    async def get(self, key: str) -> bytes | None:
        own = self._own(key)
        sealed = await self._store.get(own)
        content = None if sealed is None else self._open(self._document_seal, sealed, own)
        if content is None:
            return None
        made, ends = _TIMES.unpack_from(content)
        if made - SKEW <= self._clock() < ends:
            return content[_TIMES.size :]
        self._warn("a document in the shared store is old, or was made by a clock that is wrong", own)
        return None

    async def put(self, key: str, value: bytes, ttl: float) -> bool:
        own = self._own(key)
        now = self._clock()
        return await self._store.put(own, self._document_seal.close(_TIMES.pack(now, now + ttl) + value, own), ttl)

    async def acquire(self, key: str, ttl: float, token: str = "") -> str:
        return await self._store.acquire(self._own(key), ttl, token)

    async def release(self, key: str, token: str) -> None:
        await self._store.release(self._own(key), token)

    async def publish(self, topic: str, notice: bytes) -> bool:
        own = self._own(topic)
        return await self._store.publish(own, self._seal.close(notice, own))

    def subscribe(self, topic: str, receive: Callable[[bytes], None]) -> Callable[[], None]:
        own = self._own(topic)

        def receive_sealed(sealed: bytes) -> None:
            notice = self._open(self._seal, sealed, own)
            if notice is not None:
                receive(notice)

        return self._store.subscribe(own, receive_sealed)

    def _open(self, seal: Seal, sealed: bytes, own: str) -> bytes | None:
        content = seal.open(sealed, own)
        if content is None:
            self._warn("something in the shared store was not sealed with this secret", own)
        return content

    def _warn(self, event: str, own: str) -> None:
        """Log an event once: who writes there may write often."""
        if event not in self._warned:
            self._warned.add(event)
            log.warning(event, purpose=purpose_of(own))

    def _own(self, key: str) -> str:
        return f"{purpose_of(key)} {self._resource}:{key}"
