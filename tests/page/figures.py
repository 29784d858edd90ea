"""What a page with thousands of tools costs: its first paint, the time that all others wait, the bytes of its files."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final

from aiohttp import ClientSession

from tests.page import browse
from tests.page.shop import listing, many

STATIC: Final = Path(__file__).parents[2] / "gateway" / "web" / "static"
MOST_MS: Final = 300.0
MOST_MS_HELD: Final = 10.0
MOST_KILOBYTES: Final = 60.0
_RUNS: Final = 5


async def first_paints() -> list[float]:
    """Milliseconds from the request for a page with 5,000 tools to its first paint, of some runs after a first one."""
    async with listing(many()) as shop:
        return [await browse("paint", url=f"{shop.url}/") for _ in range(_RUNS + 1)][1:]


async def milliseconds_held() -> list[float]:
    """Milliseconds for which a page of 200 tools of 5,000 keeps the event loop's thread at work without a turn for
    others, of some requests after a first one."""
    found = []
    async with listing(many()) as shop, ClientSession() as session:
        for _ in range(_RUNS + 1):
            before, held = time.thread_time(), 0.0
            task = asyncio.create_task(_read(session, f"{shop.url}/"))
            while not task.done():
                await asyncio.sleep(0.001)
                now = time.thread_time()
                held, before = max(held, now - before), now
            found.append(held * 1000)
            task.result()
    return found[1:]


async def _read(session: ClientSession, url: str) -> None:
    async with session.get(url) as response:
        response.raise_for_status()
        await response.read()


def kilobytes_of_files() -> float:
    """Return the size of the one style sheet and the one script, as they are sent."""
    return sum(file.stat().st_size for file in STATIC.iterdir()) / 1000
