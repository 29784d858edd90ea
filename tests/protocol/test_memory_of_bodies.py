"""What exchanges take of the memory is counted until they end, however they end, and a large body needs room for it."""

from __future__ import annotations

import asyncio
import gc
import gzip
import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
from structlog.testing import capture_logs

from gateway.process.server import Server
from tests.authorization.stand import CALLS, MODERN, Bearer
from tests.extent import part
from tests.fault.behaviours import CLOSE, Behaviour, GzipBomb, Hang, InTurn, error, result
from tests.fault.load import session
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.front import front
from tests.protocol.talk import request, status_of
from tests.protocol.test_many_connections import opened
from tests.waiting import PATIENCE, until

KEEP: Final = Rpc("keep", {"value": {}}, {}, "Take a large value")
TEXT: Final = "x" * 300_000
OBJECTS: Final = [{"id": number, "name": "abc"} for number in range(8_000)]
RELEASED: Final = Hang("nothing", result({}))


def bomb() -> list[list[int]]:
    """Return many small values. Kept for good, they would slow the collector for every test of this process."""
    return [[number] for number in range(400_000)]


@pytest.fixture
async def backend() -> AsyncIterator[ScriptedBackend]:
    async with ScriptedBackend((KEEP,)) as backend:
        yield backend


@pytest.fixture
async def gateway(backend: ScriptedBackend) -> AsyncIterator[Server]:
    """A gateway with 5 MiB for large bodies, 2 MiB of it for one caller. Nothing is held after a test of it."""
    async with front(backend.url, "server.max_buffered=8MiB", "limits.concurrent=50") as it:
        assert it.gateway is not None
        assert (await it.call("rest", "keep", {"value": 1})).status == 200
        yield it.gateway
        held = it.gateway.held
        await until(lambda: (held.bytes, held.by_owner.total(), len(held.by_owner)), lambda seen: seen == (0, 0, 0))


async def call(gateway: Server, surface: str, value: Any, address: str = "127.0.0.1") -> Any:
    async with session(address) as own:
        return await Bearer(own, gateway.port, None).call(surface, "keep", {"value": value})


async def under_way(backend: ScriptedBackend, calls: int) -> None:
    await until(lambda: backend.calls("keep"), lambda seen: seen >= calls)


@pytest.mark.parametrize("surface", CALLS)
async def test_large_bodies_under_way_take_room_of_their_caller_and_small_calls_go_on(
    surface: str, gateway: Server, backend: ScriptedBackend
) -> None:
    backend.on("keep", RELEASED)
    running = [asyncio.create_task(call(gateway, surface, TEXT))]
    await under_way(backend, 2)
    assert gateway.held.bytes >= len(TEXT)
    refused = await call(gateway, surface, TEXT)
    assert refused.status == 503
    assert "Retry-After" in refused.headers
    assert b"the call was not sent" in refused.body
    running += [asyncio.create_task(call(gateway, surface, value, "127.0.0.2")) for value in (TEXT, 1)]
    running.append(asyncio.create_task(call(gateway, surface, 1)))
    await under_way(backend, 5)
    backend.release.set()
    assert [answer.status for answer in await asyncio.gather(*running)] == [200] * 4


@pytest.mark.parametrize("surface", CALLS)
async def test_values_are_given_up_once_the_service_is_sent_them(
    surface: str, gateway: Server, backend: ScriptedBackend
) -> None:
    backend.on("keep", RELEASED)
    running = asyncio.create_task(call(gateway, surface, OBJECTS))
    await under_way(backend, 2)
    assert gateway.held.bytes < 6 * len(json.dumps(OBJECTS))
    assert backend.requests[-1].params == {"value": OBJECTS}
    backend.release.set()
    assert (await running).status == 200


@pytest.mark.parametrize("surface", CALLS)
async def test_they_are_given_up_also_where_the_structure_of_params_has_to_be_learned(
    surface: str, backend: ScriptedBackend
) -> None:
    """The service takes one by position. By name it refuses, and then the other structure has the same values."""
    backend.on("keep", InTurn((error(-32602, "Invalid params"), RELEASED)))
    knobs = "backend.params.structure=auto", "catalog.tools.keep.annotations.readOnlyHint=true"
    async with front(backend.url, "server.max_buffered=8MiB", *knobs) as it:
        assert it.gateway is not None
        running = asyncio.create_task(call(it.gateway, surface, OBJECTS))
        await under_way(backend, 2)
        assert it.gateway.held.bytes < 6 * len(json.dumps(OBJECTS))
        assert [sent.params for sent in backend.requests[-2:]] == [{"value": OBJECTS}, [OBJECTS]]
        backend.release.set()
        assert (await running).status == 200


@pytest.mark.parametrize("value", [OBJECTS, {"value": OBJECTS}], ids=["array", "object"])
async def test_they_are_given_up_also_where_one_argument_is_all_params(
    value: Any, backend: ScriptedBackend, tmp_path: Path
) -> None:
    file = tmp_path / "methods.json"
    file.write_text(json.dumps({"methods": ["keep"]}))
    backend.on("keep", RELEASED)
    knobs = "server.max_buffered=8MiB", "backend.listing.dialect=static", f"backend.listing.file={file}"
    async with front(backend.url, *knobs) as it:
        assert it.gateway is not None
        running = asyncio.create_task(it.call("rest", "keep", {"params": value}))
        await under_way(backend, 1)
        assert it.gateway.held.bytes < 7 * len(json.dumps(value))  # each element of an array is an object of its own
        assert backend.requests[-1].params == value
        backend.release.set()
        assert (await running).status == 200


@pytest.mark.parametrize("text", ["\\u007b", "\\u002c", "\\u005b", "1E15,", "{},"])
async def test_no_more_is_given_up_than_was_taken(text: str, gateway: Server, backend: ScriptedBackend) -> None:
    """What stands in a text counts less as an escape than as what it spells. Nothing may stay below zero, either."""
    backend.on("keep", RELEASED)
    value = f'["{text * 20_000}"]' if text.startswith("\\") else f"[{text * 20_000}0]"
    body = f'{{"name":"keep","arguments":{{"value":{value}}}}}'
    async with session("127.0.0.1") as own:
        running = asyncio.create_task(Bearer(own, gateway.port, None).post("/mcp/tools/invoke", body.encode()))
        await under_way(backend, 2)
        assert gateway.held.bytes >= 2 * len(body)
        backend.release.set()
        assert (await running).status == 200


SCHEMA: Final = {"type": "object", "properties": {"value": {"type": "array"}, "limit": {"type": "integer"}}}
KEPT: Final = [*itertools.product((MODERN, "2025-11-25", "rest"), (3, None), (False, True))]
"""Whether arguments go on as they came or without a null, and whether the tool is called by its name or call_tool."""


@pytest.mark.parametrize(("surface", "limit", "named"), part(KEPT, step=5))
async def test_nobody_keeps_the_values_that_came_once_they_are_serialized(
    surface: str, limit: int | None, named: bool, backend: ScriptedBackend, tmp_path: Path
) -> None:
    file = tmp_path / "methods.json"
    file.write_text(json.dumps({"methods": {"keep": {"input_schema": SCHEMA, "structure": "by-name"}}}))
    backend.on("keep", RELEASED)
    knobs = "backend.listing.dialect=static", f"backend.listing.file={file}", "catalog.search=true"
    arguments = {"value": OBJECTS, "limit": limit}
    tool, given = ("call_tool", {"name": "keep", "arguments": arguments}) if named else ("keep", arguments)
    async with front(backend.url, "server.max_buffered=8MiB", *knobs) as it, session("127.0.0.1") as own:
        assert it.gateway is not None
        before = _values()
        running = asyncio.create_task(Bearer(own, it.gateway.port, None).call(surface, tool, given))
        await under_way(backend, 1)
        assert it.gateway.held.bytes < 6 * len(json.dumps(OBJECTS))
        assert backend.requests[-1].params["value"] == OBJECTS
        assert _values() == before + 1, "beside ours and the service's"
        backend.release.set()
        assert (await running).status == 200


def _values() -> int:
    """How many lists like OBJECTS there are."""
    gc.collect()
    return sum(type(one) is list and len(one) == len(OBJECTS) and one[0] == OBJECTS[0] for one in gc.get_objects())


ENDS: Final[dict[str, Callable[[], Behaviour]]] = {
    "an answer": lambda: result({}),
    "a large answer": lambda: result({"text": TEXT}),
    "an error": lambda: error(-32000, "No"),
    "a closed connection": lambda: CLOSE,
    "a bomb": lambda: GzipBomb(20 * 2**20),
    "many small values": lambda: result(bomb()),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("surface", CALLS)
async def test_nothing_is_held_after_a_large_call_however_it_ends(
    surface: str, end: str, gateway: Server, backend: ScriptedBackend
) -> None:
    backend.on("keep", ENDS[end]())
    await call(gateway, surface, TEXT)


async def test_bodies_that_are_refused_leave_nothing(gateway: Server) -> None:
    async with session("127.0.0.1") as own:
        client = Bearer(own, gateway.port, None)
        for body in (b'{"a":' + b"[" * 5000, b'"' + b"x" * 5000, b"[" + b'{"a":1,"a":2},' * 500 + b"1]"):
            for path in ("/mcp/tools/invoke", "/jsonrpc", "/mcp/tools/keep", "/mcp/tools/none"):
                assert (await client.post(path, body)).status in (400, 404)
        packed = {"Content-Encoding": "gzip"}
        body = gzip.compress(json.dumps({"name": "keep", "arguments": {"value": TEXT}}).encode())
        assert (await client.post("/mcp/tools/invoke", body, packed)).status == 200


@pytest.mark.parametrize("surface", [MODERN, "2025-11-25"])
async def test_who_hangs_up_leaves_nothing_once_the_call_is_over(
    surface: str, gateway: Server, backend: ScriptedBackend
) -> None:
    backend.on("keep", RELEASED)
    running = asyncio.create_task(call(gateway, surface, TEXT))
    await under_way(backend, 2)
    running.cancel()
    with suppress(asyncio.CancelledError, aiohttp.ClientError):
        await running
    if surface == MODERN:  # which cancels the call
        await until(lambda: gateway.held.bytes, lambda seen: seen == 0)
    else:
        await until(lambda: gateway.held.bytes, lambda seen: len(TEXT) <= seen < 5 * len(TEXT))
    backend.release.set()


async def test_the_calls_of_a_batch_share_its_room(gateway: Server, backend: ScriptedBackend) -> None:
    backend.on("keep", result(OBJECTS[:4000]))
    batch = [request("keep", {"value": "x" * 10_000}, id) for id in range(20)]
    async with session("127.0.0.1") as own:
        answers = (await Bearer(own, gateway.port, None).post("/jsonrpc", batch)).json
    assert [answer["result"] == OBJECTS[:4000] for answer in answers] == [True] * 20


@pytest.mark.parametrize("surface", CALLS)
async def test_a_response_whose_values_find_no_room_is_not_decoded(
    surface: str, gateway: Server, backend: ScriptedBackend
) -> None:
    backend.on("keep", error(-32000, "No", bomb()))
    answer = await call(gateway, surface, 1)
    assert b"The gateway holds too many answers to read this one" in answer.body


async def test_a_body_that_never_has_room_is_413(gateway: Server) -> None:
    refused = await call(gateway, "rest", [[number] for number in range(40_000)])
    assert refused.status == 413
    assert b"server.max_buffered" in refused.body


async def test_a_flood_of_large_bodies_is_two_lines_of_the_log(gateway: Server, backend: ScriptedBackend) -> None:
    backend.on("keep", RELEASED)
    with capture_logs() as lines:
        running = [asyncio.create_task(call(gateway, "rest", TEXT, f"127.0.0.{number}")) for number in range(1, 5)]
        await until(lambda: gateway.held.bytes > 3 * 4 * len(TEXT))
        refused = [await call(gateway, "rest", TEXT, f"127.0.1.{number}") for number in range(1, 9)]
        backend.release.set()
        await asyncio.gather(*running)
    assert {answer.status for answer in refused} == {503}
    events = [line["event"] for line in lines if "refused" in line["event"]]
    assert events == ["large bodies and results are refused", "large bodies and results are no longer refused"]


async def test_many_small_bodies_that_were_let_in_while_there_was_room_do_not_pass_the_bound(gateway: Server) -> None:
    """Each caller holds a byte when it is let in. Of 17 sixteenths of 8 MiB, 287 bodies have 31,000."""
    sent = b"POST /mcp/tools/invoke HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    held = gateway.held
    async with AsyncExitStack() as stack:
        crowd = [await opened(stack, gateway.port, f"127.0.{1 + n // 100}.{1 + n % 100}") for n in range(300)]
        for _, writer in crowd:
            writer.write(sent + b"Content-Length: 31000\r\n\r\n ")
        await until(lambda: len(held.by_owner), lambda seen: seen == 300)
        for _, writer in crowd:
            before = held.bytes
            writer.write(b" " * 30_998)
            await until(lambda: held.bytes, before.__ne__)
        assert held.bytes <= 17 * 2**19
        answer = await crowd[-1][0].read(10_000)
        assert status_of(answer) == 503
        assert b"the call was not sent" in answer


async def test_a_body_that_is_given_up_is_503_and_safe_to_repeat(gateway: Server) -> None:
    """What is sent ahead has 1 MiB of 8: these heads have more."""
    head = b"POST /mcp/tools/invoke HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    sent = head + b"X: %b\r\n" % (b"x" * 8000) * 7 + b"Content-Length: 100\r\n\r\n"
    async with AsyncExitStack() as stack:
        crowd = [await opened(stack, gateway.port, f"127.0.1.{number}") for number in range(1, 25)]
        for _, writer in crowd:
            writer.write(sent)
        async with asyncio.timeout(PATIENCE):
            reading = [asyncio.create_task(reader.read(10_000)) for reader, _ in crowd]
            done, _ = await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED)
        answer = done.pop().result()
        for one in reading:
            one.cancel()
        assert status_of(answer) == 503
        assert b"it is safe to repeat" in answer
        assert gateway.held.bytes < 2**20
