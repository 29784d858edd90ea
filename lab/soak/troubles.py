"""What goes wrong in ``make soak``, one thing after the other and sometimes two at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random
from typing import Final, TypeAlias

from lab.soak.world import LISTING, World
from tests.fault.behaviours import CLOSE, Behaviour, Body, Cut, GzipBomb, Stream, error, result
from tests.fault.ledger import Noted, Work
from tests.fault.proxy import SOUND, Bandwidth, Blackhole, Fault, FaultProxy, HalfOpen, Latency, Reset, Slicing, Surplus

_MIB: Final = 1024 * 1024
_NETWORK: Final[tuple[Fault, ...]] = (
    Latency(0.1), Slicing(16), Bandwidth(20_000), Surplus(), Reset("requests"), Reset("answers"),
    Reset("answers", after=100), HalfOpen(), Blackhole(), Blackhole("answers"),
)  # fmt: skip
_SERVICE: Final[dict[str, Behaviour]] = {
    "errors": error(-32000, "No"),
    "closes": CLOSE,
    "cuts answers": Cut("half"),
    "answers HTML": Body(b"<html>", content_type="text/html"),
    "is busy": Body(status=503, headers=(("Retry-After", "1"),)),
    "answers 50 MiB": Stream(50 * _MIB),
    "answers a bomb": GzipBomb(100 * _MIB),
}
_LISTINGS: Final[dict[str, Behaviour]] = {"closes": CLOSE, "fails": error(-32000, "No"), "is no listing": result(7)}
_EVERY: Final = (1.0, 3.0)
_LASTS: Final = (0.3, 2.0)
"""Seconds between two troubles, and of each of them."""

Trouble: TypeAlias = Callable[[World, float], Awaitable[None]]
Which: TypeAlias = Callable[[World], tuple[FaultProxy, ...]]


async def make_trouble(it: World, random: Random, over: asyncio.Event, done: Counter[str]) -> None:
    """Make one trouble after the other until it is over; ``done`` counts them."""
    troubles = [*TROUBLES]
    if it.redis is not None:
        troubles += [*STORE_TROUBLES] * _OFTEN
    while not over.is_set():
        name, trouble = random.choice(troubles)
        done[name] += 1
        await trouble(it, random.uniform(*_LASTS))
        await asyncio.sleep(random.uniform(*_EVERY))


async def make_changes(it: World, random: Random, over: asyncio.Event, done: Counter[str]) -> None:
    """Change the catalog and the configuration, whatever else is going on."""
    while not over.is_set():
        change = random.choice((it.change_catalog, it.reload))
        done[change.__name__] += 1
        change()
        await asyncio.sleep(random.uniform(*_EVERY) * 2)


async def _spoil(which: Which, fault: Fault, it: World, seconds: float) -> None:
    for proxy in which(it):
        proxy.fault = fault
    await asyncio.sleep(seconds)
    for proxy in which(it):
        proxy.fault = SOUND


async def _close(which: Which, it: World, seconds: float) -> None:
    for proxy in which(it):
        await proxy.close()
    await asyncio.sleep(seconds)
    for proxy in which(it):
        await proxy.open()


async def _misbehave(behaviour: Behaviour, it: World, seconds: float) -> None:
    it.backend.on("work", Noted(it.ledger, behaviour))
    await asyncio.sleep(seconds)
    it.backend.on("work", Work(it.ledger))


async def _break_listing(behaviour: Behaviour, it: World, seconds: float) -> None:
    it.backend.on(LISTING, behaviour)
    await asyncio.sleep(seconds)
    it.backend.on(LISTING, it.listing)


async def _kill_store(it: World, seconds: float) -> None:
    assert it.redis is not None
    it.redis.kill()
    await asyncio.sleep(seconds)
    await asyncio.to_thread(it.redis.start)


async def _pause_store(it: World, seconds: float) -> None:
    assert it.redis is not None
    it.redis.control.client_pause(int(seconds * 1000))
    await asyncio.sleep(seconds)


def _service(it: World) -> tuple[FaultProxy, ...]:
    return (it.proxy,)


def _issuers(it: World) -> tuple[FaultProxy, ...]:
    return it.issuer_proxies


TROUBLES: Final[Sequence[tuple[str, Trouble]]] = (
    *((f"service: {fault}", partial(_spoil, _service, fault)) for fault in _NETWORK),
    *((f"issuers: {fault}", partial(_spoil, _issuers, fault)) for fault in _NETWORK),
    ("service: gone", partial(_close, _service)),
    ("issuers: gone", partial(_close, _issuers)),
    *((f"service: {name}", partial(_misbehave, behaviour)) for name, behaviour in _SERVICE.items()),
    *((f"listing: {name}", partial(_break_listing, behaviour)) for name, behaviour in _LISTINGS.items()),
)
STORE_TROUBLES: Final[Sequence[tuple[str, Trouble]]] = (("store: killed", _kill_store), ("store: paused", _pause_store))
_OFTEN: Final = 4
"""How much more often than others, which are many."""
