"""The operator's own listing as a catalog, for when the backend's cannot be had."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from gateway.model import Catalog, Listing


class FallbackCatalog:
    """Built on first use. ``build`` makes a catalog of the ``listing``."""

    def __init__(self, listing: Listing | None, build: Callable[[Listing], Awaitable[Catalog]]) -> None:
        self._listing = listing
        self._build = build
        self._catalog: Catalog | None = None
        self._building = asyncio.Lock()

    async def catalog(self) -> Catalog | None:
        """Return None where the operator gave no listing. Raises what building raises."""
        async with self._building:  # whoever comes meanwhile gets the same
            if self._catalog is None and self._listing is not None:
                self._catalog = await self._build(self._listing)
            return self._catalog

    def invalidate(self) -> None:
        """Build anew the next time."""
        self._catalog = None
