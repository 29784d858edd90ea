"""``make observe-test``: cause each failure, and see its alert arrive once. Exit 1 where one is missing or comes twice.

``python -m lab.observe [WORDS]`` plays the alerts with these words in their names.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.observe.causes import CAUSES
from lab.observe.scene import NAME, Scene
from lab.observe.watch import Watch
from tests.monitoring import alerts

FACTOR: Final = 60
"""Of the rules' durations: a minute becomes a second."""
_AT_ONCE: Final = 3
"""Scenes that are played side by side: a machine of two cores bears so many."""
_PATIENCE: Final = 150.0
"""Seconds until an alert has to come."""
_HELD: Final = 5.0
"""Seconds for which the cause goes on after that: it must not come again."""
QUIET: Final = f"quiet-{NAME}"


@dataclass(frozen=True)
class Line:
    """A row of the table; ``times`` is how often the alert came."""

    alert: str
    cause: str
    seconds: float
    times: int
    beside: tuple[str, ...] = ()
    why: str = ""

    @property
    def good(self) -> bool:
        return self.times == 1 and not self.why

    def __str__(self) -> str:
        seconds = f"{self.seconds:6.1f}" if self.times else "     -"
        beside = f"  (also {', '.join(self.beside)})" if self.beside else ""
        verdict = "once" if self.good else f"MISSED: {self.why or f'came {self.times} times'}"
        return f"{self.alert:<30} {self.cause:<52} {seconds} s  {verdict}{beside}"


async def play(alert: str, watch: Watch) -> Line:
    """Bring an alert about, and return what came."""
    words, cause = CAUSES[alert]
    job = f"{alert.removeprefix('McpGateway').lower()}-{NAME}"
    why = ""
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(job, watch, Path(folder), AsyncExitStack())
        try:
            await cause(scene)
            await watch.told(alert, job, within=_PATIENCE)
            await asyncio.sleep(_HELD)
        except Exception as failure:  # the others are played all the same
            why = f"{type(failure).__name__}: {failure}"[:300]
        came = watch.of(alert, job)
        await scene.end()
    beside = {one.alert for one in watch.notices if one.job == job and one.status == "firing"} - {alert}
    seconds = came[0].at - scene.caused if came else 0.0
    return Line(alert, words, seconds, len(came), tuple(sorted(beside)), why)


async def main(words: list[str]) -> int:
    chosen = [alert for alert in CAUSES if all(word.lower() in alert.lower() for word in words)]
    begun = time.monotonic()
    places = asyncio.Semaphore(_AT_ONCE)
    with tempfile.TemporaryDirectory() as folder:
        async with Watch(Path(folder), FACTOR) as watch:
            quiet = Scene(QUIET, watch, Path(folder), AsyncExitStack())
            backend = await quiet.service()
            await quiet.gateway(backend.url)
            await quiet.calls(5)

            async def one(alert: str) -> Line:
                async with places:
                    line = await play(alert, watch)
                    print(line, flush=True)
                    return line

            lines = await asyncio.gather(*(one(alert) for alert in chosen))
            loud = sorted({notice.alert for notice in watch.notices if notice.job == QUIET})
            await quiet.end()
    missing = sorted(alerts().keys() - CAUSES.keys())
    good = all(line.good for line in lines) and not loud and not missing
    print(
        f"\n{sum(line.good for line in lines)} of {len(chosen)} alerts arrived once, {time.monotonic() - begun:.0f} s"
    )
    print(f"a gateway that nothing happened to: {', '.join(loud) or 'no alert'}")
    if missing:
        print(f"no cause for {', '.join(missing)}")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main(sys.argv[1:])))
