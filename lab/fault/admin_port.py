"""Rows of ``make fault``: strangers hold all connections of the admin port that they can get, and a kubelet and a
Prometheus ask it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector

from lab.fault.holder import SENT, UNDER_WAY
from lab.fault.stage import serving
from lab.fault.table import Figure, Line, Row
from tests.fault.load import addresses
from tests.fault.scripted import ScriptedBackend
from tests.program import Program

_OWN: Final = "127.0.0.1"
"""The address of those who probe."""
_CROWDS: Final[dict[str, tuple[int, Sequence[str]]]] = {
    "200 of one address": (200, addresses(3, 1)),
    "200 of the prober's own address": (200, (_OWN,)),
    "one each of 64 addresses": (1, addresses(3, 64)),
    "25 each of 8 addresses": (25, addresses(3, 8)),
}
_SECONDS: Final = {"nothing": 60.0}
_FEW_SECONDS: Final = 10.0
_EVERY: Final = 0.5
_PATIENCE: Final = ClientTimeout(total=1.0)
"""What a kubelet waits by default."""


async def held(sent: str, crowd: str) -> Line:
    count, of = _CROWDS[crowd]
    async with AsyncExitStack() as stack:
        backend = await stack.enter_async_context(ScriptedBackend())
        program, _ = await stack.enter_async_context(serving("auth.mode=off", f"backend.url={backend.url}"))
        port = (await program.logged("gateway started"))["admin_port"]
        strangers = Program(str(port), sent, str(count), *of, module="lab.fault.holder")
        await (await stack.enter_async_context(strangers)).said(UNDER_WAY)
        # A kubelet connects anew for each probe, a Prometheus keeps its connection.
        anew = await stack.enter_async_context(ClientSession(connector=TCPConnector(force_close=True)))
        kept = await stack.enter_async_context(ClientSession())
        tasks = []
        for _ in range(int(_SECONDS.get(sent, _FEW_SECONDS) / _EVERY)):
            tasks.append(asyncio.create_task(_asked(anew, f"http://{_OWN}:{port}/livez")))
            tasks.append(asyncio.create_task(_asked(kept, f"http://{_OWN}:{port}/metrics")))
            await asyncio.sleep(_EVERY)
        told = await asyncio.gather(*tasks)
        assert strangers.memory(), "the strangers have ended"
    probes, scrapes = told[::2], told[1::2]
    # A Prometheus cannot be told apart from strangers at its own address that ask for the same.
    most = len(scrapes) // 10 if "metrics" in sent and _OWN in of else 0
    figures = (
        Figure(f"probes that failed of {len(probes)}", sum(bool(one) for one in probes), 0),
        Figure("scrapes that failed", sum(bool(one) for one in scrapes), most),
    )
    return Line(figures=figures, notes=tuple({one for one in told if one})[:4])


async def _asked(session: ClientSession, url: str) -> str:
    """Return what went wrong."""
    try:
        async with session.get(url, timeout=_PATIENCE) as answer:
            await answer.read()
            return "" if answer.status == 200 else f"HTTP {answer.status}"
    except (ClientError, TimeoutError) as error:
        return f"{url.rpartition('/')[2]}: {error!r}"


ROWS: Final[dict[str, Row]] = {
    f"{crowd} send {sent} to the admin port": partial(held, sent, crowd)
    for sent in SENT
    for crowd in _CROWDS
    # What is answered at once, beyond the room, matters where many addresses have many each.
    if ("a probe and" in sent) == ("25 each" in crowd)
}
