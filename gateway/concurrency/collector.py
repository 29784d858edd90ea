"""Keep Python's garbage collector from holding the event loop."""

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

LARGE: Final = 500
"""Tools with which catalogs are frozen."""
_OFTEN: Final = (3_000, 2, 1_000_000)
"""Thresholds with which a collection takes a few milliseconds, and none goes through all objects."""
_LONGEST: Final = 10.0
"""Seconds for which pauses may put off what is to be collected: listings that hang can follow each other for ever."""


class GarbageCollector:
    """Keep the process's garbage collector, which :data:`COLLECTOR` controls, from stopping it for a large listing.

    A full collection visits every object. With a listing of some thousand methods it takes about 0.1 s, and reading the
    listing starts several. A catalog has no reference cycles, so reference counts free it once it is replaced."""

    def __init__(self) -> None:
        self._pauses = 0
        self._usual_thresholds = gc.get_threshold()
        self._is_wanted = False
        self._since = 0.0
        """When the pause began, or the last full collection within it."""
        self._hosts = 0
        self._grown = 0

    @contextmanager
    def left_alone(self) -> Iterator[None]:
        """Do nothing within the block: the process is another program's, of which the gateway is a part."""
        self._hosts += 1
        try:
            yield
        finally:
            self._hosts -= 1

    @contextmanager
    def gc_paused(self) -> Iterator[None]:
        """Start no full collection within the block; those of young objects come more often, and each takes less time.
        Blocks may overlap."""
        if self._hosts:
            yield
            return
        if not self._pauses:
            self._usual_thresholds = gc.get_threshold()
            gc.set_threshold(*_OFTEN)
            self._since = time.monotonic()
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                gc.set_threshold(*self._usual_thresholds)
            if self._is_wanted and self._may_collect():
                asyncio.get_running_loop().call_soon(self.collect)

    def tune(self, thresholds: tuple[int, int, int]) -> None:
        """Exclude the objects made at start from collections, which would take tens of milliseconds each time."""
        gc.collect()
        gc.freeze()
        self._usual_thresholds = thresholds
        if not self._pauses:
            gc.set_threshold(*thresholds)

    def collect(self) -> None:
        """Collect all garbage, at the end of the last pause if there is one that is not long already."""
        self._is_wanted = not self._may_collect()
        if not self._is_wanted:
            self._since = time.monotonic()
            gc.collect()

    def _may_collect(self) -> bool:
        return not self._pauses or time.monotonic() - self._since > _LONGEST

    def grow(self, tools: int) -> None:
        """Note so many new tools of a catalog, large or not, and freeze them once they are many."""
        self._grown += tools
        if self._grown >= LARGE:
            self._grown = 0
            self.freeze()

    def freeze(self) -> None:
        """Exclude all current objects from later collections. Garbage in cycles among them (connections and tasks that
        just ended, a service that was replaced) stays until :meth:`look_through`."""
        if not self._hosts:
            gc.collect(1)
            gc.freeze()

    def look_through(self) -> None:
        """Collect the garbage among frozen objects. That takes about 0.1 s with a large listing."""
        if gc.get_freeze_count() and not self._hosts:
            gc.unfreeze()
            gc.collect()
            gc.freeze()


COLLECTOR: Final = GarbageCollector()
