"""The scripted backend does what its behaviours say: a fault test that a liar passes proves nothing."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import json
import socket
import zlib
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.each import each
from tests.fault.behaviours import (
    CLOSE,
    SUM,
    Body,
    Cut,
    GzipBomb,
    Hang,
    InTurn,
    Redirect,
    Several,
    Stream,
    error,
    result,
)
from tests.fault.methods import Rpc
from tests.fault.rows import BEHAVIOURS, LEAK, Row
from tests.fault.scripted import Bystander, ScriptedBackend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.fault.behaviours import Ending, Extent

ADD = b'{"jsonrpc":"2.0","id":"7","method":"add","params":{"a":2,"b":3}}'


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as client:
        yield client


def rpc(method: str, params: Any = None, **members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}} | members


async def ask(backend: ScriptedBackend, call: bytes = ADD) -> bytes:
    """All that comes back for one call until the connection ends, with ``RESET`` where a reset ended it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", backend.port)
    writer.write(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(call), call))
    writer.write_eof()
    answer = b""
    try:
        while data := await reader.read(65536):
            answer += data
    except ConnectionResetError:
        answer += b"RESET"
    writer.close()
    return answer


async def test_a_listed_method_answers_honestly_by_name_and_by_position(
    backend: ScriptedBackend, session: aiohttp.ClientSession
) -> None:
    for params in ({"a": 2, "b": 3}, [2, 3]):
        async with session.post(backend.url, json=rpc("add", params)) as answer:
            assert await answer.json() == {"jsonrpc": "2.0", "id": 1, "result": {"sum": 5}}


async def test_failures_are_json_rpc_errors(backend: ScriptedBackend, session: aiohttp.ClientSession) -> None:
    for method, code in {"fail": -32000, "nope": -32601, "add": -32602}.items():
        async with session.post(backend.url, json=rpc(method)) as answer:
            assert (await answer.json())["error"]["code"] == code
    async with session.post(backend.url, data=b"{") as answer:
        assert (await answer.json())["error"]["code"] == -32700


async def test_a_notification_gets_204(backend: ScriptedBackend, session: aiohttp.ClientSession) -> None:
    async with session.post(backend.url, json={"jsonrpc": "2.0", "method": "void"}) as answer:
        assert (answer.status, await answer.read()) == (204, b"")


async def test_rpc_discover_lists_the_given_methods_even_when_calls_are_spoilt(
    session: aiohttp.ClientSession,
) -> None:
    given = (Rpc("book", {"title": {"type": "string"}}), Rpc("ping", result=None))
    async with ScriptedBackend(given, default=CLOSE) as backend:
        async with session.post(backend.url, json=rpc("rpc.discover")) as answer:
            listed = (await answer.json())["result"]["methods"]
        assert [(m["name"], "result" in m) for m in listed] == [("book", True), ("ping", False)]
        assert listed[0]["params"] == [{"name": "title", "required": True, "schema": {"type": "string"}}]
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await session.post(backend.url, json=rpc("ping"))


async def test_requests_are_recorded_with_their_connection(
    backend: ScriptedBackend, session: aiohttp.ClientSession
) -> None:
    for _ in range(2):
        async with session.post(backend.url + "?x=1", json=rpc("echo", {"value": 4}), headers={"X-A": "b"}):
            pass
    first, second = backend.requests
    assert (first.verb, first.path, first.headers["x-a"]) == ("POST", "/jsonrpc?x=1", "b")
    assert (first.method, first.params, backend.calls("echo")) == ("echo", {"value": 4}, 2)
    assert (first.connection, second.connection, backend.connections) == (1, 1, 1)


async def test_a_chunked_request_is_read_whole(backend: ScriptedBackend, session: aiohttp.ClientSession) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield ADD[:10]
        yield ADD[10:]

    async with session.post(backend.url, data=parts()) as answer:
        assert (await answer.json())["result"] == {"sum": 5}
    assert backend.requests[0].body == ADD


async def test_what_is_no_http_is_recorded_as_a_fault(backend: ScriptedBackend) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", backend.port)
    writer.write(b"nonsense\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    writer.close()
    assert (len(backend.faults), backend.requests) == (1, [])


@pytest.mark.parametrize(
    ("extent", "ending", "sees"),
    [
        ("nothing", "close", b""),
        ("nothing", "reset", b"RESET"),
        ("head", "reset", b"\r\n\r\nRESET"),
        ("half", "reset", b'{"id":"7","result":RESET'),
        ("half", "close", b'{"id":"7","result":'),
    ],
)
async def test_an_answer_breaks_off_where_it_should(
    backend: ScriptedBackend, extent: Extent, ending: Ending, sees: bytes
) -> None:
    backend.on("add", Cut(extent, ending, Body(b'{"id":@ID@,"result":' + b"1" * 18 + b"}")))
    answer = await ask(backend)
    assert answer.endswith(sees)
    assert (answer == sees) == (extent == "nothing")


@pytest.mark.parametrize(("chunked", "message"), [(False, "ContentLength"), (True, "TransferEncoding")])
async def test_a_client_sees_a_truncated_body_as_such(
    backend: ScriptedBackend, session: aiohttp.ClientSession, chunked: bool, message: str
) -> None:
    backend.on("add", Cut("half", answer=result({"sum": 5}, chunked=chunked)))
    async with session.post(backend.url, json=rpc("add")) as answer:
        with pytest.raises(aiohttp.ClientPayloadError, match=message):
            await answer.read()


@pytest.mark.parametrize("extent", ["nothing", "head", "half"])
async def test_a_hanging_answer_goes_on_when_it_is_released(
    backend: ScriptedBackend, session: aiohttp.ClientSession, extent: Extent
) -> None:
    backend.on("add", Hang(extent))
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(session.post(backend.url, json=rpc("add")))
        await backend.called("add")
        assert not backend.release.is_set()
        backend.release.set()
    async with asked.result() as answer:
        assert (await answer.json())["result"] == {"sum": 5}
    assert not backend.abandoned.is_set()


async def test_a_client_that_hangs_up_during_a_hang_is_noticed(
    backend: ScriptedBackend, session: aiohttp.ClientSession
) -> None:
    backend.on("add", Hang("half"))
    answer = await session.post(backend.url, json=rpc("add"))
    answer.close()
    await backend.abandoned.wait()


async def test_closing_ends_exchanges_that_still_hang(session: aiohttp.ClientSession) -> None:
    async with ScriptedBackend(default=Hang("nothing")) as backend:
        asked = asyncio.ensure_future(session.post(backend.url, json=rpc("add")))
        await backend.called("add")
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await asked


async def test_nobody_listens_at_the_refused_url(backend: ScriptedBackend, session: aiohttp.ClientSession) -> None:
    with pytest.raises(aiohttp.ClientConnectorError):
        await session.post(backend.refused_url, json=rpc("add"))


async def test_the_second_listener_counts_whoever_follows_a_redirect(
    backend: ScriptedBackend, session: aiohttp.ClientSession
) -> None:
    backend.on("add", Redirect(307))
    async with session.post(backend.url, json=rpc("add"), allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (
            307,
            f"http://127.0.0.1:{backend.other.port}/jsonrpc",
        )
    assert (backend.other.connections, backend.other.received) == (0, b"")
    async with session.post(backend.url, json=rpc("add")) as answer:
        assert answer.status == 200
    assert backend.other.connections == 1
    assert backend.other.received.startswith(b"POST /jsonrpc")


async def test_a_gzip_bomb_is_small_on_the_wire_and_sound(backend: ScriptedBackend) -> None:
    backend.on("add", GzipBomb(3 * 1024 * 1024))
    async with (
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.post(backend.url, json=rpc("add")) as answer,
    ):
        packed = await answer.read()
        assert answer.headers["Content-Encoding"] == "gzip"
    assert len(packed) < 10_000
    assert json.loads(gzip.decompress(packed))["result"] == "0" * 3 * 1024 * 1024


async def test_the_preset_bomb_unpacks_to_300_mib(backend: ScriptedBackend) -> None:
    backend.on("add", BEHAVIOURS["B12-gzip-bomb"].behaviour)
    unpacked, unzip = 0, zlib.decompressobj(wbits=31)
    async with (
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.post(backend.url, json=rpc("add")) as answer,
    ):
        async for block in answer.content.iter_any():
            unpacked += len(unzip.decompress(block))
    assert unpacked > 300 * 1024 * 1024
    assert backend.bytes_sent < 1024 * 1024


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_stream_has_the_size_it_claims(
    backend: ScriptedBackend, session: aiohttp.ClientSession, chunked: bool
) -> None:
    backend.on("add", Stream(2_500_000, chunked))
    async with session.post(backend.url, json=rpc("add")) as answer:
        assert len((await answer.json())["result"]) == 2_500_000


async def test_a_client_that_stops_reading_a_stream_stops_it(
    backend: ScriptedBackend, session: aiohttp.ClientSession
) -> None:
    backend.on("add", Stream(100 * 1024 * 1024))
    answer = await session.post(backend.url, json=rpc("add"))
    answer.close()
    await backend.abandoned.wait()
    assert backend.bytes_sent < 20 * 1024 * 1024


async def test_behaviours_take_turns_and_the_last_stays(
    backend: ScriptedBackend, session: aiohttp.ClientSession
) -> None:
    backend.on("add", InTurn((error(1, "first"), SUM)))
    seen = []
    for _ in range(3):
        async with session.post(backend.url, json=rpc("add")) as answer:
            seen.append("error" in await answer.json())
    assert seen == [True, False, False]


async def test_two_responses_come_on_one_connection(backend: ScriptedBackend) -> None:
    backend.on("add", Several((SUM, result({"sum": 6}))))
    answer = await ask(backend)
    assert answer.count(b"HTTP/1.1 200 OK") == 2


@pytest.mark.parametrize(("sent", "own", "other"), [("7", b'"7"', b"7"), (7, b"7", b'"7"'), ("x", b'"x"', b"1")])
async def test_templates_know_the_id_and_its_other_spelling(
    backend: ScriptedBackend, session: aiohttp.ClientSession, sent: object, own: bytes, other: bytes
) -> None:
    backend.on("add", Body(b"@ID@ @SWAPPED-ID@", content_type=None))
    async with session.post(backend.url, json=rpc("add", id=sent)) as answer:
        assert await answer.read() == own + b" " + other
        assert "Content-Type" not in answer.headers or answer.content_type == "application/octet-stream"


BRIEF = {name: row for name, row in BEHAVIOURS.items() if row.endpoint == "scripted" and not row.hangs}
"""Rows that come to an end on their own."""


@pytest.mark.parametrize("name", [n for n in BRIEF if not n.startswith(("B12", "B13"))])
async def test_every_row_plays_to_its_end(backend: ScriptedBackend, name: str) -> None:
    row: Row = BRIEF[name]
    backend.default = row.behaviour
    answer = await ask(backend, ADD if row.method == "add" else b'{"jsonrpc":"2.0","method":"void"}')
    assert backend.calls(row.method) == row.sends == 1
    assert SAYS.get(name, b"") in answer


SAYS = {
    "B03-reset-before": b"RESET",
    "B04-html-login": b"text/html",
    "B05-503-retry-soon": b"Retry-After: 120",
    "B06-204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "B06-204-to-notification": b"HTTP/1.1 204 No Content\r\n\r\n",
    "B09-swapped-id-type": b'"id":7,',
    "B11-two-responses": LEAK.encode(),
    "B14-300-headers": b"X-299: a",
    "B14-bare-lf": b"OK\nContent-Type: application/json\n\n{",
    "B14-status-99": b"HTTP/1.1 99 ",
    "B14-status-999": b"HTTP/1.1 999 ",
    "B14-103-twenty": b"HTTP/1.1 103 Early Hints\r\n",
    "B15-set-cookie": b"Set-Cookie: sid=",
    "B16-invalid-utf-8": b"\xff\xfe",
    "B16-lone-surrogate": rb"\ud800",
}
"""What tells a row from its neighbours on the wire."""


def test_the_rows_are_complete() -> None:
    assert {name[:3] for name in BEHAVIOURS} == {f"B{n:02}" for n in range(1, 17)}
    for name, row in BEHAVIOURS.items():
        assert row.hangs == name.startswith("B02"), name


@each("steps", [*range(6)])
async def test_a_connection_that_arrives_while_it_closes_is_closed(steps: int) -> None:
    """One that is lost would be an unclosed socket, and fail another test."""
    listener = Bystander()
    await listener.open()
    with socket.create_connection(("127.0.0.1", listener.port), timeout=5) as client:
        for _ in range(steps):
            await asyncio.sleep(0)
        for _ in range(2):  # a test closes one that its fixture closes again
            await listener.close()
        with contextlib.suppress(ConnectionResetError):  # it was not accepted yet
            assert client.recv(1) == b"", "it was told the end"
    gc.collect()
