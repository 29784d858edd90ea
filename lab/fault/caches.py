"""Rows of ``make fault``: Varnish with its built-in program stands before a service that runs calls and then is slow,
or ends the connection. Varnish answers 503 with ``Retry-After: 5``."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from contextlib import AsyncExitStack
from typing import Final

from lab.fault.rounds import SHOWN
from lab.fault.table import Figure, Line, Row
from tests.authorization.stand import Bearer
from tests.fault.behaviours import CLOSE, Hang, InTurn
from tests.fault.ledger import Ledger, Noted, Work, service
from tests.fault.load import Callers, addresses, session
from tests.program import Program, settings
from tests.services.process import Service, ServiceMissing

_CALLS: Final = 1000
_AT_A_TIME: Final = 20
_FIRST_BYTE: Final = "0.3"
"""Seconds that Varnish waits for an answer: its default is a minute."""


def varnish(upstream: int, folder: str) -> Service:
    """Return Debian's Varnish before a port of loopback, without a program of its own. It keeps its files there."""
    found = shutil.which("varnishd", path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"]))
    if not found:
        raise ServiceMissing("varnishd is missing: run tests/install.sh, or install the Debian package varnish")
    knobs = ("-n", folder, "-j", "none", "-p", f"first_byte_timeout={_FIRST_BYTE}", "-s", "malloc,16m")
    before = ("-b", f"127.0.0.1:{upstream}")
    return Service("varnish", lambda port: [found, "-F", "-a", f"127.0.0.1:{port}", *before, *knobs], "/jsonrpc")


async def _behind_varnish() -> Line:
    ledger = Ledger()
    async with AsyncExitStack() as stack:
        far = await stack.enter_async_context(service(ledger))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="varnish-"))
        cache = stack.enter_context(varnish(far.port, folder))
        runs = Noted(ledger, Hang("nothing")), Noted(ledger, CLOSE), Work(ledger), Work(ledger)
        far.on("work", InTurn(runs * _CALLS))
        program = Program("serve", *settings(cache.url, "limits.concurrent=1000"))
        await stack.enter_async_context(program)
        await program.logged("listing refreshed")
        one = await stack.enter_async_context(session(addresses(1, 1)[0]))
        public = (await program.logged("gateway started"))["port"]
        callers, places = Callers(ledger, [Bearer(one, public, None)], rate=1), asyncio.Semaphore(_AT_A_TIME)

        async def call(client: Bearer, surface: str) -> None:
            async with places:
                await callers.call(client, surface)

        turns = callers.turns()
        await asyncio.gather(*(call(*next(turns)) for _ in range(_CALLS)))
    said = sum(times for words, times in ledger.failures.items() if "HTTP 503" in words)
    figures = (
        Figure(f"untrue answers of {_CALLS}", len(ledger.wrong), 0),
        Figure("calls that ran, and that Varnish answered with 503, at least", -said, -_CALLS / 10),
    )
    notes = (f"{len(ledger.twice)} calls were sent twice by Varnish itself", *ledger.complaints[:SHOWN])
    return Line(wrong=len(ledger.wrong), twice=0, lost=len(ledger.lost), figures=figures, notes=notes)


ROWS: Final[dict[str, Row]] = {"behind Varnish, a service that runs calls and answers late, or not": _behind_varnish}
