"""Build the catalog of the operator's own listing, which serves where the backend gives none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from gateway.model import Catalog, Listing


class FallbackCatalog:
    """Hold the catalog that ``build`` makes of the ``listing`` on first use."""

    def __init__(self, listing: Listing | None, build: Callable[[Listing], Awaitable[Catalog]]) -> None:
        self._listing = listing
        self._build = build
        self._catalog: Catalog | None = None
        self._building = asyncio.Lock()

    async def catalog(self) -> Catalog | None:
        """Return the catalog, or None where the operator gave no listing. Raises what ``build`` raises."""
        async with self._building:  # callers that come meanwhile wait, and get the same catalog
            if self._catalog is None and self._listing is not None:
                self._catalog = await self._build(self._listing)
            return self._catalog

    def invalidate(self) -> None:
        """Forget the catalog, so that the next use builds it again."""
        self._catalog = None
