"""The hub that tells streams of changes, in virtual time."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from gateway.catalog.build import Builder
from gateway.discovery.discovery import Discovery
from gateway.discovery.subscriptions import StreamEvent, Subscriptions
from gateway.model import SHARED, Caller, Listing, View
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params
from gateway.store.memory import MemoryStore
from tests.virtual_time import at, virtually

ADA: Final = View("https://login.example.com", "ada")
INTERVAL: Final = 10.0
HEARTBEAT: Final = 1000.0


def hub(interval: float = INTERVAL, heartbeat: float = HEARTBEAT) -> Subscriptions:
    changes = Subscriptions()
    changes.follow(discovery(), interval, heartbeat, MemoryStore())
    return changes


def discovery() -> Discovery:
    async def fetch(_: Caller) -> Listing:
        raise NotImplementedError

    return Discovery(fetch, Builder(Params(), ValidatorCache()), CatalogSettings())


class Listener:
    """Reads all the time, and notes what it heard and when."""

    def __init__(self, changes: Subscriptions, view: View = SHARED, client: str | None = None) -> None:
        self.heard: list[tuple[float, StreamEvent]] = []
        self.subscription = changes.subscribe(view, client)
        self._subscriptions = changes
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while True:
            event = await self.subscription.next_event()
            self.heard.append((round(asyncio.get_running_loop().time(), 3), event))

    @property
    def changed_at(self) -> list[float]:
        return [time for time, event in self.heard if StreamEvent.CHANGED in event]

    def leave(self) -> None:
        self._subscriptions.unsubscribe(self.subscription)
        self._reading.cancel()


@virtually
async def test_the_first_change_is_told_at_once() -> None:
    changes = hub()
    listener = Listener(changes)
    await at(3)
    changes.notify(SHARED)
    await at(4)
    assert listener.heard == [(3, StreamEvent.CHANGED)]


@virtually
async def test_further_changes_are_told_at_most_once_per_interval_and_the_last_always() -> None:
    changes = hub()
    listener = Listener(changes)
    for moment in (0, 1, 2, 9.5, 10.5, 11, 35):
        await at(moment)
        changes.notify(SHARED)
    await at(100)
    assert listener.changed_at == [0, 10, 20, 35]


@virtually
async def test_a_storm_of_changes_is_one_notice_per_interval() -> None:
    changes = hub()
    listener = Listener(changes)
    for tenth in range(1000):
        await at(tenth / 10)
        changes.notify(SHARED)
    await at(200)
    assert listener.changed_at == [moment * 10 for moment in range(11)]


@virtually
async def test_after_a_quiet_interval_a_change_is_told_at_once_again() -> None:
    changes = hub()
    listener = Listener(changes)
    for moment in (0, 10, 20.5):
        await at(moment)
        changes.notify(SHARED)
    await at(21)
    assert listener.changed_at == [0, 10, 20.5]


@virtually
async def test_without_an_interval_every_change_is_told() -> None:
    changes = hub(interval=0)
    listener = Listener(changes)
    for moment in (1, 1.5, 2):
        await at(moment)
        changes.notify(SHARED)
    await at(3)
    assert listener.changed_at == [1, 1.5, 2]


@virtually
async def test_a_changed_interval_holds_from_the_next_change_on() -> None:
    changes = hub(100.0)
    listener = Listener(changes)
    changes.notify(SHARED)
    await at(1)
    changes.follow(discovery(), 5, HEARTBEAT, MemoryStore())
    changes.notify(SHARED)
    await at(50)
    assert listener.changed_at == [0, 5]


@virtually
async def test_each_view_has_its_own_listeners_and_its_own_pace() -> None:
    changes = hub()
    shared, ada = Listener(changes), Listener(changes, ADA)
    changes.notify(SHARED)
    await at(1)
    assert (shared.changed_at, ada.changed_at) == ([0], [])
    changes.notify(ADA)
    await at(2)
    assert (shared.changed_at, ada.changed_at) == ([0], [1])


@virtually
async def test_what_comes_while_a_listener_is_busy_is_one_event_when_it_reads() -> None:
    changes = hub(interval=0)
    subscription = changes.subscribe(SHARED)
    for _ in range(100):
        changes.notify(SHARED)
    assert await subscription.next_event() == StreamEvent.CHANGED
    changes.notify(SHARED)
    changes.close()
    assert await subscription.next_event() == StreamEvent.CHANGED | StreamEvent.END


@virtually
async def test_a_listener_that_never_reads_holds_up_nobody_and_costs_nothing_more() -> None:
    changes = hub(interval=0, heartbeat=1)
    dead = changes.subscribe(SHARED)
    alive = Listener(changes)
    for moment in range(1, 50):
        await at(moment + 0.5)
        changes.notify(SHARED)
    await at(60)
    assert len(alive.changed_at) == 49
    assert await dead.next_event() == StreamEvent.CHANGED | StreamEvent.TICK


@virtually
async def test_a_reader_that_is_cancelled_loses_no_event() -> None:
    changes = hub()
    subscription = changes.subscribe(SHARED)
    reading = asyncio.create_task(subscription.next_event())
    await at(1)
    reading.cancel()
    await at(2)
    changes.notify(SHARED)
    assert await subscription.next_event() == StreamEvent.CHANGED


@virtually
async def test_many_listeners_are_woken_in_slices_with_room_for_others_between() -> None:
    """A thousand streams must not stall the calls under way."""
    changes = hub()
    listeners = [Listener(changes) for _ in range(1000)]
    await at(1)
    changes.notify(SHARED)
    woken = []
    while not woken or woken[-1] < 1000:
        await asyncio.sleep(0)
        woken.append(sum(bool(listener.heard) for listener in listeners))
    assert max(after - before for before, after in zip([0, *woken], woken, strict=False)) <= 50
    assert len(woken) >= 20
    assert all(listener.changed_at == [1] for listener in listeners)


@virtually
async def test_who_leaves_while_others_are_being_woken_is_no_trouble() -> None:
    changes = hub()
    listeners = [Listener(changes) for _ in range(200)]
    await at(1)
    changes.notify(SHARED)
    for listener in listeners[150:]:
        listener.leave()
    await at(2)
    assert all(listener.changed_at == [1] for listener in listeners[:150])
    assert not any(listener.changed_at for listener in listeners[150:])


@virtually
async def test_of_one_client_s_subscriptions_the_newest_hears_of_changes() -> None:
    changes = hub(interval=0)
    first, second, third = (Listener(changes, client="c") for _ in range(3))
    other, nobody = Listener(changes, client="d"), [Listener(changes) for _ in range(2)]
    everybody = (first, second, third, other, *nobody)
    await at(1)
    changes.notify(SHARED)
    await at(2)
    assert [listener.changed_at for listener in everybody] == [[], [], [1], [1], [1], [1]]
    third.leave()
    changes.notify(SHARED)
    await at(3)
    assert [listener.changed_at for listener in everybody[:2]] == [[], [2]]
    first.leave()
    changes.notify(SHARED)
    await at(4)
    assert second.changed_at == [2, 3]
    newest = Listener(changes, client="c")
    changes.notify(SHARED)
    await at(5)
    assert (second.changed_at, newest.changed_at) == ([2, 3], [4])


@virtually
async def test_everybody_is_ticked_once_per_heartbeat_the_muted_as_well() -> None:
    changes = hub(heartbeat=15)
    muted, newest = Listener(changes, client="c"), Listener(changes, client="c")
    await at(20)
    late = Listener(changes)
    await at(46)
    assert muted.heard == newest.heard == [(moment, StreamEvent.TICK) for moment in (15, 30, 45)]
    assert late.heard == [(moment, StreamEvent.TICK) for moment in (30, 45)]


@virtually
async def test_with_nobody_listening_nothing_ticks_and_the_next_listener_starts_it_again() -> None:
    changes = hub(heartbeat=15)
    Listener(changes).leave()
    await at(100)
    listener = Listener(changes)
    await at(131)
    assert listener.heard == [(115, StreamEvent.TICK), (130, StreamEvent.TICK)]


@virtually
async def test_the_end_is_told_to_all_and_to_those_to_come_and_nothing_after_it() -> None:
    changes = hub(heartbeat=15)
    muted, newest = Listener(changes, client="c"), Listener(changes, client="c")
    changes.notify(SHARED)
    await at(1)
    changes.notify(SHARED)
    changes.close()
    await at(2)
    late = Listener(changes)
    await at(100)
    assert muted.heard == [(1, StreamEvent.END)]
    assert newest.heard == [(0, StreamEvent.CHANGED), (1, StreamEvent.END)]
    assert late.heard == [(2, StreamEvent.END)]


@virtually
async def test_a_view_is_told_at_once_however_many_others_changed() -> None:
    changes = hub()
    listener = Listener(changes, ADA)
    for number in range(20_000):
        changes.notify(View("https://login.example.com", f"user {number}"))
    changes.notify(ADA)
    await at(1)
    assert listener.changed_at == [0]


@virtually
async def test_another_heartbeat_holds_at_once_for_streams_that_are_open() -> None:
    changes = hub(heartbeat=300)
    listener = Listener(changes)
    await at(10)
    changes.follow(discovery(), INTERVAL, 1, MemoryStore())
    await at(11.5)
    assert listener.heard == [(11, StreamEvent.TICK)]


def lines_run(work: Callable[[], None]) -> int:
    """How many lines of Python ``work`` runs, each turn of a loop counted."""
    count = 0

    def trace(_: FrameType, event: str, __: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@virtually
async def test_the_work_of_telling_listeners_grows_no_faster_than_their_number() -> None:
    """Each caller has a view and a session: all open a stream, all catalogs change, all streams end."""

    def work(number: int) -> int:
        changes = hub()
        views = [View("https://login.example.com", f"user-{one}") for one in range(number)]

        def all_of_it() -> None:
            streams = [changes.subscribe(view, f"session-{view.subject}") for view in views]
            for view in views:
                changes.notify(view)
            for view in views:
                changes.end_client(f"session-{view.subject}")
            for stream in streams:
                changes.unsubscribe(stream)

        lines = lines_run(all_of_it)
        changes.close()
        return lines

    few, many = work(100), work(800)
    assert many < 1.5 * 8 * few
