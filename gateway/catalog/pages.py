"""Serialize pages of a catalog, each once.

A page is the JSON array of its tools in the form of one era, which responses contain as it is.
"""

from bisect import bisect_right
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from cachetools import LRUCache

from gateway import jsonrpc
from gateway.concurrency.turns import Turns, run_at_once, run_in_turns
from gateway.jsonrpc import Raw
from gateway.model import Catalog, Tool

MAX_PAGE_BYTES: Final = 8 * 1024 * 1024
"""Maximum bytes of a page: many, since half of the agent frameworks read the first page alone."""
_Key: TypeAlias = tuple[str, str, int, int]
_SMALL: Final = 500
"""Tools of a catalog whose page holds the event loop for some 10 ms."""


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
    """Keep pages, made on first use, at most ``max_bytes`` of them; the least recently used ones go first."""

    def __init__(self, max_bytes: int = 64 * 1024 * 1024) -> None:
        self._pages: LRUCache[_Key, Page] = LRUCache(max_bytes, getsizeof=lambda page: len(page.tools) + 200)

    async def get_page(self, catalog: Catalog, projector: Projector, after: str | None, size: int) -> Page:
        """Return the page that begins behind the name ``after``, which the catalog need not have any more. Other tasks
        get their turn while a large one is made."""
        start = 0 if after is None else bisect_right(catalog.names, after)
        key = (catalog.digest, projector.key, start, size)
        try:
            return self._pages[key]
        except KeyError:
            page: Page = await run_in_turns(_page(catalog, projector, start, size), Turns())
            self._keep(key, page)
            return page

    def prepare_first_pages(self, catalog: Catalog, projectors: Iterable[Projector], size: int) -> None:
        """Make the first page for each projector, so that no client waits for it. That of a large catalog would hold up
        all clients, and is left to the first one."""
        for projector in projectors if len(catalog.tools) <= _SMALL else ():
            key = (catalog.digest, projector.key, 0, size)
            if key not in self._pages:
                self._keep(key, run_at_once(_page(catalog, projector, 0, size)))

    def _keep(self, key: _Key, page: Page) -> None:
        if self._pages.getsizeof(page) <= self._pages.maxsize:
            self._pages[key] = page


def _page(catalog: Catalog, projector: Projector, start: int, size: int) -> Generator[None, None, Page]:
    parts: list[Raw] = []
    weight = 0
    for tool in catalog.tools[start : start + size]:
        part = jsonrpc.encode(projector.project(tool))
        weight += len(part)
        if parts and weight > MAX_PAGE_BYTES:
            break
        parts.append(Raw(part))
        yield
    end = start + len(parts)
    last = catalog.tools[end - 1].name if end < len(catalog.tools) else None
    return Page(Raw(jsonrpc.encode(parts)), last)
