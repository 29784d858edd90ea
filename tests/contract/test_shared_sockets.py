"""What services on sockets share with others: memory for what is unfinished, and the turns of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from gateway.backend.choice import open_transport
from gateway.backend.request_parts import RequestParts
from gateway.backend.sockets import SocketTransport
from gateway.backend.transport import Outgoing, Reply
from gateway.backend.unfinished import UnfinishedMessages
from gateway.http_client.response import AnswerTooLarge, ConnectFailed, Interrupted
from gateway.http_client.tls import TlsFiles
from gateway.settings import Settings
from tests.contract.frames import frame
from tests.contract.transports import SOCKETS, Act, Json, SocketStand, WebSocketStand
from tests.each import each
from tests.waiting import PATIENCE, until

MIB = 1024 * 1024
MOST = 80 * MIB


class Shared:
    """Transports of one process, and what they hold."""

    def __init__(self) -> None:
        self.held = 0
        self._unfinished = UnfinishedMessages(self._reserve, MOST)
        self._open: list[tuple[SocketStand, SocketTransport]] = []

    def _reserve(self, size: int) -> bool:
        self.held += size
        return True

    async def service(self, make: Callable[[], SocketStand]) -> tuple[SocketStand, SocketTransport]:
        stand = make()
        await stand.open()
        settings = Settings.model_validate({"auth": {"mode": "off"}, "backend": {"url": stand.url}})
        transport = open_transport(settings.by_mount[""], TlsFiles(), lambda _: True, self._unfinished, digest=False)
        assert isinstance(transport, SocketTransport)
        self._open.append((stand, transport))
        return stand, transport

    async def close(self) -> None:
        for stand, transport in self._open:
            await transport.close()
            await stand.close()


@pytest.fixture
async def shared() -> AsyncIterator[Shared]:
    made = Shared()
    yield made
    await made.close()


async def ask(transport: SocketTransport, id: str = "c1", most: int = 8 * MIB) -> Reply:
    body = b'{"jsonrpc":"2.0","id":"%s","method":"echo","params":[1]}' % id.encode()
    return await transport.send(Outgoing(id, body, RequestParts()), timeout=PATIENCE, max_bytes=most)


@each("make", SOCKETS)
async def test_a_call_that_hangs_holds_nothing(shared: Shared, make: Callable[[], SocketStand]) -> None:
    stand, transport = await shared.service(make)
    stand.act = Act.WAIT
    call = asyncio.create_task(ask(transport))
    await stand.got(1)
    assert shared.held == 0
    stand.release.set()
    await call


@each("make", SOCKETS)
async def test_an_unfinished_message_counts_as_it_grows_until_its_connection_ends(
    shared: Shared, make: Callable[[], SocketStand]
) -> None:
    stand, transport = await shared.service(make)
    stand.act, stand.size = Act.UNFINISHED, 3 * MIB
    call = asyncio.create_task(ask(transport))
    await until(lambda: shared.held, lambda held: held > 2 * MIB)
    assert shared.held < 4 * MIB
    await stand.close()
    with pytest.raises(Interrupted):
        await call
    await until(lambda: shared.held, (0).__eq__)


@each("make", SOCKETS)
async def test_a_large_answer_counts_no_more_once_it_is_taken(shared: Shared, make: Callable[[], SocketStand]) -> None:
    stand, transport = await shared.service(make)
    stand.act = Act.LARGE
    assert len((await ask(transport)).body) > stand.large
    with pytest.raises(AnswerTooLarge):
        await ask(transport, "c2", most=MIB)
    await until(lambda: shared.held, (0).__eq__)


@each("make", SOCKETS)
async def test_the_connection_that_holds_most_ends_and_not_the_newcomer(
    shared: Shared, make: Callable[[], SocketStand]
) -> None:
    calls: list[asyncio.Task[Reply]] = []
    for number in range(1, 6):  # four times nine of forty mebibytes, and then some
        stand, transport = await shared.service(make)
        stand.act, stand.size = Act.UNFINISHED, 9 * MIB
        calls.append(asyncio.create_task(ask(transport)))
        most = (9 * number - 1) * MIB
        await until(lambda most=most: shared.held >= most or any(call.done() for call in calls))
    ended = [call for call in calls if call.done()]
    assert len(ended) == 1
    assert calls[-1] not in ended
    with pytest.raises(Interrupted, match="no room for more of its unfinished messages"):
        await ended[0]
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


@each("make", SOCKETS)
async def test_a_service_that_pushes_too_much_loses_its_connection_and_has_a_second_of_quiet(
    shared: Shared, make: Callable[[], SocketStand]
) -> None:
    class Pushing(make):  # type: ignore[misc, valid-type]  # each is a class
        async def take(self, message: Json, writer: asyncio.StreamWriter) -> None:
            if self.act is Act.FLOOD:
                self.messages.append(message)
                writer.write(self.wrap(b'{"jsonrpc":"2.0","method":"tick"}') * 10_001)
            else:
                await super().take(message, writer)

    stand, transport = await shared.service(Pushing)
    stand.act = Act.FLOOD
    with pytest.raises(Interrupted, match="more than 10000 messages a second that belong to no call") as ended:
        await ask(transport)
    assert ended.value.sent
    stand.act, clock = Act.ECHO, asyncio.get_running_loop().time
    began = clock()
    await ask(transport, "c2")
    assert clock() - began > 0.9
    assert stand.listener.connections == 2


@each("make", SOCKETS)
async def test_a_burst_of_one_service_is_read_in_parts_between_the_answers_of_others(
    shared: Shared, make: Callable[[], SocketStand]
) -> None:
    tick = b'{"jsonrpc":"2.0","method":"tick","params":["%s"]}' % (b"x" * 4000)

    class Pushing(make):  # type: ignore[misc, valid-type]  # each is a class
        async def take(self, message: Json, writer: asyncio.StreamWriter) -> None:
            self.messages.append(message)
            writer.write(self.wrap(tick) * 9_000)

    (_, pushed), (_, near) = await shared.service(Pushing), await shared.service(make)
    await ask(near)
    call = asyncio.create_task(ask(pushed))
    await until(lambda: pushed.dropped)
    read = []
    while pushed.dropped < 9_000:
        await ask(near, f"n{len(read)}")
        read.append(pushed.dropped)
    assert len(read) > 10
    call.cancel()


@each("make", SOCKETS)
async def test_a_connection_may_end_for_what_it_brought_at_once(make: Callable[[], SocketStand]) -> None:
    begun = b'{"x":"' + b"x" * 200_000

    class Greeting(make):  # type: ignore[misc, valid-type]  # each is a class
        async def take_all(self, messages: AsyncIterator[bytes], writer: asyncio.StreamWriter) -> None:
            writer.write(frame(begun, final=False) if make is WebSocketStand else begun)
            await super().take_all(messages, writer)

    faults: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    stand = Greeting()
    await stand.open()
    settings = Settings.model_validate({"auth": {"mode": "off"}, "backend": {"url": stand.url}})
    full = UnfinishedMessages(lambda size: size <= 0, MOST)
    transport = open_transport(settings.by_mount[""], TlsFiles(), lambda _: True, full, digest=False)
    assert isinstance(transport, SocketTransport)
    with pytest.raises((ConnectFailed, Interrupted)):
        await ask(transport)
    await transport.close()
    await stand.close()
    assert not faults


@each("make", SOCKETS)
async def test_an_unfinished_message_for_nobody_is_held_no_longer_than_a_call_may_take(
    shared: Shared, make: Callable[[], SocketStand]
) -> None:
    class Behind(make):  # type: ignore[misc, valid-type]  # each is a class
        async def _say(self, body: bytes, writer: asyncio.StreamWriter) -> None:
            writer.write(self.wrap(body))
            await super()._say(body, writer)

    stand, transport = await shared.service(Behind)
    transport.patience = 0.5
    stand.act, stand.size = Act.UNFINISHED, 3 * MIB
    await ask(transport)
    await until(lambda: shared.held, lambda held: held > 2 * MIB)
    await until(lambda: shared.held, (0).__eq__, within=10)
