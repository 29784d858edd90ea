"""The operator's own listing as a catalog, for when the backend's cannot be had."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from gateway.model import Catalog, Listing
from gateway.settings import CatalogSettings


class Fallback:
    """Built on first use, and again when the knobs or the ``listing`` change. ``made`` is the catalog of the last
    time."""

    def __init__(
        self,
        listing: Listing | None,
        build: Callable[[Listing], Awaitable[Catalog]],
        settings: Callable[[], CatalogSettings],
    ) -> None:
        self.made: Catalog | None = None
        self.listing = listing
        self._build = build
        self._settings = settings
        self._made_by: tuple[CatalogSettings, Listing] | None = None
        self._making = asyncio.Lock()

    async def catalog(self) -> Catalog | None:
        """None where the operator gave no listing. Raises what building raises."""
        async with self._making:  # whoever comes meanwhile gets the same
            listing, settings = self.listing, self._settings()
            if listing is None:
                return None
            by = self._made_by
            if self.made is None or by is None or by[0] is not settings or by[1] is not listing:
                self.made = await self._build(listing)
                self._made_by = settings, listing
            return self.made

    def forget(self) -> None:
        """Build anew the next time."""
        self._made_by = None
