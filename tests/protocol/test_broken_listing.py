"""What the operator is told of a listing that is no JSON, and of tools that come and go."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.each import each
from tests.fault.behaviours import Behaviour, Body, error, result
from tests.fault.methods import Rpc, openrpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Start
from tests.waiting import PATIENCE

pytestmark = pytest.mark.usefixtures("both_servers")

LISTING = json.dumps({"jsonrpc": "2.0", "id": None, "result": openrpc((Rpc("add"),))}).encode()
PADDED = LISTING.replace(b"The method add", b"x" * 200_000)
DEEP = PADDED.index(b"xxx") + 100_000
TOKEN = "Bearer " + "s3cr3t" * 20


async def steps(start: Start, backend: ScriptedBackend, answer: Body, *knobs: str) -> list[str]:
    backend.on("rpc.discover", answer)
    with capture_logs() as lines:
        await start("backend.listing.url=" + backend.url, *knobs)
    (failed,) = [line for line in lines if line["event"] == "listing failed"]
    told: list[str] = failed["steps"]
    return told


@each(
    ("body", "place", "first"),
    {
        "mark": (b"\xef\xbb\xbf" + LISTING, "a byte order mark (byte 0)", r'\xef\xbb\xbf{"jsonrpc"'),
        "syntax": (b"{" + LISTING, "(byte 1)", '{{"jsonrpc"'),
        "cut": (LISTING[:-9], f"it ends too early (byte {len(LISTING) - 9})", '{"jsonrpc"'),
        "tail": (LISTING + b"<!-- 3 ms -->", f"trailing characters (byte {len(LISTING) + 1})", '{"jsonrpc"'),
        "warning": (b"<br />\n<b>Warning</b>" + LISTING, "invalid character (byte 0)", r"<br />\n<b>Warning</b>{"),
        "encoding": (LISTING.replace(b"add", b"\xe4dd", 1), f"not UTF-8 (byte {LISTING.index(b'add')})", '{"jsonrpc"'),
        "deep in a large one": (PADDED[:DEEP] + b"\\q" + PADDED[DEEP:], f"(byte {DEEP + 2})", '{"jsonrpc"'),
    },
)
async def test_broken_json_is_called_that_with_its_place_and_the_first_bytes(
    start: Start, backend: ScriptedBackend, body: bytes, place: str, first: str
) -> None:
    (step,) = [
        step
        for step in await steps(start, backend, Body(body), "backend.lenient=false")
        if step.startswith("rpc.discover")
    ]
    head, _, beginning = step.partition("; it begins with ")
    assert head.startswith("rpc.discover: HTTP 200, broken JSON: ")
    assert head.endswith(place)
    assert first in beginning
    assert len(beginning) < 200


async def test_a_page_that_was_never_meant_as_json_is_told_by_its_type(start: Start, backend: ScriptedBackend) -> None:
    told = await steps(start, backend, Body(b"<html>", content_type="text/html"))
    assert "rpc.discover: HTTP 200, text/html" in told


async def test_the_first_bytes_show_no_credential_that_the_service_repeats(
    start: Start, backend: ScriptedBackend
) -> None:
    secret = TOKEN.removeprefix("Bearer ")
    knobs = ("backend.credentials.mode=static", f"backend.credentials.send.headers.Authorization={TOKEN}")
    told = await steps(start, backend, Body(b'{"you sent": "%b' % secret.encode()), *knobs)
    assert any('{"you sent": "[redacted]' in step for step in told)
    assert secret[:6] not in "".join(told)


UNKNOWN, LATER = error(-32601, "Method not found"), error(-32000, "Permission denied: the session is over")


@each(
    ("knobs", "failures", "told"),
    {
        # With a named dialect `check` finds out more, so that the next step is the same; so is HTTP 200.
        "errors of two kinds": (
            ["backend.listing.dialect=openrpc"],
            [UNKNOWN, UNKNOWN, LATER, LATER, UNKNOWN],
            [0, 2, 4],
        ),
        "pages of two kinds": (
            [],
            [Body(b"Missing session ID", status=400), Body(b"event: endpoint", status=400)],
            [0, 1],
        ),
        "what differs is only quoted": ([], [error(-32000, f"E{n}: disk full") for n in (1, 2)], [0]),
    },
)
async def test_a_failure_of_another_kind_is_another_line_of_the_log(
    start: Start, backend: ScriptedBackend, knobs: Sequence[str], failures: Sequence[Behaviour], told: Sequence[int]
) -> None:
    backend.on("rpc.discover", result(openrpc((Rpc("add"),))))
    gateway = await start(*knobs)
    logged = []
    for number, failure in enumerate(failures):
        backend.on("rpc.discover", failure)
        with capture_logs() as lines:
            async with asyncio.timeout(PATIENCE):
                await gateway.refresh_listings()
        logged += [number for line in lines if line["event"] == "listing failed"]
    assert logged == told


# --- tools that come and go -----------------------------------------------------------------------------------


async def news(start: Start, backend: ScriptedBackend, before: Sequence[str], after: Sequence[str]) -> list[Any]:
    """The lines that tell of a second listing."""
    backend.on("rpc.discover", result(openrpc(tuple(map(Rpc, before)))))
    gateway = await start()
    backend.on("rpc.discover", result(openrpc(tuple(map(Rpc, after)))))
    with capture_logs() as lines:
        async with asyncio.timeout(PATIENCE):
            await gateway.refresh_listings()
    return [line for line in lines if line["event"] == "tools changed"]


async def test_tools_that_are_new_and_gone_are_named(start: Start, backend: ScriptedBackend) -> None:
    (line,) = await news(start, backend, ["a", "b", "c"], ["b", "c", "d", "e"])
    assert (line["log_level"], line["new"], line["gone"]) == ("info", ["d", "e"], ["a"])
    assert "more_new" not in line


async def test_of_many_twenty_are_named(start: Start, backend: ScriptedBackend) -> None:
    many = [f"m{number:03}" for number in range(130)]
    (line,) = await news(start, backend, ["a"], ["a", *many])
    assert (line["new"], line["more_new"], line["gone"]) == (many[:20], 110, [])


async def test_a_listing_with_the_same_tools_is_no_news(start: Start, backend: ScriptedBackend) -> None:
    assert await news(start, backend, ["a", "b"], ["b", "a"]) == []
