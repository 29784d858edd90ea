"""Rows of ``make fault``: of two gateways behind nginx, one after the other is replaced, or killed, under load. nginx
and the gateways are told what docs/proxy.md says."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

from lab.fault.rounds import certain
from lab.fault.table import Figure, Line, Row
from tests.authorization.stand import Answer, Bearer
from tests.fault.ledger import Ledger, service
from tests.fault.load import Callers, addresses, session
from tests.nginx import Nginx
from tests.program import Program, settings
from tests.services.process import free_port

PAGE: Final = Path(__file__).parents[2] / "docs" / "proxy.md"
_RATE: Final = 100.0
_WAIT: Final = 0.03
"""Calls a second, and the seconds that each of them takes: some are always under way."""
_ROUNDS: Final = 6
_BEFORE: Final = 0.5  # seconds of load between two restarts


class Unanswered(ConnectionError):
    """Raised where nginx says that a gateway did not answer. The call may have run."""


class BehindNginx(Bearer):
    """A client of nginx."""

    async def call(self, surface: str, tool: str, arguments: Mapping[str, Any] | None = None) -> Answer:
        answer = await super().call(surface, tool, arguments)
        if answer.status == 502 and b"<center>nginx" in answer.body:
            raise Unanswered("502 of nginx")
        return answer


def documented() -> str:
    """What the page says of asking another gateway."""
    return " ".join(re.findall(r"^ +(proxy_next_upstream [^;]*;)", PAGE.read_text(encoding="utf-8"), re.MULTILINE))


async def restarts(end: signal.Signals) -> Line:
    ledger = Ledger()
    async with AsyncExitStack() as stack:
        backend = await stack.enter_async_context(service(ledger))
        knobs = settings(
            backend.url, "limits.invocation=100000/second", "limits.concurrent=1000", "server.drain_delay=1s"
        )
        ports = [free_port(), free_port()]

        async def started(port: int) -> Program:
            program = Program("serve", *knobs, "--set", f"server.port={port}")
            await stack.enter_async_context(program)
            await program.logged("listing refreshed")
            return program

        programs = [await started(port) for port in ports]
        nginx = await stack.enter_async_context(Nginx(ports, documented()))
        sessions = [await stack.enter_async_context(session(one)) for one in addresses(1, 10)]
        clients = [BehindNginx(one, nginx.port, None) for one in sessions]
        callers, is_over = Callers(ledger, clients, _RATE, wait=_WAIT), asyncio.Event()

        async def call_on() -> None:
            while not is_over.is_set():
                await callers.calls(1.0)

        calling = asyncio.create_task(call_on())
        for number in range(_ROUNDS):
            await asyncio.sleep(_BEFORE)
            program = programs[number % 2]
            program.signal(end)
            await program.ended()
            programs[number % 2] = await started(ports[number % 2])
        is_over.set()
        await calling
    return _line(ledger, end)


def _line(ledger: Ledger, end: signal.Signals) -> Line:
    counts = certain(ledger)
    lost = counts["lost"]
    ran = sum(ledger.runs[number] for number in ledger.lost)
    note = f"{len(ledger.told)} calls; nginx answered {lost} with 502, of which {ran} had run"
    most = _RATE * _WAIT * _ROUNDS * 2 if end == signal.SIGKILL else 0
    figure = Figure("calls that nginx answered with 502", lost, most)
    notes = (note, *ledger.complaints[:3], *map(str, ledger.failures.items()))
    return Line(wrong=counts["wrong"], twice=counts["twice"], figures=(figure,), notes=notes)


ROWS: Final[dict[str, Row]] = {
    "behind nginx, gateways are replaced": partial(restarts, signal.SIGTERM),
    "behind nginx, gateways are killed": partial(restarts, signal.SIGKILL),
}
