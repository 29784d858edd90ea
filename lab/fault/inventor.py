"""Strangers that invent tokens: ``python -m lab.fault.inventor PORT RATE ADDRESS …``, so many a second of each address.
A process of its own, which gives way to others on its core."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from contextlib import suppress
from typing import Final

UNDER_WAY: Final = "tokens are invented"
_HEAD: Final = (
    "GET /mcp/tools/list HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer made-up-{}\r\nConnection: close\r\n\r\n"
)


async def main(port: int, rate: float, addresses: list[str]) -> None:
    os.nice(10)
    clock = asyncio.get_running_loop().time
    begun = clock()
    async with asyncio.TaskGroup() as requests:
        for number, address in enumerate(itertools.cycle(addresses)):
            await asyncio.sleep(max(0.0, begun + number / rate / len(addresses) - clock()))
            requests.create_task(_ask(port, address, number))
            if number == rate:
                print(UNDER_WAY, flush=True)


async def _ask(port: int, address: str, number: int) -> None:
    with suppress(OSError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
        writer.write(_HEAD.format(f"{os.getpid()}-{number}").encode())
        await reader.read()
        writer.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
