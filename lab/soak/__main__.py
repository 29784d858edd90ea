"""Mixed traffic for minutes while one thing after the other fails: ``python -m lab.soak [--minutes 10] [--seed N]``.

With ``--replicas 2`` there are so many gateways behind nginx with one Redis, which is killed and paused, and each
of them is replaced once while the others go on. What nginx itself answered is counted apart.

Wrong, doubled and lost calls are counted for certain (:mod:`tests.fault.ledger`). At the end, when everybody has gone,
the gateway must have as few calls, streams, tasks and descriptors as before, its memory must be flat, and its metrics
must be few and agree with its log. Exit code: 0 where all of that holds, else 1.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import aiohttp

from lab.soak.actors import Actor
from lab.soak.scrapes import Scrapes
from lab.soak.troubles import make_changes, make_trouble
from lab.soak.world import World, world
from tests.authorization.stand import CALLS, Bearer, tools_in
from tests.fault.ledger import read

SEED: Final = 20261121
ACTORS: Final = 24
GROWTH: Final = 1.10
"""How many times the memory after the warm-up the memory at the end may be."""
_BEFORE_RESTART: Final = 0.2
"""The share of the time before replicas are replaced."""
_WARM: Final = 0.3
"""The share of the time that warms up, of processes that were replaced since then. Memory is compared between the tenth
after it and the last tenth."""
_KEPT: Final = 8
"""Connections that nginx keeps to the gateways."""
_STORE: Final = 16
"""Connections that each gateway may keep to its store."""
_SETTLING: Final = 30.0
"""Seconds in which all that is left behind must go: a call has 3, an idle connection 4, a look-up of the issuer 5."""
_BROKEN: Final = ("Traceback", "internal error", "unexpected", "exception ignored", "never retrieved")
"""What the log says where the gateway itself is at fault, and not its service or an issuer."""
_LINES: Final = 2_000
"""Lines of metrics that a gateway may have here: 17 for each surface, method, revision and outcome that occurred."""
_SHOWN: Final = 5
_WORDS: Final = 12
_MIB: Final = 1024 * 1024


@dataclass
class Findings:
    """What is wrong at the end; empty is what is wanted."""

    faults: list[str] = field(default_factory=list)

    def expect(self, what: str, holds: bool, figure: object) -> None:
        print(f"{what:<58}{figure!s:<28}{'ok' if holds else 'MISSED'}")
        if not holds:
            self.faults.append(what)


async def soak(seconds: float, seed: int, replicas: int) -> int:
    random, over, done = Random(seed), asyncio.Event(), Counter[str]()
    findings = Findings()
    with tempfile.TemporaryDirectory(prefix="gateway-soak-") as folder:
        async with world(Path(folder), replicas) as it, AsyncExitStack() as stack:
            await _warm(it)
            before = await _settled(it, None)
            if replicas > 1:
                before = (*before[:2], before[2] + _KEPT, before[3] + _KEPT + replicas * _STORE)
            actors = [
                Actor(it, f"caller-{number}", number % 2 == 1, Random(random.random())) for number in range(ACTORS)
            ]
            work = [asyncio.create_task(actor.act(over)) for actor in actors]
            work += [
                asyncio.create_task(make(it, Random(random.random()), over, done))
                for make in (make_trouble, make_changes)
            ]
            scrapes = Scrapes()
            memory = await _watch(it, seconds * _BEFORE_RESTART, work, scrapes)
            if replicas > 1:
                restarted = asyncio.create_task(it.restart(stack))
                memory += await _watch(it, 0, [*work, restarted], scrapes, restarted)
                codes = restarted.result()
                findings.expect("replicas that were replaced ended well", not any(codes), codes)
                memory = []  # of other processes, which begin to warm up
            memory += await _watch(it, seconds * (1 - _BEFORE_RESTART), work, scrapes)
            over.set()
            await asyncio.gather(*work)
            await _is_sound(it, findings)
            after = await _settled(it, before)
            await scrapes.look(it.admin_ports)
            _report(it, actors, done)
            _judge(it, findings, memory, before, after)
            _judge_metrics(it, findings, scrapes)
    return 1 if findings.faults else 0


async def _warm(it: World) -> None:
    """One call, so that what is made once is made."""
    async with aiohttp.ClientSession() as session:
        client = Bearer(session, it.port, it.token("first", opaque=True))
        number = it.ledger.number()
        answer = await client.call("rest", "work", {"number": number, "wait": 0})
        it.ledger.tell(number, *read("rest", number, answer))


async def _watch(
    it: World,
    seconds: float,
    work: Sequence[asyncio.Task[Any]],
    scrapes: Scrapes,
    until: asyncio.Task[Any] | None = None,
) -> list[int]:
    """Wait so long, and until a task is done. Return the bytes of memory, one figure a second. Raise what an actor
    raises."""
    begun, memory = time.monotonic(), []
    while (passed := time.monotonic() - begun) < seconds or (until is not None and not until.done()):
        ended, _ = await asyncio.wait(work, timeout=1, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
        memory.append(it.memory())
        it.backend.requests.clear()  # nobody reads them, and they are many
        if len(memory) % 10 == 0:
            told = Counter(it.ledger.told.values())
            if until is None:  # else the ports change meanwhile
                await scrapes.look(it.admin_ports)
            print(f"{passed:5.0f} s  {memory[-1] / _MIB:.0f} MiB  {dict(told)}", file=sys.stderr, flush=True)
    return memory


async def _settled(it: World, goal: tuple[int, ...] | None) -> tuple[int, ...]:
    """Calls, streams, tasks and descriptors, once they are as few as ``goal``, or have not changed for some seconds."""
    until, last, since = time.monotonic() + _SETTLING, (0, 0, 0, 0), time.monotonic()
    while time.monotonic() < until:
        now = (*await it.under_way(), it.descriptors())
        if now != last:
            last, since = now, time.monotonic()
        if goal is None and time.monotonic() - since > 6:
            break
        if goal is not None and all(one <= most for one, most in zip(now, goal, strict=True)):
            break
        await asyncio.sleep(0.5)
    return last


async def _is_sound(it: World, findings: Findings) -> None:
    """All faults are over: each surface answers, and the last listing is shown."""
    begun = time.monotonic()
    right: set[str] = set()
    async with aiohttp.ClientSession() as session:
        client = Bearer(session, it.port, it.token("last", opaque=False))
        while time.monotonic() - begun < 10 and len(right) < len(CALLS):
            for surface in CALLS:
                number = it.ledger.number()
                answer = await client.call(surface, "work", {"number": number, "wait": 0})
                told, why = read(surface, number, answer)
                if it.ledger.tell(number, told, why) == "right":
                    right.add(surface)
            await asyncio.sleep(0.1)
        findings.expect("every surface answers when all faults are over", len(right) == len(CALLS), sorted(right))
        shown: frozenset[str] = frozenset()
        while time.monotonic() - begun < 20 and shown != it.offered[-1]:
            answer = await client.list("rest")
            shown = frozenset(tools_in(answer)) if answer.status == 200 else frozenset()
            await asyncio.sleep(0.2)
        findings.expect("the last listing is shown", shown == it.offered[-1], f"{len(shown)} tools")


def _report(it: World, actors: list[Actor], done: Counter[str]) -> None:
    deeds = sum((actor.deeds for actor in actors), Counter[str]())
    print("deeds:   ", dict(deeds.most_common()))
    print("troubles:", dict(done.most_common()))
    if it.redis is not None:
        print("nginx:   ", f"{it.nginx_answers} answers of its own")
    print("told:    ", dict(Counter(it.ledger.told.values()).most_common()))
    for words, count in it.ledger.failures.most_common(_WORDS):
        print(f"{count:>10} {words}")
    for complaint in [*it.ledger.complaints, *it.wrong_lists][:_SHOWN]:
        print("    ", complaint)


def _judge(it: World, findings: Findings, memory: list[int], before: tuple[int, ...], after: tuple[int, ...]) -> None:
    ledger = it.ledger
    told = Counter(ledger.told.values())
    findings.expect(
        "calls that were answered rightly",
        told["right"] > len(ledger.told) / 2,
        f"{told['right']} of {len(ledger.told)}",
    )
    findings.expect("wrong answers", not ledger.wrong, len(ledger.wrong))
    findings.expect("calls that ran twice", not ledger.twice, len(ledger.twice))
    findings.expect("calls without an answer", not ledger.lost, len(ledger.lost))
    findings.expect("listings that the service never had", not it.wrong_lists, len(it.wrong_lists))
    for what, was, now in zip(("calls", "streams", "tasks", "descriptors"), before, after, strict=True):
        findings.expect(f"{what} left over", now <= was, f"{now} (before: {was})")
    tenth = max(1, len(memory) // 10)
    start = int(len(memory) * _WARM)
    early, late = statistics.median(memory[start : start + tenth]), statistics.median(memory[-tenth:])
    findings.expect(
        "memory at the end / after the warm-up", late <= GROWTH * early, f"{late / early:.3f} ({late / _MIB:.0f} MiB)"
    )
    unexpected = [line for line in it.all_lines() if any(word in line for word in _BROKEN)]
    findings.expect("failures of the gateway itself in its log", not unexpected, len(unexpected))
    for line in unexpected[:_SHOWN]:
        print("    ", line[:1000])


def _judge_metrics(it: World, findings: Findings, scrapes: Scrapes) -> None:
    findings.expect("counters that went back", not scrapes.gone_back, len(scrapes.gone_back))
    for line in scrapes.gone_back[:_SHOWN]:
        print("    ", line)
    findings.expect("lines of metrics of one gateway", scrapes.most <= _LINES, scrapes.most)
    if len(it.replicas) == 1:  # a replaced one took its counters with it
        counted, lost = scrapes.sum("mcp_gateway_requests_total"), scrapes.sum("mcp_gateway_log_lines_lost_total")
        logged = sum('"event":"request"' in line for line in it.all_lines())
        findings.expect("requests counted, logged + lost", counted == logged + lost, f"{counted}, {logged} + {lost}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.soak")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--replicas", type=int, default=1)
    given = parser.parse_args(arguments)
    print(f"seed {given.seed}, {given.minutes:g} minutes, {given.replicas} gateways", flush=True)
    return asyncio.run(soak(given.minutes * 60, given.seed, given.replicas))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
