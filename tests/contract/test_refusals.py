"""When a credential is sent again that a service refused, by the clock of each store, and of all replicas together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Final

import pytest

from gateway.backend.refusals import DOUBT, CredentialTries, RefusedBefore
from gateway.store import Store
from tests.manual_clock import ManualClock
from tests.waiting import until

HOUR: Final = 3600.0


class Service:
    """A service that counts what it refuses; ``accepts`` once its operator has mended the account."""

    def __init__(self, clock: ManualClock) -> None:
        self.accepts = False
        self.sent: list[float] = []
        self._clock, self._began = clock, clock.now

    async def ask(self) -> bool:
        """Return whether the credential is refused, after other replicas had time to send it, too."""
        self.sent.append(self._clock.now - self._began)
        await asyncio.sleep(0)
        return not self.accepts

    async def list(self, tries: CredentialTries) -> bool:
        """Send the credential as a listing does. Return whether it was sent, and accepted."""
        with suppress(RefusedBefore):
            async with tries.turn():
                if not await self.ask():
                    await tries.accept()
                    return True
                await tries.refuse(stops_calls=True)
        return False


@pytest.fixture
def service(clock: ManualClock) -> Service:
    return Service(clock)


@pytest.fixture
async def replicas(
    store: Store, other: Store, clock: ManualClock
) -> AsyncIterator[Callable[[str], list[CredentialTries]]]:
    made: list[CredentialTries] = []

    def replicas_with(key: str) -> list[CredentialTries]:
        new = [CredentialTries(one, key, clock, lambda _: asyncio.sleep(0.001)) for one in (store, other)]
        made.extend(new)
        return new

    yield replicas_with
    for one in made:
        one.close()


async def test_it_is_sent_at_once_after_15_minutes_after_2_hours_and_then_every_6(
    replicas: Callable[[str], list[CredentialTries]], service: Service, clock: ManualClock
) -> None:
    """Whichever replica tries, and as often as they like; one that starts later knows."""
    both, began = replicas("k"), clock.now
    due = [0, 0.25 * HOUR, 2 * HOUR, 8 * HOUR, 14 * HOUR, 20 * HOUR]
    for moment in due:
        clock.now = began + moment - 1
        await asyncio.gather(*map(service.list, both if moment else ()))
        clock.now += 1
        await asyncio.gather(*map(service.list, both))
        if moment == HOUR / 4:
            both += replicas("k")
    assert service.sent == due


async def test_another_one_is_sent_at_once_and_one_that_is_accepted_without_a_turn(
    replicas: Callable[[str], list[CredentialTries]], service: Service
) -> None:
    (one, other), (changed, its_other) = replicas("k"), replicas("changed")
    assert not await service.list(one)
    service.accepts = True
    assert not await service.list(other)
    assert await service.list(changed)
    async with changed.turn():
        await until(lambda: asyncio.wait_for(service.list(its_other), 1), bool)
    assert len(service.sent) == 3


async def test_an_operator_has_all_replicas_together_send_it_once(
    replicas: Callable[[str], list[CredentialTries]], service: Service, clock: ManualClock
) -> None:
    both = replicas("k")
    await service.list(both[0])
    for forced in (2, 3):
        clock.now += 60
        for one in both:
            one.force()
        await asyncio.gather(*map(service.list, both))
        assert len(service.sent) == forced
    service.accepts = True
    clock.now += 60
    both[1].force()
    assert await service.list(both[1])


async def test_a_refused_call_costs_one_question_and_stops_the_calls_of_all_if_that_is_refused_too(
    replicas: Callable[[str], list[CredentialTries]], service: Service, clock: ManualClock
) -> None:
    one, other = replicas("k")
    assert await one.admit(service.ask)
    assert one.is_calm
    service.accepts = True
    await asyncio.gather(*(tries.doubt(service.ask) for tries in (one, other, one, other)))
    assert len(service.sent) == 1, "the method alone was refused"
    assert await one.admit(service.ask)
    service.accepts = False
    clock.now += DOUBT - 1
    await one.doubt(service.ask)
    assert len(service.sent) == 1
    clock.now += 2
    await asyncio.gather(*(tries.doubt(service.ask) for tries in (one, other)))
    assert len(service.sent) == 2
    await until(lambda: _admitted([one, other], service), lambda admitted: admitted == [False, False])
    clock.now += 890
    assert await _admitted([one, other], service) == [False, False]
    assert len(service.sent) == 2
    service.accepts = True
    clock.now += 10
    assert await one.admit(service.ask)
    assert len(service.sent) == 3
    await until(lambda: other.is_calm)  # it has heard of it: before, it may ask once, too
    assert await _admitted([one, other], service) == [True, True]
    assert len(service.sent) == 3


async def _admitted(replicas: list[CredentialTries], service: Service) -> list[bool]:
    return [await tries.admit(service.ask) for tries in replicas]


async def test_nobody_who_answers_is_no_answer(
    replicas: Callable[[str], list[CredentialTries]], service: Service, clock: ManualClock
) -> None:
    async def silent() -> None:
        service.sent.append(clock.now)

    one, _ = replicas("k")
    await one.doubt(silent)
    assert await one.admit(service.ask)
    clock.now += DOUBT + 1
    await one.doubt(service.ask)
    clock.now += 900
    assert not await one.admit(silent)
    assert not await one.admit(silent)
    assert len(service.sent) == 3, "one question in 15 s"
