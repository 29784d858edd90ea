"""The contract of every transport (:class:`gateway.backend.transport.Transport`), against a stand-in of its kind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.backend.request_parts import RequestParts
from gateway.backend.transport import Outgoing, Refusal, Reply
from gateway.http_client.response import (
    AnswerTooLarge,
    ConnectFailed,
    DeadlinePassed,
    Interrupted,
    OutboundError,
    UnusableAnswer,
)
from gateway.jsonrpc import request_bytes
from gateway.jsonrpc.response import parse_response
from tests.contract.transports import STANDS, Act, OpenTransport, SocketStand, Stand
from tests.front import front
from tests.waiting import PATIENCE, until

MIB = 1024 * 1024


@pytest.fixture(params=list(STANDS.values()), ids=list(STANDS))
async def stand(request: pytest.FixtureRequest) -> AsyncIterator[Stand]:
    made: Stand = request.param()
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def transport(stand: Stand) -> AsyncIterator[OpenTransport]:
    made = stand.transport()
    yield made
    await made.close()


async def ask(
    transport: OpenTransport, number: int, *, timeout: float = PATIENCE, most: int = MIB, params: object = None
) -> Reply:
    id = f"c{number}"
    body = request_bytes(id, "echo", [number] if params is None else params)  # type: ignore[arg-type]
    return await transport.send(Outgoing(id, body, RequestParts()), timeout=timeout, max_bytes=most)


async def is_right(transport: OpenTransport, number: int) -> bool:
    return parse_response((await ask(transport, number)).body, f"c{number}") == ([number], None)


async def test_of_a_refused_connection_the_caller_reads_that_the_call_may_be_repeated(
    stand: Stand, tmp_path: Path
) -> None:
    (tmp_path / "methods.yaml").write_text("methods: [{name: echo, params: [{name: a}]}]")
    await stand.close()
    listed = f"backend.listing={{dialect: static, file: {tmp_path / 'methods.yaml'}}}"
    async with front(stand.url, listed) as gateway:
        called = await gateway.call("rest", "echo", {"a": 1})
    assert (called.status, called.code) == (502, "backend_unavailable")
    assert called.message == "The backend is unavailable; the call was not sent, so it is safe to repeat"
    assert stand.messages == []


async def test_a_message_arrives_as_it_is_and_its_reply_comes_back(stand: Stand, transport: OpenTransport) -> None:
    reply = await ask(transport, 1, params={"a": "é", "b": [1.5, None]})
    assert stand.messages == [{"jsonrpc": "2.0", "id": "c1", "method": "echo", "params": {"a": "é", "b": [1.5, None]}}]
    assert json.loads(reply.body)["result"] == {"a": "é", "b": [1.5, None]}
    assert (reply.refused, reply.retry_after, reply.failure(), reply.is_success) == (None, None, None, True)


async def test_of_many_at_a_time_each_gets_its_own(stand: Stand, transport: OpenTransport) -> None:
    for first in range(2, 5000, 50):
        assert all(await asyncio.gather(*(is_right(transport, first + number) for number in range(50))))
    assert len(stand.messages) == 5000


async def test_a_deadline_that_passes_leaves_unknown_what_happened_and_harms_no_other(
    stand: Stand, transport: OpenTransport
) -> None:
    stand.act = Act.WAIT
    waiting = asyncio.create_task(is_right(transport, 1))
    await stand.got(1)
    with pytest.raises(DeadlinePassed) as caught:
        await ask(transport, 2, timeout=0.2)
    assert caught.value.sent
    stand.release.set()
    assert await waiting
    assert await is_right(transport, 3)


async def test_who_stops_waiting_harms_no_other(stand: Stand, transport: OpenTransport) -> None:
    stand.act = Act.WAIT
    both = [asyncio.create_task(is_right(transport, number)) for number in (1, 2)]
    await stand.got(2)
    both[0].cancel()
    await asyncio.wait([both[0]])
    stand.release.set()
    assert await both[1]
    assert await is_right(transport, 3)


async def test_a_connection_that_ends_leaves_unknown_what_happened_to_all_that_were_sent(
    stand: Stand, transport: OpenTransport
) -> None:
    stand.act = Act.WAIT
    waiting = [asyncio.create_task(ask(transport, number)) for number in range(20)]
    await stand.got(20)
    await stand.close()
    for one in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(one, Interrupted)
        assert one.sent
    assert len(stand.messages) == 20, "none is sent twice"
    stand.act = Act.ECHO
    await stand.open()
    assert await is_right(transport, 21)


async def test_a_service_that_is_not_there_was_sent_nothing(stand: Stand, transport: OpenTransport) -> None:
    await stand.close()
    with pytest.raises(ConnectFailed) as caught:
        await ask(transport, 1)
    assert not caught.value.sent
    assert "127.0.0.1" not in str(caught.value)
    await stand.open()
    assert await is_right(transport, 2)


async def test_a_service_that_breaks_off_is_not_asked_again(stand: Stand, transport: OpenTransport) -> None:
    stand.act = Act.BREAK_OFF
    with pytest.raises(Interrupted):
        await ask(transport, 1)
    stand.act = Act.ECHO
    assert await is_right(transport, 2)
    assert [message["id"] for message in stand.messages] == ["c1", "c2"]


async def test_an_answer_that_is_too_large_is_the_fault_of_its_own_call(stand: Stand, transport: OpenTransport) -> None:
    stand.act = Act.LARGE
    with pytest.raises(AnswerTooLarge):
        await ask(transport, 1)
    assert len((await ask(transport, 2, most=3 * MIB)).body) > 2 * MIB
    stand.act = Act.ECHO
    assert await is_right(transport, 3)


async def test_what_is_no_json_is_a_reply_or_a_fault_and_the_next_call_works(
    stand: Stand, transport: OpenTransport
) -> None:
    stand.act = Act.GARBAGE
    try:
        reply = await ask(transport, 1, timeout=1.0)
    except OutboundError as error:
        assert isinstance(error, UnusableAnswer | Interrupted)  # noqa: PT017, either is right
    else:
        assert not reply.summary("it is none").has_value
    stand.act = Act.ECHO
    assert await is_right(transport, 2)


async def test_a_credential_that_is_refused_is_told_apart(stand: Stand, transport: OpenTransport) -> None:
    if not stand.refuses:
        return
    stand.act = Act.REFUSE
    assert (await ask(transport, 1)).refused is Refusal.CREDENTIAL
    assert stand.messages == []
    stand.act = Act.ECHO
    assert await is_right(transport, 2)


async def test_a_notification_is_sent_and_no_reply_is_awaited(stand: Stand, transport: OpenTransport) -> None:
    if not isinstance(stand, SocketStand):  # an exchange of HTTP always has a response
        return
    stand.act = Act.WAIT
    note = Outgoing(None, b'{"jsonrpc":"2.0","method":"note","params":[1]}', RequestParts())
    reply = await transport.send(note, timeout=PATIENCE, max_bytes=MIB)
    assert (reply.body, reply.is_success) == (b"", True)
    await stand.got(1)
    assert stand.messages == [{"jsonrpc": "2.0", "method": "note", "params": [1]}]


async def test_however_many_credentials_there_are_few_connections_are_kept(
    stand: Stand, transport: OpenTransport
) -> None:
    for number in range(12):
        parts = RequestParts({"X-Api-Key": f"key {number}"})
        body = request_bytes(f"c{number}", "echo", [number])
        await transport.send(Outgoing(f"c{number}", body, parts), timeout=PATIENCE, max_bytes=MIB)
    await until(lambda: stand.listener.open_connections, lambda count: count <= 3)


async def test_a_closed_transport_sends_nothing(stand: Stand, transport: OpenTransport) -> None:
    assert await is_right(transport, 1)
    await transport.close()
    with pytest.raises(ConnectFailed):
        await ask(transport, 2)
    assert len(stand.messages) == 1
