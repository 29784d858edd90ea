"""Give memory back to the system after a flood. The C library would keep it for a process that may never need it."""

from __future__ import annotations

import asyncio
import ctypes
import gc
from typing import Final

_MUCH: Final = 2 * 1024 * 1024
"""Bytes whose end is worth it: less is soon used again."""
_LITTLE: Final = 1 / 4
"""The part of the most that was held, below which most of it is free."""
_DELAY: Final = 4.0
"""Seconds until then, so that a collection takes a hundredth of the time at most. What ends meanwhile is included."""
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""Function of glibc; None elsewhere."""


class FreedMemory:
    """Notice when little is held of much, and then give memory back."""

    def __init__(self) -> None:
        self._most = 0
        self._timer: asyncio.TimerHandle | None = None

    def note(self, held: int) -> None:
        """Note how many bytes are held, after there were more or less."""
        if held > self._most:
            self._most = held
        elif self._most > _MUCH and held < self._most * _LITTLE and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_DELAY, self._give_back)
            self._most = held

    def _give_back(self) -> None:
        self._timer = None
        gc.collect()  # errors and tasks refer to each other in circles, and to bodies
        if _trim is not None:
            _trim(0)
