"""A service whose listing is other each time: ``python -m lab.fault.lister``, which prints its URL."""

from __future__ import annotations

import asyncio
import os
from typing import Final

from tests.fault.behaviours import Behaviour, Exchange, result
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend

_METHODS: Final = 60


class _Grows(Behaviour):
    """List other descriptions each time, so that no catalog is that of before."""

    def __init__(self) -> None:
        self._asked = 0

    async def play(self, exchange: Exchange) -> None:
        self._asked += 1
        words = f"Do something useful, for the {self._asked}. time, with what is given. " * 4
        params = {f"param{number}": {"type": "string", "description": words} for number in range(4)}
        methods = [Rpc(f"method{number}", params, summary=words).listed() for number in range(_METHODS)]
        listing = {"openrpc": "1.3.2", "info": {"title": "Large", "version": "1"}, "methods": methods}
        await result(listing).play(exchange)


async def main() -> None:
    os.nice(19)  # what it takes of the core of the load is what that leaves
    async with ScriptedBackend() as large:
        large.on("rpc.discover", _Grows())
        print(large.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
