"""Whose a message is on a connection with calls that were given up, behind notifications, and where JSON is broken."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import TypeAlias

import pytest

from gateway.backend.request_parts import RequestParts
from gateway.backend.sockets import SocketTransport
from gateway.backend.transport import Outgoing, Reply
from gateway.http_client.response import DeadlinePassed
from gateway.jsonrpc.response import parse_response
from gateway.model import MessageForm
from tests.contract.transports import Json, StreamStand
from tests.waiting import PATIENCE, until

IN_ORDER = MessageForm(in_order=True)
NULL = b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"whose?"}}'


class Spoken(StreamStand):
    """Says what a test says, on the connection that spoke last."""

    framing = "newline"

    async def take(self, message: Json, writer: asyncio.StreamWriter) -> None:
        self.messages.append(message)
        self.writer = writer

    def say(self, *messages: bytes) -> None:
        for message in messages:
            self.writer.write(self.wrap(message))

    def answer(self, id: str) -> None:
        self.say(b'{"jsonrpc":"2.0","id":"%b","result":"of %b"}' % (id.encode(), id.encode()))


@pytest.fixture
async def stand() -> AsyncIterator[Spoken]:
    made = Spoken()
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def transport(stand: Spoken) -> AsyncIterator[SocketTransport]:
    made = stand.transport()
    assert isinstance(made, SocketTransport)
    yield made
    await made.close()


def message(id: str | None, form: MessageForm | None = None, padding: int = 0) -> Outgoing:
    named = {} if id is None else {"id": id}
    body = json.dumps({"jsonrpc": "2.0", "method": "m", "params": ["x" * padding]} | named).encode()
    return Outgoing(id, body, RequestParts(), form=form or MessageForm())


async def send(transport: SocketTransport, outgoing: Outgoing, timeout: float = PATIENCE) -> Reply:
    return await transport.send(outgoing, timeout=timeout, max_bytes=10**6)


Calling: TypeAlias = asyncio.Task[Reply]


async def begin(transport: SocketTransport, stand: Spoken, id: str, form: MessageForm | None = None) -> Calling:
    """Return a call that the service has got."""
    task = asyncio.create_task(send(transport, message(id, form)))
    await stand.got(len(stand.messages) + 1)
    return task


async def give_up(*tasks: Calling) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def dropped(transport: SocketTransport, count: int) -> None:
    await until(lambda: transport.dropped, count.__eq__)


async def is_right(task: Calling, id: str) -> bool:
    return parse_response((await task).body, id) == (f"of {id}", None)


async def test_an_error_without_an_id_belongs_to_the_only_call(stand: Spoken, transport: SocketTransport) -> None:
    call = await begin(transport, stand, "c1")
    stand.say(NULL)
    assert (await call).body == NULL
    await give_up(await begin(transport, stand, "c2"))
    call = await begin(transport, stand, "c3")
    stand.answer("c2")  # late, but with its id: nothing is owed any more
    await dropped(transport, 1)
    stand.say(NULL)
    assert (await call).body == NULL
    assert (stand.listener.connections, transport.unowned) == (1, 0)


async def test_what_is_given_to_nobody_is_counted(stand: Spoken, transport: SocketTransport) -> None:
    await give_up(await begin(transport, stand, "c1"))
    call = await begin(transport, stand, "c2")
    stand.say(NULL, b"{broken}", b'{"jsonrpc":"2.0","error":{"code":1,"message":""}}')
    stand.answer("c2")
    assert await is_right(call, "c2")
    assert (transport.dropped, transport.unowned) == (3, 3)


async def test_a_connection_gets_no_new_calls_once_one_was_given_up_for_longer_than_the_timeout(stand: Spoken) -> None:
    transport = stand.transport(timeout="50ms")
    assert isinstance(transport, SocketTransport)
    patient, given_up = await begin(transport, stand, "c0"), await begin(transport, stand, "c1")
    await give_up(given_up)
    first = stand.writer

    async def connections() -> int:
        number = f"c{len(stand.messages)}"
        call = await begin(transport, stand, number)
        stand.answer(number)
        assert await is_right(call, number)
        return stand.listener.connections

    await until(connections, (2).__eq__)
    stand.writer = first
    stand.say(NULL)  # also on the old connection, to the one that waits on
    await dropped(transport, 1)
    stand.answer("c0")
    assert await is_right(patient, "c0")
    await transport.close()


async def test_a_connection_with_256_calls_that_were_given_up_gets_no_new_ones(
    stand: Spoken, transport: SocketTransport
) -> None:
    patient = await begin(transport, stand, "p")
    first = stand.writer
    for start in range(0, 256, 64):
        assert stand.listener.connections == 1
        await give_up(*[await begin(transport, stand, f"c{number}") for number in range(start, start + 64)])
    other = await begin(transport, stand, "o")
    assert stand.listener.connections == 2
    stand.say(NULL)  # the new connection owes nothing
    assert (await other).body == NULL
    stand.writer = first
    stand.say(NULL)
    await dropped(transport, 1)
    stand.answer("p")
    assert await is_right(patient, "p")


class Deaf(Spoken):
    """Reads nothing before it may."""

    async def _messages(self, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        await self.release.wait()
        held = b""
        while data := await reader.read(2**20):
            *lines, held = (held + data).split(b"\n")
            for line in lines:
                yield line


async def test_a_call_that_never_reached_the_socket_is_owed_no_answer() -> None:
    stand = Deaf()
    await stand.open()
    transport = stand.transport()
    assert isinstance(transport, SocketTransport)
    large = asyncio.create_task(send(transport, message("c1", padding=20 * 2**20)))
    await until(lambda: [one for one in transport._links if not one.connection._may_write.is_set()])
    waiting = asyncio.create_task(send(transport, message("c2")))
    await until(lambda: "c2" in transport._links[0].waiters)
    await give_up(waiting)
    stand.release.set()
    await stand.got(1)
    stand.answer("c1")
    assert await is_right(large, "c1")
    call = await begin(transport, stand, "c3")
    stand.say(NULL)
    assert (await call).body == NULL
    assert [one["id"] for one in stand.messages] == ["c1", "c3"]
    await transport.close()
    await stand.close()


async def test_an_error_behind_a_notification_may_be_about_it(stand: Spoken, transport: SocketTransport) -> None:
    await send(transport, message(None))
    await stand.got(1)
    call = await begin(transport, stand, "c1")
    stand.say(NULL)
    stand.answer("c1")
    assert await is_right(call, "c1")
    assert (stand.listener.connections, transport.unowned) == (1, 1)


async def test_in_order_a_call_behind_a_notification_has_another_connection(
    stand: Spoken, transport: SocketTransport
) -> None:
    for _ in range(2):
        await send(transport, message(None, IN_ORDER))
    await stand.got(2)
    first = stand.writer
    call = await begin(transport, stand, "c1", IN_ORDER)
    first.write(b'{"jsonrpc":"2.0","result":"of the notification"}\n')
    await dropped(transport, 1)
    stand.say(b'{"jsonrpc":"2.0","result":"of c1"}')
    assert await is_right(call, "c1")
    assert stand.listener.connections == 2


@pytest.mark.parametrize(
    "surplus", [NULL, b"{broken}", b'{"jsonrpc":"2.0","result":1}'], ids=["null", "broken", "no id"]
)
async def test_after_an_answer_to_nothing_no_message_without_an_id_is_believed(
    stand: Spoken, transport: SocketTransport, surplus: bytes
) -> None:
    call = await begin(transport, stand, "c1")
    stand.answer("c1")
    assert await is_right(call, "c1")
    stand.say(surplus)
    await dropped(transport, 1)
    call = await begin(transport, stand, "c2")
    stand.say(NULL)
    stand.answer("c2")
    assert await is_right(call, "c2")
    ordered = await begin(transport, stand, "c3", IN_ORDER)
    stand.say(b'{"jsonrpc":"2.0","result":"of c3"}')
    assert await is_right(ordered, "c3")
    assert stand.listener.connections == 2


async def test_a_late_answer_to_a_question_in_order_reaches_no_call_beside_it(
    stand: Spoken, transport: SocketTransport
) -> None:
    call = await begin(transport, stand, "c1")
    await give_up(await begin(transport, stand, "q1", IN_ORDER))
    stand.say(NULL, b'{"jsonrpc":"2.0","result":"a listing"}')
    await dropped(transport, 2)
    stand.answer("c1")
    assert await is_right(call, "c1")


async def test_a_result_without_an_id_is_none_of_a_call_by_id_after_a_question_in_order(
    stand: Spoken, transport: SocketTransport
) -> None:
    call, question = await begin(transport, stand, "c1"), await begin(transport, stand, "q1", IN_ORDER)
    stand.answer("q1")
    assert await is_right(question, "q1")
    stand.say(b'{"jsonrpc":"2.0","result":"a listing"}')
    stand.answer("c1")
    assert await is_right(call, "c1")


async def test_the_same_question_again_is_not_answered_by_the_answer_to_the_first(
    stand: Spoken, transport: SocketTransport
) -> None:
    patient = await begin(transport, stand, "c1")
    await give_up(await begin(transport, stand, "q1"))
    first = stand.writer
    again = await begin(transport, stand, "q1")
    first.write(b'{"jsonrpc":"2.0","id":"q1","result":"an old listing"}\n')
    await dropped(transport, 1)
    stand.answer("q1")
    assert await is_right(again, "q1")
    assert stand.listener.connections == 2
    await give_up(patient)


async def test_broken_json_with_one_id_is_the_answer_to_that_call_alone(
    stand: Spoken, transport: SocketTransport
) -> None:
    calls = [await begin(transport, stand, f"c{number}") for number in range(3)]
    broken = b'{"jsonrpc": "2.0", "id": "c1", "result": [NaN, {"id": "c2"}]}'
    stand.say(broken)
    assert (await calls[1]).body == broken
    with pytest.raises(ValueError, match="JSON is malformed"):
        parse_response(broken, "c1")
    stand.answer("c0")
    stand.answer("c2")
    assert [await is_right(calls[number], f"c{number}") for number in (0, 2)] == [True, True]


async def test_broken_json_with_the_id_of_a_call_that_was_given_up_reaches_nobody(
    stand: Spoken, transport: SocketTransport
) -> None:
    await give_up(await begin(transport, stand, "c1"))
    call = await begin(transport, stand, "c2")
    stand.say(b'{"id": "c1", "result": NaN}')
    await dropped(transport, 1)
    stand.say(NULL)  # nothing is owed any more
    assert (await call).body == NULL


async def test_an_id_is_compared_as_it_is_meant(stand: Spoken, transport: SocketTransport) -> None:
    call = await begin(transport, stand, "1")
    stand.say(b'{"jsonrpc":"2.0","id":1.0,"result":"of a float"}', b'{"jsonrpc":"2.0","id":true,"result":"of true"}')
    await dropped(transport, 2)
    stand.answer("1")
    assert await is_right(call, "1")
    call = await begin(transport, stand, "c2")
    stand.say(b'{"jsonrpc":"2.0","\\u0069d":"\\u00632","result":"of c2"}')
    assert await is_right(call, "c2")


@pytest.mark.parametrize(
    "id", [b'"id":"c1","id":"c2"', b'"id":"c1","\\u0069d":"c2"', b'"\\u0069\\u0064":"c1","id":"c2"']
)
async def test_a_message_with_two_ids_is_no_answer(stand: Spoken, transport: SocketTransport, id: bytes) -> None:
    call = await begin(transport, stand, "c2")
    stand.say(b'{"jsonrpc":"2.0",' + id + b',"result":"whose?"}')
    with pytest.raises(ValueError, match="two members of one name"):
        parse_response((await call).body, "c2")


async def test_a_large_broken_message_is_one_without_an_id(stand: Spoken, transport: SocketTransport) -> None:
    await give_up(await begin(transport, stand, "c1"))
    call = await begin(transport, stand, "c2")
    stand.say(b'{"id":"c2","result":' + b"[" * 10**5 + b"]" * 10**5 + b",}")
    stand.answer("c2")
    assert await is_right(call, "c2")
    assert transport.unowned == 1


async def test_a_time_out_with_nothing_else_under_way_ends_the_connection(
    stand: Spoken, transport: SocketTransport
) -> None:
    with pytest.raises(DeadlinePassed):
        await send(transport, message("c1"), timeout=0.05)
    call = await begin(transport, stand, "c2")
    stand.say(NULL)
    assert (await call).body == NULL
    assert stand.listener.connections == 2
