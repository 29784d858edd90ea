"""Build catalogs of listings, each once. Equal catalogs of different callers are one object in memory."""

from __future__ import annotations

from weakref import WeakValueDictionary

from gateway.catalog.build import Builder
from gateway.discovery.broken_output_schemas import BrokenOutputSchemas
from gateway.discovery.shrink_guard import check_listing_size
from gateway.model import Catalog, Listing
from gateway.settings import CatalogSettings


class Catalogs:
    """Build catalogs by one service's settings, without the schemas in ``broken_output_schemas``."""

    def __init__(self, builder: Builder, settings: CatalogSettings, broken_output_schemas: BrokenOutputSchemas) -> None:
        self._builder = builder
        self._settings = settings
        self._broken_output_schemas = broken_output_schemas
        self._by_listing: WeakValueDictionary[str, Catalog] = WeakValueDictionary()
        self._by_digest: WeakValueDictionary[str, Catalog] = WeakValueDictionary()

    async def build_catalog(self, listing: Listing) -> Catalog:
        """Return the catalog of a listing. Raises :class:`~gateway.listing.dialect.NoListing` beyond ``MAX_TOOLS``."""
        check_listing_size(listing, self._settings)
        catalog = self._by_listing.get(listing.digest) if listing.digest else None
        if catalog is None:
            catalog = await self._builder.build_catalog(listing, self._settings)
            if listing.digest:
                self._by_listing[listing.digest] = catalog
        return self._broken_output_schemas.strip(catalog)

    def intern(self, catalog: Catalog) -> Catalog:
        """Return the first catalog that was given here and equals this one."""
        known = self._by_digest.setdefault(catalog.digest, catalog)
        return known if _remarks(known) == _remarks(catalog) else catalog


def _remarks(catalog: Catalog) -> tuple[object, ...]:
    return catalog.dialect, catalog.quarantined, catalog.notes, catalog.service
