"""What streams alone have: framings, versions and orders that are learned, TLS, and paths."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.backend.choice import open_transport
from gateway.backend.request_parts import RequestParts
from gateway.backend.sockets import SocketTransport
from gateway.backend.transport import MAX_LISTING, Outgoing, Reply
from gateway.config.service_files import backend_tls
from gateway.http_client.response import ConnectFailed, DeadlinePassed, Interrupted
from gateway.model import MessageForm
from gateway.settings import Settings
from tests.contract.transports import Act, Json, Served, StreamStand, anything_unfinished
from tests.each import each
from tests.front import front
from tests.tls import Authority
from tests.waiting import PATIENCE, until

FRAMINGS: Final = ("newline", "none", "etx", "content-length")
IN_ORDER: Final = MessageForm(in_order=True)
UNKNOWN_METHOD: Final = {"code": -32601, "message": "Method not found"}
DOCUMENT: Final = {
    "openrpc": "1.2.6",
    "info": {"title": "Far", "version": "1"},
    "methods": [{"name": "add", "params": [{"name": "a", "schema": {"type": "integer"}}], "paramStructure": "by-name"}],
}


class Listed(StreamStand):
    """Lists ``add`` and knows no other question. Says nothing as long as it sees no end of a message."""

    def __init__(self, framing: str = "none") -> None:
        super().__init__()
        self.framing = framing
        self.result = lambda message: DOCUMENT if message["method"] == "rpc.discover" else message.get("params")


class Unnamed(Listed):
    """Answers without ids."""

    def __init__(self) -> None:
        super().__init__("newline")

    async def answer_to(self, message: Json) -> bytes | None:
        body = await super().answer_to(message)
        answer = json.loads(body or b"{}")
        answer.pop("id", None)
        return json.dumps(answer).encode()


class OldAndStrict(Listed):
    """Speaks JSON-RPC 1.0, and ends the connection for anything else, as OVSDB does."""

    async def take(self, message: Json, writer: asyncio.StreamWriter) -> None:
        if "jsonrpc" in message or ("method" in message and "params" not in message):
            writer.transport.abort()
        else:
            await super().take(message, writer)

    async def answer_to(self, message: Json) -> bytes | None:
        body = await super().answer_to(message)
        if body is None:
            return None
        answer = json.loads(body)
        del answer["jsonrpc"]
        asked = {"id": "echo", "method": "echo", "params": ["there?"]}
        return json.dumps(asked).encode() + self.wrap(json.dumps(answer | {"error": None}).encode())


@pytest.fixture
async def opened() -> AsyncIterator[Callable[[StreamStand], Any]]:
    stands: list[StreamStand] = []

    async def open(stand: StreamStand) -> StreamStand:
        await stand.open()
        stands.append(stand)
        return stand

    yield open
    for stand in stands:
        await stand.close()


def transport_to(url: str, **backend: object) -> SocketTransport:
    settings = Settings.model_validate({"auth": {"mode": "off"}, "backend": {"url": url, **backend}}).by_mount[""]
    made = open_transport(settings, backend_tls(settings), lambda _: True, anything_unfinished(), digest=False)
    assert isinstance(made, SocketTransport)
    return made


async def ask(
    transport: SocketTransport, id: str = "c1", form: MessageForm | None = None, timeout: float = PATIENCE
) -> Reply:
    body = b'{"jsonrpc":"2.0","id":"%s","method":"echo","params":["%s"]}' % (id.encode(), id.encode())
    outgoing = Outgoing(id, body, RequestParts(), form=form or MessageForm())
    return await transport.send(outgoing, timeout=timeout, max_bytes=10**6)


@each("framing", FRAMINGS)
async def test_each_framing_carries_many_at_a_time(opened: Callable[..., Any], framing: str) -> None:
    stand = await opened(Listed(framing))
    transport = transport_to(stand.url)
    form = MessageForm(framing=framing)
    replies = await asyncio.gather(*(ask(transport, f"c{number}", form) for number in range(100)))
    assert [json.loads(reply.body)["result"] for reply in replies] == [[f"c{number}"] for number in range(100)]
    assert stand.listener.connections == 1
    await transport.close()


@each("framing", FRAMINGS)
async def test_the_framing_is_learned_by_questions_and_calls_have_it(opened: Callable[..., Any], framing: str) -> None:
    stand = await opened(Listed(framing))
    async with front(stand.url) as gateway:
        results = await asyncio.gather(*(gateway.call("rest", "add", {"a": number}) for number in range(20)))
        assert [called.value for called in results] == [{"a": number} for number in range(20)]
    assert [message["method"] for message in stand.messages] == ["rpc.discover"] + ["add"] * 20


async def test_a_framing_that_is_set_is_not_learned(opened: Callable[..., Any]) -> None:
    stand = await opened(Listed("etx"))
    async with front(stand.url, "backend.framing=etx") as gateway:
        assert (await gateway.call("rest", "add", {"a": 1})).value == {"a": 1}
    assert stand.listener.connections == 1


async def test_a_call_never_teaches_a_framing(opened: Callable[..., Any], tmp_path: Path) -> None:
    stand = await opened(Listed("etx"))
    (tmp_path / "methods.yaml").write_text("methods: [{name: add, params: [{name: a}]}]")
    listed = f"backend.listing={{dialect: static, file: {tmp_path / 'methods.yaml'}}}"
    async with front(stand.url, listed, "backend.timeout=300ms") as gateway:
        assert (await gateway.call("rest", "add", {"a": 1})).code == "backend_timeout"
    assert stand.messages == []
    async with front(stand.url, listed, "backend.framing=etx") as gateway:
        assert (await gateway.call("rest", "add", {"a": 1})).value == {"a": 1}


async def test_a_service_of_version_1_that_ends_the_connection_for_another_is_learned(
    opened: Callable[..., Any],
) -> None:
    stand = await opened(OldAndStrict())
    async with front(stand.url) as gateway:
        assert (await gateway.call("rest", "add", {"a": 4})).value == {"a": 4}
    assert {frozenset(message) for message in stand.messages} == {frozenset(("id", "method", "params"))}
    await until(lambda: len(stand.said), len(stand.messages).__eq__)
    assert stand.said[0] == {"id": "echo", "result": ["there?"], "error": None}


async def test_without_ids_one_is_under_way_at_a_time(opened: Callable[..., Any]) -> None:
    stand = await opened(Unnamed())
    async with front(stand.url) as gateway:
        stand.act = Act.WAIT
        calls = [asyncio.create_task(gateway.call("rest", "add", {"a": number})) for number in range(5)]
        await stand.got(2)
        stand.release.set()
        assert [(await call).value for call in calls] == [{"a": number} for number in range(5)]
    assert stand.listener.connections == 1


async def test_without_ids_a_late_answer_is_never_that_to_the_next(opened: Callable[..., Any]) -> None:
    stand = await opened(Unnamed())
    transport = transport_to(stand.url)
    stand.act = Act.WAIT
    with pytest.raises(DeadlinePassed):
        await ask(transport, "c1", IN_ORDER, timeout=0.1)
    given_up = asyncio.create_task(ask(transport, "c2", IN_ORDER))
    await stand.got(2)
    given_up.cancel()
    await asyncio.wait([given_up])
    stand.release.set()
    stand.act = Act.ECHO
    assert json.loads((await ask(transport, "c3", IN_ORDER)).body)["result"] == ["c3"]
    assert stand.listener.connections == 3
    await transport.close()


async def test_a_question_that_times_out_ends_no_call_of_others(opened: Callable[..., Any]) -> None:
    stand = await opened(Listed("newline"))
    transport = transport_to(stand.url)
    stand.act = Act.WAIT
    call = asyncio.create_task(ask(transport, "c1"))
    await stand.got(1)
    with pytest.raises(DeadlinePassed):
        await ask(transport, "q1", IN_ORDER, timeout=0.1)
    stand.release.set()
    assert json.loads((await call).body)["result"] == ["c1"]
    assert json.loads((await ask(transport, "c2")).body)["result"] == ["c2"]
    assert stand.listener.connections == 2
    await transport.close()


async def test_by_id_an_answer_without_one_belongs_to_nobody(opened: Callable[..., Any]) -> None:
    stand = await opened(Unnamed())
    transport = transport_to(stand.url)
    with pytest.raises(DeadlinePassed):
        await ask(transport, timeout=0.2)
    assert transport.dropped == 1
    await transport.close()


async def test_a_message_larger_than_four_answers_and_a_listing_ends_the_connection(opened: Callable[..., Any]) -> None:
    stand = await opened(Listed())
    transport = transport_to(stand.url, max_response=400 * 1024)
    stand.act, stand.large = Act.LARGE, MAX_LISTING
    with pytest.raises(Interrupted, match="a message was too large"):
        await ask(transport)
    stand.act = Act.ECHO
    await ask(transport)
    await transport.close()


async def test_a_service_that_reads_nothing_is_given_no_more_than_a_little(opened: Callable[..., Any]) -> None:
    class Deaf(StreamStand):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            await self.release.wait()

    stand = await opened(Deaf())
    transport = transport_to(stand.url)
    body = b'{"id":"%d","method":"m","params":["' + b"x" * 1024 * 1024 + b'"]}'
    sent = [Outgoing(str(number), body % number, RequestParts()) for number in range(40)]
    tasks = [asyncio.create_task(transport.send(one, timeout=0.3, max_bytes=10)) for one in sent]
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(outcome, DeadlinePassed)
    stand.release.set()
    await transport.close()


@each("knob", ["ca_file", "fingerprint", None])
async def test_tls_has_the_knobs_of_the_backend(tmp_path: Path, knob: str | None) -> None:
    authority = Authority(tmp_path)
    stand = Listed()
    stand.listener = Served(stand.serve, authority.server("127.0.0.1"))
    await stand.open()
    url = stand.url.replace("tcp://", "tls://")
    try:
        if knob == "ca_file":
            assert json.loads((await ask(transport_to(url, tls={knob: str(authority.file)}))).body)["result"] == ["c1"]
            return
        said = "another than the pinned one" if knob else "its TLS certificate is not trusted"
        with pytest.raises(ConnectFailed, match=said):
            await ask(transport_to(url, **({"tls": {knob: "ab" * 32}} if knob else {})))
        assert stand.messages == []
    finally:
        await stand.close()


async def test_words_of_a_path_that_cannot_be_used_do_not_name_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no socket")
    for name, said in (("none", "its socket is not there"), ("file", "connection refused")):
        transport = transport_to(f"unix:{tmp_path}/{name}")
        with pytest.raises(ConnectFailed, match=f"^{said}$") as caught:
            await ask(transport)
        assert not caught.value.sent
        await transport.close()


class OneCall(Listed):
    """Answers the first message of each connection, and ends it, as libjson-rpc-cpp does, or reads no more. Lists
    ``add`` in an answer to the ``listing``."""

    def __init__(self, listing: str, *, ends: bool) -> None:
        super().__init__("newline")
        self.ends = ends
        self.listed = {"rpc.discover": DOCUMENT, "core.describe": {"add": {"params": [{"name": "a"}]}}}
        self.listing = listing

    async def answer_to(self, message: Json) -> bytes:
        method = message["method"]
        known = method in ("add", self.listing)
        found = {"result": self.listed.get(method, message.get("params"))} if known else {"error": UNKNOWN_METHOD}
        return json.dumps({"jsonrpc": "2.0", "id": message["id"], **found}).encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self.wrap(await self.answer_to(json.loads(await reader.readline()))))
        while not self.ends and await reader.read(65536):
            pass


async def forty_calls(stand: StreamStand, *knobs: str) -> list[Any]:
    """The values of 40 calls, eight at a time."""
    eight = asyncio.Semaphore(8)

    async def call(gateway: Any, number: int) -> Any:
        async with eight:
            called = await gateway.call("rest", "add", {"a": number})
            return called.text if called.failed else called.value

    async with front(stand.url, "backend.timeout=5s", *knobs) as gateway:
        return await asyncio.gather(*(call(gateway, number) for number in range(40)))


@each(
    ("listing", "ends", "knobs"),
    [
        ("rpc.discover", True, ()),
        ("core.describe", True, ()),
        ("core.describe", False, ()),
        ("", True, ("backend.calls_per_connection=1",)),
        ("", False, ("backend.calls_per_connection=1",)),
    ],
)
async def test_a_service_of_one_call_for_each_connection_gets_one_on_each(
    opened: Callable[..., Any], tmp_path: Path, listing: str, ends: bool, knobs: tuple[str, ...]
) -> None:
    (tmp_path / "methods.yaml").write_text("methods: [{name: add, params: [{name: a}]}]")
    of_file = () if listing else (f"backend.listing={{dialect: static, file: {tmp_path / 'methods.yaml'}}}",)
    stand = await opened(OneCall(listing, ends=ends))
    assert await forty_calls(stand, *knobs, *of_file) == [{"a": number} for number in range(40)]


async def test_connections_that_end_of_themselves_carry_many_calls_again(opened: Callable[..., Any]) -> None:
    stand = await opened(Listed("newline"))
    transport = transport_to(stand.url)
    await asyncio.gather(ask(transport, "c1"), ask(transport, "c2"))
    await stand.close()
    await stand.open()
    assert not await transport.ends_after_one(0.1)
    transport = transport_to(stand.url)
    await asyncio.gather(*(ask(transport, f"d{number}") for number in range(10)))
    assert stand.listener.connections == 2
    await transport.close()


async def test_a_full_backlog_of_a_unix_socket_is_waited_for(tmp_path: Path) -> None:
    loop, path = asyncio.get_running_loop(), str(tmp_path / "full")
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(socket.socket(socket.AF_UNIX))
        service.setblocking(False)
        service.bind(path)
        service.listen(0)
        others = []
        with contextlib.suppress(BlockingIOError):
            while True:
                others.append(stack.enter_context(socket.socket(socket.AF_UNIX)))
                others[-1].setblocking(False)
                others[-1].connect(path)
        transport = transport_to(f"unix:{path}")
        asked = asyncio.create_task(ask(transport))
        done, _ = await asyncio.wait([asked], timeout=0.1)
        assert not done
        for _ in others[:-1]:
            stack.enter_context((await loop.sock_accept(service))[0])
        ours = stack.enter_context((await loop.sock_accept(service))[0])
        answer = json.loads(await loop.sock_recv(ours, 65536))
        await loop.sock_sendall(ours, json.dumps({"id": answer["id"], "result": answer["params"]}).encode())
        assert json.loads((await asked).body)["result"] == ["c1"]
        await transport.close()
