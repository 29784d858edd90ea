"""Pages of a catalog, serialized once.

A page is the JSON array of its tools, as one era shows them: a part of each answer that is not serialized again. Pages
are made on first use in a cache bounded by bytes, the first of each ahead of time.
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
"""Many clients read one page only, so pages are large, and clients have limits, so they are not larger."""


class Projector(Protocol):
    """How one era, or REST, shows a tool. Equal ``key``\\ s show alike."""

    @property
    def key(self) -> str: ...

    def project(self, tool: Tool) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Page:
    """``tools`` is a JSON array; ``last`` the name after which the next page goes on, None on the last page."""

    tools: Raw
    last: str | None


class PageCache:
    def __init__(self, max_bytes: int = 64 * 1024 * 1024) -> None:
        self._pages: LRUCache[tuple[str, str, int, int], Page] = LRUCache(
            max_bytes, getsizeof=lambda page: len(page.tools) + 200
        )

    def get_page(self, catalog: Catalog, projector: Projector, after: str | None, size: int) -> Page:
        """The page that starts behind the name ``after``, which need not be there any more."""
        start = 0 if after is None else bisect_right(catalog.names, after)
        key = (catalog.digest, projector.key, start, size)
        page = self._pages.get(key)
        if page is None:
            page = _page(catalog, projector, start, size)
            if self._pages.getsizeof(page) <= self._pages.maxsize:
                self._pages[key] = page
        return page

    def prepare_first_pages(self, catalog: Catalog, projectors: Iterable[Projector], size: int) -> None:
        """Make the first page for each of the projectors."""
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
