"""Kill each replica with SIGKILL, twice, while everybody calls. Only calls under way there fail."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from lab.deploy.load import Call
from lab.deploy.proofs import Proofs
from lab.deploy.rolled import everybody
from lab.deploy.services import GONE, LATER, SERVICES, SLOW
from lab.deploy.world import PEOPLE, World
from tests.waiting import until

ROUNDS: Final = 2
SERVED: Final = (*(name for name in SERVICES if name != GONE), LATER)


@dataclass(frozen=True)
class Kill:
    """A replica, by its address, and from when until when calls may have been under way there that failed: its end, and
    the moment when nginx was told."""

    address: str
    killed: float
    out: float

    def explains(self, call: Call) -> bool:
        """Return whether the call was under way at this replica. nginx says whom it asked last, if it answered."""
        asked = call.replica.rpartition(", ")[2]
        return call.began <= self.out and call.ended >= self.killed and asked in ("", self.address)


async def row(it: World, proofs: Proofs) -> None:
    proofs.head(f"Under load: each replica is killed with SIGKILL, {ROUNDS} times")
    start = len(it.load.calls)
    everybody(it.load, SERVED)
    it.load.begin("books", SLOW, PEOPLE, 1.0)
    await it.load.more(200)
    kills = [await _kill(it, number) for _ in range(ROUNDS) for number in range(len(it.cluster.pods))]
    await it.load.more(200)
    await it.load.end()
    calls = it.load.calls[start:]
    cut = [call for call in calls if call.told == "cut"]
    ran = sum(bool(it.load.runs[call.number]) for call in cut)
    proofs.prove("replicas killed and started again by the kubelet", len(kills), len(kills) == ROUNDS * 3)
    proofs.prove("calls in all", len(calls), calls)
    proofs.surfaces(calls)
    proofs.prove(
        "calls that ended with nginx's 502 or 504, or a cut stream", f"{len(cut)}, of which {ran} had run", cut
    )
    stray = [call for call in cut if not any(kill.explains(call) for kill in kills)]
    proofs.none("of these, calls that were not under way at a replica that was killed", stray)
    proofs.none("all other calls that are not 200", [call for call in calls if call.told not in ("right", "cut")])
    proofs.honest(it.load, calls)


async def _kill(it: World, number: int) -> Kill:
    """Kill a replica, and wait until all are there again."""
    clock = asyncio.get_running_loop().time
    pod = it.cluster.pods[number]
    # Of calls that were sent and are not answered, some are at each replica, since nginx asks them in turn.
    await until(lambda: sum(it.load.runs[number] for number in list(it.load.under_way)) >= 3)
    killed = clock()
    pod.kill()
    await until(lambda: not pod.ready)
    out = clock()
    await pod.until_ready()
    await it.load.more(100)
    return Kill(f"127.0.0.1:{pod.port}", killed, out)
