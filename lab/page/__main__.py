"""``make page``: look at the pages in Chromium, and write the pictures of docs/page and the figures of the pages.

Prints the first paint of a page with 5,000 tools (the median of five), and how many bytes the files of the pages have.
Exit code: 0 where both are within their bars, 1 where one is not.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.page import browse
from tests.page.figures import MOST_KILOBYTES, MOST_MS, first_paints, kilobytes_of_files
from tests.page.shop import MANY, bookshop

PICTURES: Final = Path(__file__).parents[2] / "docs" / "page"


async def pictures() -> None:
    """Write each page in both themes."""
    size: dict[str, Any] = {"width": 1100, "height": 1180}

    def shot(url: str, name: str, act: str = "") -> dict[str, Any]:
        return {"url": url, "file": str(PICTURES / f"{name}-THEME.png"), "act": act, **size}

    async with bookshop("server.port=8080", "server.admin_port=9090") as shop:
        shots = [shot(f"{shop.url}/", "service"), shot(f"{shop.url}/page/books.search", "tool", '{"query": "sea"}')]
        await browse("shoot", shots=shots)
    away = ("services.crm.backend.url=http://127.0.0.1:9/jsonrpc", "services.books.catalog.exclude=[orders.*]")
    async with bookshop(*away, name="books") as shop:
        await browse("shoot", shots=[shot(f"{shop.admin}/", "admin")])


async def main() -> int:
    """Print the figures, and write the pictures."""
    paint, size = median(await first_paints()), kilobytes_of_files()
    print(f"first paint with {MANY:,} tools   {paint:6.0f} ms   at most {MOST_MS:.0f} ms")
    print(f"style sheet and script          {size:6.1f} kB   at most {MOST_KILOBYTES:.0f} kB")
    await pictures()
    print(f"written: {', '.join(sorted(file.name for file in PICTURES.iterdir()))}. Look at them.")
    return 0 if paint <= MOST_MS and size <= MOST_KILOBYTES else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
