"""What is under way with a service that may be replaced."""

from __future__ import annotations

import asyncio


class UseCounter:
    """Count what goes on with one service, so that it is let go of after its last call. A context manager that may be
    entered many times."""

    def __init__(self) -> None:
        self._count = 0
        self._none = asyncio.Event()
        self._none.set()

    def __repr__(self) -> str:
        return f"<Uses {self._count}>"

    def __enter__(self) -> None:
        self._count += 1
        self._none.clear()

    def __exit__(self, *_: object) -> None:
        self._count -= 1
        if not self._count:
            self._none.set()

    async def wait_until_idle(self) -> None:
        """Return once nothing is under way."""
        await self._none.wait()

    def give_up(self) -> None:
        """Have nobody wait for what is still under way."""
        self._none.set()
