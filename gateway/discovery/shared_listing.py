"""Share the shared view's listing among replicas: one asks the backend, the others read what it got.

The lister holds a lock, which it renews while it lists, keeps its listing as a document of the store, and tells the
others by a notice. Where it dies or hangs, the lock ends, and another one lists. Should both list, all show the later
listing. A document lives half of ``catalog.ttl``, so what replicas show is at most one and a half of it old.
"""

import asyncio
import hashlib
import math
import time
import zlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

import structlog

from gateway import __version__, jsonrpc
from gateway.concurrency.turns import run_in_thread
from gateway.discovery.discovery import Discovery
from gateway.model import Caller, JsonObject, Listing
from gateway.settings import ServiceSettings
from gateway.settings.changes import listed_by
from gateway.store import Store
from gateway.telemetry.record import RECORD

_MAX_JSON: Final = 64 * 1024**2
"""Bytes of a document before compression, so that a small one cannot fill the memory."""


class ListingDocument(NamedTuple):
    """Hold a listing whose methods lack their roots, the roots, which methods share, and the number of each one's."""

    listing: Listing
    roots: list[JsonObject]
    numbers: list[int]


def encode_listing(listing: Listing) -> bytes:
    """Return the document. Raises :class:`ValueError` where JSON cannot express the listing."""
    roots = {id(method.root): method.root for method in listing.methods}
    numbers = {root: number for number, root in enumerate(roots)}
    bare = replace(listing, methods=tuple(replace(method, root={}) for method in listing.methods))
    document = ListingDocument(bare, list(roots.values()), [numbers[id(method.root)] for method in listing.methods])
    return zlib.compress(jsonrpc.encode(document), 1)


def decode_listing(document: bytes) -> Listing:
    """Return the listing. Raises :class:`ValueError` for what :func:`encode_listing` did not write."""
    try:
        text = zlib.decompressobj().decompress(document, _MAX_JSON)
        listing, roots, numbers = jsonrpc.read_as(ListingDocument, jsonrpc.decode(text))
        pairs = zip(listing.methods, numbers, strict=True)
        return replace(listing, methods=tuple(replace(method, root=roots[number]) for method, number in pairs))
    except (zlib.error, IndexError) as error:
        raise ValueError(f"not a listing: {error}") from None


_SLACK: Final = 5.0
"""Seconds for which others wait beyond the time that a listing may take."""
_LOCK_LIFE: Final = 3.0
"""Seconds after which the lock of a replica ends that does not renew it."""
_RENEW_EVERY: Final = 1.0
"""Seconds. A replica whose event loop stands still for less than two of them keeps the lock."""
_LOOK_AGAIN: Final = 0.5
"""Seconds after which a replica that waits looks whether another one still lists."""

log = structlog.get_logger()


def backend_digest(settings: ServiceSettings) -> str:
    """Return a digest of what the listing derives from: replicas that differ in it, during a rollout, do not learn from
    each other."""
    return hashlib.sha256(f"{__version__}\n{listed_by(settings.backend)}".encode()).hexdigest()[:16]


class SharedListing:
    """Fetch listings for one service. ``fetch`` asks the backend on a caller's behalf and raises
    :class:`~gateway.listing.dialect.NoListing`."""

    def __init__(self, fetch: Callable[[Caller], Awaitable[Listing]], store: Store, settings: ServiceSettings) -> None:
        backend = settings.backend
        self._fetch = fetch
        self._name = settings.name
        self._store = store
        self._ttl = settings.catalog.ttl / 2
        self._patience = backend.listing.timeout + _SLACK
        self._key = f"listing:{backend_digest(settings)}"
        self._shares = store.is_shared and backend.listing.file is None
        self._digest = ""
        self._must_ask = False
        self._heard = asyncio.Event()
        self._end: Callable[[], None] = lambda: None
        self._refreshes: set[asyncio.Task[None]] = set()

    def follow(self, discovery: Discovery) -> None:
        """Refresh where another replica lists something else."""

        def hear(digest: bytes) -> None:
            self._heard.set()
            if digest and self._digest and digest.decode(errors="replace") != self._digest:
                task = asyncio.create_task(discovery.refresh_again())
                self._refreshes.add(task)
                task.add_done_callback(self._refreshes.discard)

        if self._shares:
            self._end = self._store.subscribe(self._key, hear)

    def close(self) -> None:
        self._end()
        for task in self._refreshes:
            task.cancel()

    def ask_backend(self) -> None:
        """Ask the backend the next time, whatever other replicas have."""
        self._must_ask = True

    async def fetch_listing(self, caller: Caller) -> Listing:
        """Return a listing: for the shared view, the one of another replica if there is a recent one."""
        if not self._shares or not caller.view.is_shared:
            return await self._ask(caller)
        must_ask, self._must_ask = self._must_ask, False
        if not must_ask and (kept := await self._read_kept()) is not None:
            return kept
        self._heard.clear()
        token = await self._store.acquire(self._key, _LOCK_LIFE)
        if not must_ask:
            token = token or await self._wait_for_lister()
            # Another one may have ended just before. Where it failed, each of the others asks once: they are few, and
            # their back-off follows.
            if (kept := await self._read_kept()) is not None:
                await self._store.release(self._key, token)
                return kept
        return await self._list(caller, token)

    async def _ask(self, caller: Caller) -> Listing:
        began, error = time.perf_counter(), ""
        try:
            return await self._fetch(caller)
        except BaseException as failure:
            error = type(failure).__name__
            raise
        finally:
            RECORD.get().note_work("read listing", began, error, self._name)

    async def _wait_for_lister(self) -> str:
        """Wait until the replica that lists is done. Return the lock where it has it no longer, or the store is
        unavailable; else ""."""
        for _ in range(math.ceil(self._patience / _LOOK_AGAIN)):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._heard.wait(), _LOOK_AGAIN)
                return ""
            if token := await self._store.acquire(self._key, _LOCK_LIFE):
                return token
        log.warning("another replica was to list, and said nothing")
        return ""

    async def _list(self, caller: Caller, token: str) -> Listing:
        """Ask the backend, and tell the others."""
        digest = ""
        renewing = asyncio.create_task(self._renew(token))
        try:
            listing = await self._ask(caller)
            self._digest = listing.digest
            # Of one that they cannot have, the others would list each its own, and tell the others again.
            if listing.methods and not listing.partial and await self._keep(listing):
                digest = listing.digest
            return listing
        finally:
            renewing.cancel()
            await self._store.release(self._key, token)
            await self._store.publish(self._key, digest.encode())

    async def _renew(self, token: str) -> None:
        """Keep the lock, if this replica has it, until this is cancelled."""
        while token:
            await asyncio.sleep(_RENEW_EVERY)
            await self._store.acquire(self._key, _LOCK_LIFE, token)

    async def _read_kept(self) -> Listing | None:
        document = await self._store.get(self._key)
        if document is None:
            return None
        try:
            listing = await run_in_thread(decode_listing, document)
        except ValueError as error:
            log.warning("a listing in the shared store cannot be read", error=str(error))
            return None
        self._digest = listing.digest
        return listing

    async def _keep(self, listing: Listing) -> bool:
        """Keep a listing for the others. Return False where each has to list for itself."""
        try:
            document = await run_in_thread(encode_listing, listing)
        except ValueError:
            return False  # JSON cannot express it
        return await self._store.put(self._key, document, self._ttl)
