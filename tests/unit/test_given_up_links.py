"""A connection that was ended for what it held counts no more, while its last answers are taken."""

from __future__ import annotations

import asyncio
from typing import Any

from gateway.backend.request_parts import RequestParts
from gateway.backend.sockets import SocketLink, SocketTransport
from gateway.backend.transport import Outgoing
from gateway.backend.unfinished import UnfinishedMessages
from gateway.http_client.response import Interrupted
from gateway.http_client.streams import Stream

MIB = 1024 * 1024


class Wire:
    """A connection that keeps what it is told."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    async def wait_for_room(self) -> None: ...
    def send(self, _: bytes) -> None: ...
    def is_silent(self) -> bool:
        return False

    def end(self, reason: str) -> None:
        self.ended.append(reason)


class Wired(SocketTransport):
    async def connect(self, outgoing: Outgoing, link: SocketLink) -> Stream:
        return Wire()  # type: ignore[return-value]


async def test_no_other_connection_ends_for_one_that_has_ended() -> None:
    held = 0

    def reserve(size: int) -> bool:
        nonlocal held
        held += size
        return True

    transport = Wired(64 * MIB, MIB, UnfinishedMessages(reserve, 80 * MIB), 10.0)
    outgoing = Outgoing("c1", b"", RequestParts())
    links: list[Any] = [await transport._open_link(outgoing) for _ in range(3)]
    one, two, three = links
    call = asyncio.create_task(one.exchange("c1", outgoing, 4 * MIB))
    await asyncio.sleep(0)
    two.note_held(6 * MIB)
    three.note_held(3 * MIB)
    one.message_received(b'{"id":"c1","result":"%s"}' % (b"x" * 3 * MIB))
    one.note_held(4 * MIB)  # behind its answer
    assert (len(one.connection.ended), held) == (1, 9 * MIB)
    assert (await call).body
    assert not two.connection.ended
    assert held == 9 * MIB
    for link in (one, two, three):
        link.note_held(0)
        link.connection_lost(Interrupted("the end"))
    assert held == 0
