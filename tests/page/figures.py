"""What a person waits for: first paint of a page with thousands of tools, and the bytes of the files of the pages."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.page import browse
from tests.page.shop import listing, many

STATIC: Final = Path(__file__).parents[2] / "gateway" / "web" / "static"
MOST_MS: Final = 300.0
MOST_KILOBYTES: Final = 60.0
_RUNS: Final = 5


async def first_paints() -> list[float]:
    """Milliseconds from the request for a page with 5,000 tools to its first paint, of some runs after a first one."""
    async with listing(many()) as shop:
        return [await browse("paint", url=f"{shop.url}/") for _ in range(_RUNS + 1)][1:]


def kilobytes_of_files() -> float:
    """Return the size of the one style sheet and the one script, as they are sent."""
    return sum(file.stat().st_size for file in STATIC.iterdir()) / 1000
