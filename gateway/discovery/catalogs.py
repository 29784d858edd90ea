"""Build catalogs of listings, each once, without output schemas that the results broke."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Final
from weakref import WeakValueDictionary

from cachetools import LRUCache

from gateway.catalog.build import Builder
from gateway.catalog.pins import schema_digest
from gateway.discovery.views import check_listing_size
from gateway.model import Catalog, Listing, Tool
from gateway.settings import CatalogSettings

MAX_METHODS: Final = 10_000
MAX_SCHEMAS: Final = 8
"""Broken schemas that are remembered of one method: views may list it with different ones."""
_NOTE: Final = "a result broke it"


class BrokenOutputSchemas:
    """Hold the digests of output schemas that a result violated: clients refuse such a result, so the tool is listed
    without the schema until the listing has another one. ``version`` grows with each. ``after_recording`` is called
    with each method and digest that this process found. It may not raise."""

    def __init__(self) -> None:
        self.version = 0
        self._broken: LRUCache[str, deque[str]] = LRUCache(MAX_METHODS)
        self._stripped: LRUCache[str, Tool] = LRUCache(MAX_METHODS)
        self.after_recording: Callable[[str, str], None] = lambda *_: None

    @property
    def recorded(self) -> Iterator[tuple[str, str]]:
        """Yield methods and digests, the last methods first."""
        return ((method, digest) for method in reversed(list(self._broken)) for digest in self._broken[method])

    def record(self, tool: Tool) -> bool:
        """Record that a result violated the tool's output schema. Return False where that was known."""
        broken = schema_digest(tool.output_schema)
        if not self.adopt(tool.method, broken):
            return False
        self.after_recording(tool.method, broken)
        return True

    def adopt(self, method: str, digest: str) -> bool:
        """Record what a result violated, here or on another replica. Return False where that was known."""
        schemas = self._broken.setdefault(method, deque(maxlen=MAX_SCHEMAS))
        if digest in schemas:
            return False
        schemas.append(digest)
        self.version += 1
        return True

    def strip(self, catalog: Catalog) -> Catalog:
        """Return the catalog without the broken schemas; the same object where it has none."""
        if not self._broken:
            return catalog
        tools = tuple(self._strip_tool(tool) if tool.method in self._broken else tool for tool in catalog.tools)
        if all(ours is theirs for ours, theirs in zip(tools, catalog.tools, strict=True)):
            return catalog
        return replace(catalog, tools=tools)

    def _strip_tool(self, tool: Tool) -> Tool:
        if tool.output_schema is None or schema_digest(tool.output_schema) not in self._broken[tool.method]:
            return tool
        bare = self._stripped.get(tool.digest)
        if bare is None:
            bare = replace(tool, output_schema=None, meta={**tool.meta, "outputSchemaDropped": _NOTE})
            self._stripped[tool.digest] = bare
        return bare


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
        remarks = attrgetter("dialect", "quarantined", "notes", "service")
        return known if remarks(known) == remarks(catalog) else catalog
