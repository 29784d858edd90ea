"""What WebSocket alone has: its handshake, pings, what the service asks, and what an unfinished message may hold."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.backend.choice import open_transport
from gateway.backend.request_parts import RequestParts
from gateway.backend.sockets import SocketTransport
from gateway.backend.transport import MAX_LISTING, Outgoing, Refusal, Reply
from gateway.http_client.response import ConnectFailed, DeadlinePassed, Interrupted
from gateway.http_client.tls import TlsFiles
from gateway.settings import Settings
from tests.contract.frames import PING, frame
from tests.contract.transports import Act, Json, Served, WebSocketStand, anything_unfinished
from tests.each import each
from tests.fault.wire import Request, read_request
from tests.front import front
from tests.program import run, settings
from tests.waiting import PATIENCE, until

MIB = 1024 * 1024


@pytest.fixture
async def stand() -> AsyncIterator[WebSocketStand]:
    made = WebSocketStand()
    await made.open()
    yield made
    await made.close()


async def ask(
    transport: SocketTransport, id: str = "c1", parts: RequestParts | None = None, timeout: float = PATIENCE
) -> Reply:
    body = b'{"jsonrpc":"2.0","id":"%s","method":"echo","params":[1]}' % id.encode()
    return await transport.send(Outgoing(id, body, parts or RequestParts()), timeout=timeout, max_bytes=MIB)


def transport_to(url: str, **backend: object) -> SocketTransport:
    settings = Settings.model_validate({"auth": {"mode": "off"}, "backend": {"url": url, **backend}})
    made = open_transport(settings.by_mount[""], TlsFiles(), lambda _: True, anything_unfinished(), digest=False)
    assert isinstance(made, SocketTransport)
    return made


async def test_the_handshake_has_the_credential_and_the_headers_of_the_service(stand: WebSocketStand) -> None:
    transport = transport_to(stand.url, headers={"X-Tenant": "crm"})
    await ask(transport, parts=RequestParts({"X-Api-Key": "k"}, {"token": "a b"}))
    await transport.close()
    (handshake,) = stand.requests
    assert (handshake.path, handshake.headers["X-Api-Key"], handshake.headers["X-Tenant"]) == (
        "/rpc?token=a+b", "k", "crm"
    )  # fmt: skip
    assert "Sec-WebSocket-Protocol" not in handshake.headers
    assert "Content-Type" not in handshake.headers


@each("status", [301, 302, 307, 308])
async def test_a_redirect_of_the_handshake_is_not_followed(stand: WebSocketStand, status: int) -> None:
    asked: list[Request | None] = []

    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await read_request(reader, 0))
        writer.write(b"HTTP/1.1 %d Moved\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % (status, stand.url.encode()))

    server = Served(redirect)
    await server.open()
    transport = transport_to(f"ws://127.0.0.1:{server.port}/")
    reply = await ask(transport, parts=RequestParts({"X-Api-Key": "k"}))
    failure = reply.failure()
    assert failure is not None
    assert "redirects" in failure.message
    assert len(asked) == 1
    assert stand.requests == []
    await transport.close()
    await server.close()


@each(
    ("answer", "refused", "after", "said"),
    [
        (b"401 No", Refusal.CREDENTIAL, None, "not sent"),
        (b"403 No", Refusal.CALLER, None, "refuses this caller"),
        (b"404 No", None, None, "opens no WebSocket (HTTP 404); the call was not sent"),
        (b"200 OK", None, None, "opens no WebSocket (HTTP 200); the call was not sent"),
        (b"429 Later\r\nRetry-After: 7", None, 7, "not sent"),
        (b"429 Later", None, 1, "not sent"),
        (b"503 Later\r\nRetry-After: 9", None, 9, "not sent"),
    ],
)
async def test_what_a_refused_handshake_says_is_told(
    answer: bytes, refused: Refusal | None, after: int | None, said: str
) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader, 0)
        writer.write(b"HTTP/1.1 " + answer + b"\r\nContent-Length: 0\r\n\r\n")

    server = Served(refuse)
    await server.open()
    transport = transport_to(f"ws://127.0.0.1:{server.port}/")
    reply = await ask(transport)
    assert (reply.refused, reply.retry_after, reply.ran_nothing, reply.is_success) == (refused, after, True, False)
    failure = reply.failure()
    assert failure is not None
    assert said in failure.message
    await transport.close()
    await server.close()


async def test_a_proxys_error_is_no_connection_and_counts_for_the_breaker() -> None:
    async def fail(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader, 0)
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")

    server = Served(fail)
    await server.open()
    transport = transport_to(f"ws://127.0.0.1:{server.port}/")
    with pytest.raises(ConnectFailed, match="HTTP 502"):
        await ask(transport)
    await transport.close()
    await server.close()


async def test_a_ping_is_answered_and_what_the_service_asks_too() -> None:
    class Chatty(WebSocketStand):
        async def _say(self, body: bytes, writer: asyncio.StreamWriter) -> None:
            writer.write(frame(b"are you there", PING))
            await super()._say(body, writer)

    stand = Chatty()
    await stand.open()
    stand.act = Act.FLOOD
    transport = transport_to(stand.url)
    await ask(transport)
    await until(lambda: len(stand.said), (2).__eq__)
    assert stand.said == [
        {"jsonrpc": "2.0", "id": 1, "result": [2]},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "Method not found"}},
    ]
    assert stand.pongs == [b"are you there"]
    assert transport.dropped == 100
    await transport.close()
    await stand.close()


async def test_a_message_larger_than_four_answers_and_a_listing_ends_the_connection(stand: WebSocketStand) -> None:
    transport = transport_to(stand.url, max_response=400 * 1024)
    stand.act, stand.large = Act.LARGE, MAX_LISTING
    with pytest.raises(Interrupted, match="too large"):
        await ask(transport)
    stand.act = Act.ECHO
    await ask(transport)
    assert len(stand.requests) == 2
    await transport.close()


async def test_a_connection_on_which_nothing_came_in_time_gets_no_more_calls(stand: WebSocketStand) -> None:
    transport = transport_to(stand.url)
    stand.act = Act.WAIT
    patient = asyncio.create_task(ask(transport, "c1"))
    with pytest.raises(DeadlinePassed):
        await ask(transport, "c2", timeout=0.1)
    await stand.got(2)
    stand.act = Act.ECHO
    await ask(transport, "c3")
    assert len(stand.requests) == 2
    stand.release.set()
    await patient  # on the first connection
    await transport.close()


async def test_another_credential_has_a_connection_of_its_own(stand: WebSocketStand) -> None:
    transport = transport_to(stand.url)
    for token in ("old", "old", "new"):
        await ask(transport, parts=RequestParts({"Authorization": token}))
    assert [one.headers["Authorization"] for one in stand.requests] == ["old", "new"]
    await transport.close()


class Wanting(WebSocketStand):
    """Takes no token at the handshake, or that of the second login."""

    logins = 0

    def accepts(self, request: Request) -> bool:
        return request.headers.get("X-Token") in (None, "token-number-2")

    async def answer_to(self, message: Json) -> bytes | None:
        if message["method"] == "login":
            self.logins += 1
            message["params"] = f"token-number-{self.logins}"
        return await super().answer_to(message)


async def test_a_handshake_that_is_refused_renews_a_login_once(tmp_path: Path) -> None:
    (tmp_path / "methods.yaml").write_text("methods: [{name: echo, params: [{name: a}]}]")
    stand = Wanting()
    await stand.open()
    knobs = (
        "backend.credentials={mode: login, login: {method: login, find: {token: $.result}}, "
        "send: {headers: {X-Token: '{token}'}}}",
        f"backend.listing={{dialect: static, file: {tmp_path / 'methods.yaml'}}}",
    )
    async with front(stand.url, *knobs) as gateway:
        assert (await gateway.call("rest", "echo", {"a": 5})).value == {"a": 5}
        assert stand.logins == 2
        tokens = [one.headers.get("X-Token") for one in stand.requests]
        assert tokens == [None, "token-number-1", "token-number-2"]
        assert [message["method"] for message in stand.messages] == ["login", "login", "echo"]
    await stand.close()


async def test_no_word_of_a_failure_names_the_host(stand: WebSocketStand) -> None:
    transport = transport_to(stand.url)
    await stand.close()
    with pytest.raises(ConnectFailed) as caught:
        await ask(transport)
    assert "127.0.0.1" not in str(caught.value)
    await transport.close()
    await stand.open()


@each(
    ("error", "what"),
    [
        ({"code": -32601, "message": "'rpc.discover' wasn't found"}, "It is Chrome's DevTools."),
        ({"code": -32002, "message": "Server not initialized"}, "It is a language server."),
    ],
)
async def test_check_says_what_cannot_be_shared(error: Json, what: str) -> None:
    class Stateful(WebSocketStand):
        async def answer_to(self, message: Json) -> bytes | None:
            return json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode()

    stand = Stateful()
    await stand.open()
    ran = await run("check", *settings(stand.url))
    await stand.close()
    assert ran.code == 3
    assert what in ran.said
    assert "cannot be shared" in ran.said


@each(
    "flood",
    {
        "pings": frame(b"", PING),
        "empty messages": frame(b""),
        "pieces of a message": frame(b"x", final=False) + frame(b"x", 0, final=False) * 9,
    },
)
async def test_too_many_frames_without_messages_end_the_connection(flood: bytes) -> None:
    class Flooding(WebSocketStand):
        async def _say(self, body: bytes, writer: asyncio.StreamWriter) -> None:
            piece = frame(b"x", 0, final=False)
            writer.write(flood + (piece if flood.endswith(piece) else flood) * 10_000)

    stand = Flooding()
    await stand.open()
    transport = transport_to(stand.url)
    with pytest.raises(Interrupted, match="too many frames without messages"):
        await ask(transport)
    await transport.close()
    await stand.close()
