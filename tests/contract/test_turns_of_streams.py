"""What one connection may read in one turn of the event loop, where more waits in the socket."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import uvloop

from gateway.http_client.streams import Stream
from tests.each import each

KIB = 1024
SENT = 8 * KIB * KIB


class Slow:
    """A codec to which nothing is a message, and that is so slow that the next bytes are there already."""

    unfinished = 0

    def __init__(self) -> None:
        self.turn = self.read = 0
        self.by_turn: Counter[int] = Counter()

    def feed(self, data: bytes) -> Iterator[bytes]:
        self.by_turn[self.turn] += len(data)
        self.read += len(data)
        time.sleep(0.0015)
        return iter(())

    def wrap(self, message: bytes) -> bytes:
        return message

    def owed(self) -> bytes:
        return b""

    farewell = owed


async def _read(listener: socket.socket) -> Slow:
    codec = Slow()
    loop = asyncio.get_running_loop()
    make = lambda: Stream(codec, lambda _: None, lambda _: None, lambda _: None, 10.0)  # noqa: E731
    _, stream = await loop.create_connection(make, *listener.getsockname())
    async with asyncio.timeout(30):
        while codec.read < SENT:
            codec.turn += 1
            await asyncio.sleep(0)
    stream.close()
    await asyncio.sleep(0.01)
    return codec


@each("make", {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop})
def test_one_connection_has_a_part_of_each_turn(make: Callable[[], asyncio.AbstractEventLoop]) -> None:
    def send() -> None:
        ours, _ = listener.accept()
        with ours:
            ours.sendall(b" " * SENT)
            ours.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        with asyncio.Runner(loop_factory=make) as runner:
            codec = runner.run(_read(listener))
        sender.join(10)
    assert max(codec.by_turn.values()) <= 512 * KIB
