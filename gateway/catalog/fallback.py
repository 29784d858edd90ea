"""The operator's own listing as a catalog, for when the backend's cannot be had."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from gateway.model import Catalog, Listing
from gateway.settings import CatalogSettings


class Fallback:
    """Built on first use, and again when the knobs change. ``made`` is the catalog of the last time."""

    def __init__(
        self,
        listing: Listing | None,
        build: Callable[[Listing], Awaitable[Catalog]],
        settings: Callable[[], CatalogSettings],
    ) -> None:
        self.made: Catalog | None = None
        self._listing = listing
        self._build = build
        self._settings = settings
        self._made_by: CatalogSettings | None = None
        self._making = asyncio.Lock()

    async def catalog(self) -> Catalog | None:
        """None where the operator gave no listing. Raises what building raises."""
        if self._listing is None:
            return None
        async with self._making:  # whoever comes meanwhile gets the same
            settings = self._settings()
            if self.made is None or self._made_by is not settings:
                self.made = await self._build(self._listing)
                self._made_by = settings
            return self.made

    def forget(self) -> None:
        """Build anew the next time."""
        self._made_by = None
