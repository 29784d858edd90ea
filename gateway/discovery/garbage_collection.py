"""Keeps the garbage collector from stopping everybody because of a large listing.

A full collection looks at every object there is. A listing of some thousand methods is hundreds of thousands of them:
one collection then takes about 0.1 s, and reading the listing sets off several. None of these objects is ever garbage
in the collector's sense, since a catalog holds no cycles and goes away by reference counts once it is replaced.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

LARGE: Final = 500
"""Methods from which a listing is worth setting aside."""
_NEVER: Final = 1_000_000


class GarbageCollector:
    """The process's garbage collector. There is one of it, so there is one of these: :data:`COLLECTOR`."""

    def __init__(self) -> None:
        self._pauses = 0
        self._usual_threshold = 0

    @contextmanager
    def gc_paused(self) -> Iterator[None]:
        """No full collection is started within; those of young objects go on. May overlap."""
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
        """Have no later collection look at what lives now. Cycles of older objects that nobody uses by now stay
        until :meth:`look_through`: some connections and tasks that just ended, or a service that was replaced."""
        gc.collect(1)
        gc.freeze()

    def look_through(self) -> None:
        """Collect what was set aside and is used no more. That takes about 0.1 s with a large listing."""
        if gc.get_freeze_count():
            gc.unfreeze()
            gc.collect()
            gc.freeze()


COLLECTOR: Final = GarbageCollector()
