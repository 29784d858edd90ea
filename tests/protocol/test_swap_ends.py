"""What a reload replaces is let go of, however reloads follow each other, fail or meet the end."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import weakref
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

from aiohttp import ClientSession

from gateway.concurrency.collector import LARGE
from gateway.http_client.session import Outbound
from gateway.service.group import Group
from tests.fault.behaviours import Hang, result
from tests.fault.methods import ADD, Rpc, openrpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Start, settings
from tests.protocol.grouped import grouped
from tests.protocol.talk import JSON, MODERN, Client, modern_headers, modern_request
from tests.protocol.test_streams_alone import retired
from tests.protocol.test_swapping import OTHER, calling
from tests.waiting import PATIENCE, until

ANOTHER = "limits.discovery=501/minute"


def open_pools() -> int:
    """How many pools of connections are not closed yet."""
    return sum(isinstance(one, Outbound) and not one._session.closed for one in gc.get_objects())


async def test_stopping_ends_every_service_that_waits_for_the_calls_of_one_before_it(
    start: Start, session: ClientSession, backend: ScriptedBackend
) -> None:
    before = open_pools()
    short = "server.shutdown_timeout=50ms"
    gateway = await start(short)
    backend.on("add", Hang("nothing"))
    async with asyncio.timeout(PATIENCE):
        call = asyncio.create_task(calling(Client(session, gateway.port), MODERN))
        await backend.called("add")
        for knob in (OTHER, ANOTHER, OTHER):
            await gateway.reload(settings(backend.url, short, knob))
        await gateway.stop()
        await asyncio.wait([call])
    assert call.exception() is not None
    assert open_pools() == before


async def test_what_was_replaced_lists_no_more_while_an_earlier_service_finishes_its_calls(
    start: Start, session: ClientSession, backend: ScriptedBackend
) -> None:
    gateway = await start()
    backend.on("add", Hang("nothing"))
    async with asyncio.timeout(PATIENCE):
        call = asyncio.create_task(calling(Client(session, gateway.port), MODERN))
        await backend.called("add")
        await gateway.reload(settings(backend.url, OTHER))
        second = gateway.services[""]
        assert list(second.background.describe()) == ["listing: running"]
        await gateway.reload(settings(backend.url, ANOTHER))
        await until(lambda: not list(second.background.describe()))
        assert not call.done()
        backend.release.set()
        await call
        await retired(gateway)


async def test_a_listing_that_is_asked_for_while_a_reload_swaps_its_service_is_had_by_the_new_one(
    start: Start, backend: ScriptedBackend
) -> None:
    gateway = await start()
    backend.on("rpc.discover", Hang("nothing", result(openrpc([ADD]))))
    async with asyncio.timeout(PATIENCE):
        asked = asyncio.create_task(gateway.refresh_listings())
        await backend.called("rpc.discover")
        await gateway.reload(settings(backend.url, OTHER))
        backend.release.set()
        assert await asked == ""
    assert backend.calls("rpc.discover") == 2
    catalog = gateway.services[""].discovery.current()
    assert catalog is not None
    assert [tool.name for tool in catalog.tools] == ["add"]


async def test_a_reload_that_is_cancelled_at_any_turn_leaves_nothing_open(
    start: Start, backend: ScriptedBackend
) -> None:
    gateway = await start()
    before = open_pools()
    for turns in count():
        reload = asyncio.create_task(gateway.reload(settings(backend.url, "catalog.exclude=[echo]")))
        for _ in range(turns):
            await asyncio.sleep(0.0005)  # some of its turns are other threads'
        if reload.done():
            break
        reload.cancel()
        await asyncio.wait([reload])
        assert open_pools() == before, f"after {turns} turns"


async def test_a_schema_that_a_result_broke_is_left_out_by_the_service_that_a_reload_put_in_place_meanwhile(
    start: Start, session: ClientSession, backend: ScriptedBackend
) -> None:
    gateway = await start()
    client = Client(session, gateway.port)
    wrong = result({"sum": "five"})
    backend.on("add", Hang("nothing", wrong))
    async with asyncio.timeout(PATIENCE):
        call = asyncio.create_task(calling(client, MODERN))
        await backend.called("add")
        await gateway.reload(settings(backend.url, OTHER))
        backend.release.set()
        assert (await call).result["isError"]
    backend.on("add", wrong)
    assert (await calling(client, MODERN)).result["isError"]
    tools = (await client.mcp(modern_request("tools/list"), modern_headers("tools/list"))).result["tools"]
    (add,) = [tool for tool in tools if tool["name"] == "add"]
    assert "outputSchema" not in add


async def test_a_service_with_a_large_listing_which_the_collector_set_aside_is_let_go_of(
    start: Start, backend: ScriptedBackend
) -> None:
    backend.on("rpc.discover", result(openrpc([Rpc(f"m{number}") for number in range(LARGE)])))
    gateway = await start()
    gone = weakref.ref(gateway.services[""].discovery)
    assert gc.get_freeze_count()
    await gateway.reload(settings(backend.url, OTHER))
    await retired(gateway)
    await until(lambda: gone() is None)


async def test_a_stream_of_somebody_let_in_before_who_may_call_changed_ends_as_it_begins(
    start: Start, backend: ScriptedBackend
) -> None:
    gateway = await start()
    before = gateway.services[""]
    body = json.dumps(modern_request("subscriptions/listen", {"notifications": {}})).encode()
    headers = {"Host": "localhost", **JSON, **modern_headers("subscriptions/listen"), "Content-Length": len(body)}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode())
        await until(lambda: repr(before.uses) == "<Uses 1>")
        await gateway.reload(settings(backend.url, "auth.mode=off", "auth.allow_unauthenticated=true"))
        writer.write(body)
        answer = await reader.readuntil(b"\r\n0\r\n\r\n")
        writer.close()
    assert b"notifications/subscriptions/acknowledged" in answer
    assert b'"resultType":"complete"' in answer


def _is_over(task: asyncio.Task[None], pipe: Path, file: Path) -> bool:
    """Return whether a task is over. Where anything reads a pipe, write a file, and then end the read."""
    with suppress(OSError):
        writer = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        file.write_text("after")
        os.close(writer)
    return task.done()


async def test_no_group_keeps_a_service_whose_file_changed_after_it_was_read(tmp_path: Path) -> None:
    """A reload reads the files of crm, then those of shop, from a pipe here. The file of crm changes in between."""
    own, pipe = tmp_path / "own.yaml", tmp_path / "pipe"
    own.write_text("before")
    os.mkfifo(pipe)
    knobs = (f"services.crm.auth.keys.file={own}", f"services.shop.auth.keys.file={pipe}")
    async with grouped() as it:
        for _ in range(2):  # the second one is for the change
            reload = asyncio.create_task(it.reload(*knobs))
            await until(partial(_is_over, reload, pipe, own))
            await reload
        group = it.gateway.resources["/all"]
        assert isinstance(group, Group)
        assert group.services["crm"] is it.gateway.resources["/crm"]
        called = await it.client().call(MODERN, "crm.add", {"a": 2, "b": 3})
        assert called.result["structuredContent"] == {"sum": 5}
