"""Count the requests of one service, so that a reload can wait for the last one."""

from __future__ import annotations

import asyncio


class UseCounter:
    """Count the running requests of one service, which is closed after the last one. It is a context manager that can
    be entered many times at once."""

    def __init__(self) -> None:
        self._count = 0
        self._idle: asyncio.Event | None = None  # made for those who wait
        self._given_up = False

    def __repr__(self) -> str:
        return f"<Uses {self._count}>"

    def __enter__(self) -> None:
        self._count += 1

    def __exit__(self, *_: object) -> None:
        self._count -= 1
        if self._idle is not None and not self._count:
            self._idle.set()

    async def wait_until_idle(self) -> None:
        """Return once no request is running."""
        if self._count and not self._given_up:
            self._idle = self._idle or asyncio.Event()
            self._idle.clear()
            await self._idle.wait()

    def give_up(self) -> None:
        """End all waits at once, although requests are running: the shutdown's time is over."""
        self._given_up = True
        if self._idle is not None:
            self._idle.set()
