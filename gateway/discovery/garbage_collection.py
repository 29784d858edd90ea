"""Keep the garbage collector from stopping the process for a large listing.

A full collection visits every object. A listing of some thousand methods has hundreds of thousands of objects: one
collection then takes about 0.1 s, and reading the listing starts several. None of these objects is ever garbage in the
collector's sense: a catalog has no reference cycles, so reference counts free it once it is replaced.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

LARGE: Final = 500
"""Tools from which a catalog is frozen."""
_NEVER: Final = 1_000_000


class GarbageCollector:
    """Control the process's garbage collector. The process has one, so there is one of these: :data:`COLLECTOR`."""

    def __init__(self) -> None:
        self._pauses = 0
        self._usual_threshold = 0
        self._hosts = 0

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
        """Start no full collection within the block; those of young objects continue. Blocks may overlap."""
        if self._hosts:
            yield
            return
        young, middle, old = gc.get_threshold()
        if not self._pauses:
            self._usual_threshold = old
            gc.set_threshold(young, middle, _NEVER)
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                gc.set_threshold(young, middle, self._usual_threshold)

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
