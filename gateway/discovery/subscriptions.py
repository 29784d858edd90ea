"""Notify open streams that tools changed: of the first change at once, of further ones once per interval.

A stream has a set of flags, not a queue: changes coalesce, and a slow or dead reader delays no other and costs no
memory. One timer serves the keep-alive of all streams. They are woken in slices, so that other tasks get a turn.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from enum import Flag, StrEnum, auto
from itertools import chain, islice
from typing import Any, Final, TypeVar

from gateway import jsonrpc
from gateway.backend.params import ParamStructures
from gateway.discovery.catalog_source import CatalogSource
from gateway.discovery.discovery import Discovery
from gateway.discovery.views import BrokenOutputSchemas
from gateway.model import Caller, Structure, View
from gateway.store import Store

Key = TypeVar("Key")
MAX_INTERVAL: Final = 10.0
"""Seconds between two notices, or the heartbeat where that is less."""
SESSION_ENDED: Final = "session-ended"
"""The topic of sessions that ended; a notice is the id, which is the client of the session's streams."""
_SLICE: Final = 50
"""Streams woken in one turn of the loop."""


class StreamEvent(Flag):
    """Say why a stream wakes; several events may have come together."""

    TICK = auto()
    CHANGED = auto()
    END = auto()


@dataclass(slots=True, eq=False, repr=False)
class Subscription:
    """Hold one open stream. A ``muted`` one gets ticks and the end, but no changes."""

    view: View
    client: str | None
    muted: bool = False
    _events: StreamEvent = field(default_factory=lambda: StreamEvent(0))
    _waiter: asyncio.Future[None] | None = None

    async def next_event(self) -> StreamEvent:
        """Return the events since the last call; wait for one where there are none."""
        while not self._events:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        events, self._events = self._events, StreamEvent(0)
        return events

    def wake(self, event: StreamEvent) -> None:
        self._events |= event
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Subscriptions:
    """Hold the open streams at one path. They outlive a reload: :meth:`follow` names the current discovery."""

    def __init__(self) -> None:
        self._discovery: CatalogSource | None = None
        self._interval = 0.0
        self._heartbeat = 0.0
        # Oldest first. Where each caller has a view, all of them may change at once: to look for the streams of each
        # among all would take the square of their number.
        self._by_view: dict[View, dict[Subscription, None]] = {}
        self._by_client: dict[str, dict[Subscription, None]] = {}
        self._notified_at: dict[View, float] = {}
        self._due: dict[View, asyncio.TimerHandle] = {}
        self._ticker: asyncio.TimerHandle | None = None
        self._closed = False
        self._stop_hearing: Callable[[], None] = lambda: None
        self.epoch = 0
        """Grows when all streams end: a request that was authorized before may not open one afterwards."""

    @property
    def sessions(self) -> int:
        """Return how many sessions have an open stream."""
        return len(self._by_client)

    def follow(self, discovery: CatalogSource, interval: float, heartbeat: float, store: Store) -> None:
        """Notify of this discovery's changes from now on. Both times are seconds. End the streams of a session that
        ended, on whichever replica of ``store``."""
        if self._discovery is not None:
            self._discovery.after_publish = lambda _: None
        discovery.after_publish = self.notify
        self._stop_hearing()
        self._stop_hearing = store.subscribe(SESSION_ENDED, lambda session: self.end_client(session.decode()))
        if self._ticker is not None and heartbeat != self._heartbeat:
            self._ticker.cancel()
            self._ticker = asyncio.get_running_loop().call_later(heartbeat, self._tick)
        self._discovery, self._interval, self._heartbeat = discovery, interval, heartbeat

    def refresh(self, caller: Caller) -> None:
        if self._discovery is not None:
            self._discovery.refresh_if_stale(caller)

    @property
    def _all(self) -> list[Subscription]:
        return [*chain.from_iterable(self._by_view.values())]

    @property
    def views(self) -> set[View]:
        return set(self._by_view)

    def subscribe(self, view: View, client: str | None = None, epoch: int = 0) -> Subscription:
        """Return a new subscription. Of one ``client``'s only the newest gets changes: a client needs one copy. Where
        the ``epoch`` is over, the subscription gets the end at once."""
        subscription = Subscription(view, client)
        if client is not None:
            others = self._by_client.setdefault(client, {})
            if others:
                next(reversed(others)).muted = True  # older ones are muted already
            others[subscription] = None
        self._by_view.setdefault(view, {})[subscription] = None
        if self._closed or epoch != self.epoch:
            subscription.wake(StreamEvent.END)
        elif self._ticker is None:
            self._ticker = asyncio.get_running_loop().call_later(self._heartbeat, self._tick)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        if subscription not in self._by_view.get(subscription.view, ()):
            return
        _remove(self._by_view, subscription.view, subscription)
        if subscription.client is not None:
            others = _remove(self._by_client, subscription.client, subscription)
            if others:
                next(reversed(others)).muted = False

    def notify(self, view: View) -> None:
        """Notify the streams of this view that its catalog changed."""
        if view in self._due:
            return
        loop = asyncio.get_running_loop()
        notified_at = self._notified_at.get(view)
        due = loop.time() if notified_at is None else notified_at + self._interval
        if due <= loop.time():
            self._notify_now(view)
        else:
            self._due[view] = loop.call_at(due, self._notify_now, view)

    def tick(self, view: View) -> None:
        """Wake the streams of this view, which changes nothing for their clients but a keep-alive."""
        self._wake(list(self._by_view.get(view, ())), StreamEvent.TICK)

    def check_callers(self) -> None:
        """Wake all streams: each ends where its caller's token or key is no longer good."""
        self._wake(self._all, StreamEvent.TICK)

    def end_client(self, client: str) -> None:
        for subscription in self._by_client.get(client, ()):
            subscription.wake(StreamEvent.END)

    def end_all(self) -> None:
        """End all open streams, and begin a new epoch."""
        self.epoch += 1
        for subscription in self._all:
            subscription.wake(StreamEvent.END)

    def close(self) -> None:
        """End all streams, and each later one at once."""
        self._closed = True
        self._stop_hearing()
        for handle in (*self._due.values(), self._ticker):
            if handle is not None:
                handle.cancel()
        self.end_all()

    def _notify_now(self, view: View) -> None:
        self._due.pop(view, None)
        if len(self._notified_at) > 10_000:  # callers' views are many; the price is one notice too early
            self._notified_at.clear()
        self._notified_at[view] = asyncio.get_running_loop().time()
        self._wake([one for one in self._by_view.get(view, ()) if not one.muted], StreamEvent.CHANGED)

    def _tick(self) -> None:
        self._ticker = None
        if self._by_view and not self._closed:
            self._ticker = asyncio.get_running_loop().call_later(self._heartbeat, self._tick)
            self._wake(self._all, StreamEvent.TICK)

    def _wake(self, subscriptions: Iterable[Subscription], event: StreamEvent) -> None:
        remaining = iter(subscriptions)

        def wake_some() -> None:
            some = list(islice(remaining, _SLICE))
            for subscription in some:
                subscription.wake(event)
            if len(some) == _SLICE:
                asyncio.get_running_loop().call_soon(wake_some)

        wake_some()


def _remove(
    index: dict[Key, dict[Subscription, None]], key: Key, subscription: Subscription
) -> dict[Subscription, None]:
    """Remove a subscription from an index. Return what is left under its key."""
    left = index[key]
    del left[subscription]
    if not left:
        del index[key]
    return left


MAX_TOLD: Final = 200
"""Maximum facts of one kind that a replica which starts is told."""
DOUBT_AFTER: Final = 1.0
"""Seconds for which a replica trusts its own listing of a caller, whatever others say: a service that answers each
question differently must not make replicas ask all the time."""


class Found(StrEnum):
    """Say what a notice is about; ``ASK`` comes from a replica that starts."""

    VIEW = auto()
    STRUCTURE = auto()
    BROKEN = auto()
    ASK = auto()


class DiscoveryNotices:
    """Pass on what the replicas of one service find out: that a caller's tools changed, the structure of params that a
    method takes, and output schemas that a result broke. A replica that hears of a change lists for itself; one that
    starts asks the others. Nothing of this is kept in the store. ``backend`` is from
    :func:`~gateway.discovery.shared_listing.backend_digest`."""

    def __init__(
        self, store: Store, backend: str, structures: ParamStructures, broken_output_schemas: BrokenOutputSchemas
    ) -> None:
        self._store = store
        self._topic = f"found:{backend}"
        self._structures = structures
        self._broken = broken_output_schemas
        self._end: Callable[[], None] = lambda: None
        self._tasks: set[asyncio.Task[Any]] = set()

    def follow(self, discovery: Discovery, subscriptions: Subscriptions) -> None:
        if not self._store.is_shared:
            return
        discovery.after_change = self._tell_change
        self._structures.after_learning = lambda *fact: self._tell(Found.STRUCTURE, *fact)
        self._broken.after_recording = lambda *fact: self._tell(Found.BROKEN, *fact)
        self._end = self._store.subscribe(self._topic, lambda notice: self._hear(notice, discovery, subscriptions))
        self._tell(Found.ASK)

    def close(self) -> None:
        self._end()
        for task in self._tasks:
            task.cancel()

    def _hear(self, notice: bytes, discovery: Discovery, subscriptions: Subscriptions) -> None:
        """Take over what a replica found, also this one."""
        match jsonrpc.decode(notice):
            case [Found.VIEW, fields, str(digest)]:
                view = jsonrpc.read_as(View, fields)
                if discovery.doubt(view, digest, DOUBT_AFTER):
                    subscriptions.tick(view)  # each of its streams asks for a refresh of what is stale
            case [Found.STRUCTURE, str(method), endpoint, str(structure)] if structure in tuple(Structure):
                self._structures.adopt(method, endpoint, Structure(structure))
            case [Found.BROKEN, str(method), str(digest)]:
                if self._broken.adopt(method, digest):
                    self._start(discovery.drop_broken_schemas())
            case [Found.ASK]:
                for fact in islice(self._structures.learned, MAX_TOLD):
                    self._tell(Found.STRUCTURE, *fact)
                for broken in islice(self._broken.recorded, MAX_TOLD):
                    self._tell(Found.BROKEN, *broken)

    def _tell_change(self, view: View, digest: str) -> None:
        if not view.is_shared:  # replicas share that listing itself
            self._tell(Found.VIEW, view, digest)

    def _tell(self, *what: Any) -> None:
        self._start(self._store.publish(self._topic, jsonrpc.encode(what)))

    def _start(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
