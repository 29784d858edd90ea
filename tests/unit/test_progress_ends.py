"""How a stream with progress ends, whatever becomes of the work that it waits for."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, TypeAlias

from structlog.testing import capture_logs

from gateway.errors import GatewayError, InvalidParams
from gateway.jsonrpc import Raw, Request
from gateway.mcp.messages import Events
from gateway.mcp.running import stream_progress
from tests.each import each

Result: TypeAlias = dict[str, Any]

REQUEST = Request(7, "tools/call", {})
HOUR = 3600.0


def stream(work: Callable[[], Awaitable[Result]], *, cancels: bool = True) -> tuple[Events, list[asyncio.Task[Result]]]:
    """A stream and, once it has begun, its work."""
    tasks: list[asyncio.Task[Result]] = []

    def start() -> asyncio.Task[Result]:
        tasks.append(asyncio.ensure_future(work()))
        return tasks[0]

    return stream_progress(REQUEST, "p", start, HOUR, nullcontext(), cancels=cancels, tool="add"), tasks


async def last(events: Events) -> Any:
    """The response at its end."""
    *_, response = [json.loads(message) async for message in events if message is not None]
    return response


async def test_a_result_becomes_the_response() -> None:
    async def work() -> Result:
        return {"sum": Raw(b"5")}

    assert await last(stream(work)[0]) == {"jsonrpc": "2.0", "id": 7, "result": {"sum": 5}}


async def test_an_error_becomes_the_response() -> None:
    async def work() -> Result:
        raise InvalidParams("no")

    response = await last(stream(work)[0])
    assert (response["id"], response["error"]) == (7, {"code": -32602, "message": "no"})


async def test_an_unforeseen_failure_becomes_an_internal_error_and_is_logged() -> None:
    async def work() -> Result:
        raise ZeroDivisionError("secret")

    with capture_logs() as lines:
        response = await last(stream(work)[0])
    assert response["error"] == {"code": -32603, "message": "Internal error"}
    assert [line["event"] for line in lines] == ["internal error"]


@each("cancels", [True, False])
async def test_an_error_that_nobody_is_left_to_hear_is_no_trouble(cancels: bool) -> None:
    """asyncio would report an exception of a task that nobody asked for."""

    async def work() -> Result:
        raise GatewayError("no")

    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    events, tasks = stream(work, cancels=cancels)
    await anext(events)
    await asyncio.wait(tasks)
    await events.aclose()
    tasks.clear()
    gc.collect()
    assert reported == []


async def test_work_that_fails_as_it_is_cancelled_is_no_trouble_either() -> None:
    async def work() -> Result:
        try:
            await asyncio.Event().wait()
        finally:
            raise GatewayError("its deadline passed at the same moment")

    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    events, tasks = stream(work)
    await anext(events)
    await asyncio.sleep(0)  # the work begins
    await events.aclose()
    assert tasks[0].done()
    tasks.clear()
    gc.collect()
    assert reported == []
