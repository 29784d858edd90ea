"""Serialize pages of a catalog, each once.

A page is the JSON array of its tools in the form of one era. Answers contain it as it is. Pages are made on first use,
the first page of each catalog in advance, and kept in a cache that is bounded in bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from cachetools import LRUCache

from gateway import jsonrpc
from gateway.jsonrpc import Raw
from gateway.model import Catalog, Tool

MAX_PAGE_BYTES: Final = 1024 * 1024
"""Bytes of a page: many, since many clients read the first page only; not more, since clients have limits."""


class Projector(Protocol):
    """Make the entry of a tool for one era, or for REST. Projectors with the same ``key`` make the same entries."""

    @property
    def key(self) -> str: ...

    def project(self, tool: Tool) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Page:
    """Hold ``tools``, a JSON array, and ``last``, the name after which the next page begins; None on the last page."""

    tools: Raw
    last: str | None


class PageCache:
    """Keep pages, at most ``max_bytes`` of them; the least recently used ones go first."""

    def __init__(self, max_bytes: int = 64 * 1024 * 1024) -> None:
        self._pages: LRUCache[tuple[str, str, int, int], Page] = LRUCache(
            max_bytes, getsizeof=lambda page: len(page.tools) + 200
        )

    def __repr__(self) -> str:
        return f"<PageCache {len(self._pages)} pages, {self._pages.currsize} of {self._pages.maxsize} bytes>"

    def get_page(self, catalog: Catalog, projector: Projector, after: str | None, size: int) -> Page:
        """Return the page that begins behind the name ``after``, which the catalog need not have any more."""
        start = 0 if after is None else bisect_right(catalog.names, after)
        key = (catalog.digest, projector.key, start, size)
        try:
            return self._pages[key]
        except KeyError:
            page = _page(catalog, projector, start, size)
            if self._pages.getsizeof(page) <= self._pages.maxsize:
                self._pages[key] = page
            return page

    def prepare_first_pages(self, catalog: Catalog, projectors: Iterable[Projector], size: int) -> None:
        """Make the first page for each projector, so that no client waits for it."""
        for projector in projectors:
            self.get_page(catalog, projector, None, size)


def _page(catalog: Catalog, projector: Projector, start: int, size: int) -> Page:
    parts: list[Raw] = []
    weight = 0
    for tool in catalog.tools[start : start + size]:
        part = jsonrpc.encode(projector.project(tool))
        weight += len(part)
        if parts and weight > MAX_PAGE_BYTES:
            break
        parts.append(Raw(part))
    end = start + len(parts)
    last = catalog.tools[end - 1].name if end < len(catalog.tools) else None
    return Page(Raw(jsonrpc.encode(parts)), last)
