"""One caller that floods: ``python -m lab.fault.flood PORT``. A process of its own, which gives way to others on
its core, so that it is the gateway that is flooded and not those who measure."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import sys
from collections.abc import Iterator
from typing import Final

ADDRESS: Final = "127.0.4.1"
CALLS: Final = 300
"""Calls under way, each of which takes the service a second."""
PAUSE: Final = 1.0
"""Seconds after which a call is repeated that was refused, half of them more or less: a crowd, not a drum."""
RAMP: Final = 0.5
"""Seconds in which they all begin."""
UNDER_WAY: Final = "the flood is under way"
_HEAD: Final = (
    "POST /near/jsonrpc HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
)


async def main(port: int) -> None:
    os.nice(10)
    numbers = (f"flood-{os.getpid()}-{number}" for number in itertools.count())
    async with asyncio.TaskGroup() as calls:
        for _ in range(CALLS):
            calls.create_task(_call_on(port, numbers))
            await asyncio.sleep(RAMP / CALLS)
        print(UNDER_WAY, flush=True)


async def _call_on(port: int, numbers: Iterator[str]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(ADDRESS, 0))
    for number in numbers:
        params = {"number": number, "wait": 1.0}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "work", "params": params}).encode()
        writer.write(_HEAD.format(len(body)).encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        answer = await reader.readexactly(int(head.partition(b"content-length: ")[2].split(b"\r\n")[0]))
        if b'"proof"' not in answer:
            await asyncio.sleep(PAUSE * random.uniform(0.5, 1.5))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
