"""The line of a stream is written once, at its end; until then its call counts as running."""

from __future__ import annotations

from typing import Any

from aiohttp import ClientSession
from structlog.testing import capture_logs

from tests.each import each
from tests.fault.behaviours import Hang, result
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Start
from tests.protocol.streams import Mark
from tests.protocol.talk import MODERN, Client
from tests.protocol.test_progress import called
from tests.waiting import until


def lines_in(logs: list[Any]) -> list[tuple[int, str, str]]:
    return [(line["status"], line["method"], line["outcome"]) for line in logs if line["event"] == "request"]


@each(("leaves", "outcome"), [(False, "ok"), (True, "left")])
async def test_a_call_with_progress_is_counted_and_logged_once_its_stream_has_ended(
    start: Start, session: ClientSession, backend: ScriptedBackend, leaves: bool, outcome: str
) -> None:
    gateway = await start()
    uses = gateway.services[""].uses
    backend.release.clear()
    backend.on("add", Hang("nothing", result({"sum": 5})))
    body, headers = called(MODERN, "p")
    with capture_logs() as logs:
        async with Client(session, gateway.port).stream(body, headers) as stream:
            await stream.message()
            await backend.called("add")
            assert (lines_in(logs), uses.running, gateway.held.bytes > 0) == ([], 1, True)
            if leaves:
                stream.close()
            else:
                backend.release.set()
                assert len(await stream.rest()) == 1
        await until(lambda: lines_in(logs))
    assert lines_in(logs) == [(200, "tools/call", outcome)]
    assert (uses.running, gateway.held.bytes) == (0, 0)


@each(("leaves", "outcome"), [(False, "ok"), (True, "left")])
async def test_a_stream_of_notices_is_logged_at_its_end_and_counts_as_no_running_call(
    start: Start, session: ClientSession, leaves: bool, outcome: str
) -> None:
    gateway = await start()
    with capture_logs() as logs:
        async with Client(session, gateway.port).listen({"toolsListChanged": True}) as stream:
            await stream.message()
            assert (lines_in(logs), gateway.services[""].uses.running) == ([], 0)
            if leaves:
                stream.close()
            else:
                gateway.resources[""].mount.subscriptions.close()
                assert await stream.event() is not Mark.COMMENT
        await until(lambda: lines_in(logs))
    assert lines_in(logs) == [(200, "subscriptions/listen", outcome)]
