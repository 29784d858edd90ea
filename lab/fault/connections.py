"""Rows of ``make fault``: a few addresses hold all the connections that they can get, and somebody else comes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Final

from lab.fault.rounds import certain
from lab.fault.stage import stage
from lab.fault.table import Line, Row
from tests.fault.load import Samples, addresses

_MOST: Final = 1200
_NETWORK: Final = 9
_SECONDS: Final = 5.0
"""Less than the time for a head, so that the crowd need not come again."""
_KEPT: Final = b"GET /near/mcp/tools/list HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
_SENT: Final = (b"", b"POST /near/mcp HTTP/1.1\r\nHost: a\r\nX-", _KEPT)
"""What one of the crowd sends: nothing, a half head, a request after which it stays."""


async def crowded(count: int) -> Line:
    """``count`` addresses hold what they can of all connections, while one newcomer calls, and then a hundred."""
    async with stage(f"server.max_connections={_MOST}", "limits.invocation=100000/second") as it:
        healthy = [await it.callers(1, 1, rate=40), await it.callers(2, 100, rate=40)]
        crowd = [one for address in addresses(_NETWORK, count) for one in _crowd(it.port, address, _MOST // count)]
        calls = [sample for callers in healthy for sample in (await callers.calls(_SECONDS)).of]
        for one in crowd:
            one.close()
    beside = Samples(calls)
    return Line(held=beside.held, worst=beside.worst, **certain(it.ledger), notes=tuple(it.ledger.complaints[:3]))


def _crowd(port: int, address: str, count: int) -> Iterator[socket.socket]:
    """Connections from an address, each of which sends something else; those that are refused, too."""
    for number in range(count):
        one = socket.socket()
        one.bind((address, 0))
        one.connect(("127.0.0.1", port))
        with suppress(ConnectionError):
            one.sendall(_SENT[number % len(_SENT)])
        yield one


ROWS: Final[dict[str, Row]] = {
    f"{count} addresses hold all the connections that they can": partial(crowded, count) for count in (4, 40)
}
