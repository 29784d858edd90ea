"""Count the requests of one service, so that a reload can wait for the last one."""

from __future__ import annotations

import asyncio


class UseCounter:
    """Count the running requests of one service, which is closed after the last one. It is a context manager that can
    be entered many times at once. Who enters often may count in :attr:`running` itself, and calls :meth:`note_end`
    where :attr:`is_awaited`."""

    def __init__(self) -> None:
        self.running = 0
        self.is_awaited = False
        self._idle: asyncio.Event | None = None  # made for those who wait
        self._given_up = False

    def __repr__(self) -> str:
        return f"<Uses {self.running}>"

    def __enter__(self) -> None:
        self.running += 1

    def __exit__(self, *_: object) -> None:
        self.running -= 1
        if self.is_awaited:
            self.note_end()

    def note_end(self) -> None:
        """Note that a request has ended."""
        if self._idle is not None and not self.running:
            self._idle.set()

    async def wait_until_idle(self) -> None:
        """Return once no request is running."""
        if self.running and not self._given_up:
            self.is_awaited = True
            self._idle = self._idle or asyncio.Event()
            self._idle.clear()
            await self._idle.wait()

    def give_up(self) -> None:
        """End all waits at once, although requests are running: the shutdown's time is over."""
        self._given_up = True
        if self._idle is not None:
            self._idle.set()
