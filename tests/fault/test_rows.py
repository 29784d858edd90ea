"""Whatever a backend does, its caller gets a sound answer that tells nothing of it, and the call is made once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest

from gateway.backend.transport import UNKNOWN
from tests.fault.behaviours import Body, Honest, Redirect
from tests.fault.methods import METHODS, openrpc
from tests.fault.rows import BEHAVIOURS, LEAK, Row
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Called, Front, Surface, front
from tests.waiting import PATIENCE

WINDOW = 8
"""Characters of a body that would be recognized in an answer."""


@asynccontextmanager
async def before(backend: ScriptedBackend, row: Row) -> AsyncIterator[Front]:
    """A gateway that has the listing of the scripted backend, and calls where the row says."""
    endpoints = {
        "scripted": backend.url,
        "refused": backend.refused_url,
        "unresolvable": "http://no-such-host.invalid/jsonrpc",
    }
    with NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(openrpc(METHODS), file)
        file.flush()
        settings = ["backend.listing.dialect=static", f"backend.listing.file={file.name}"]
        if row.hangs:
            settings.append("backend.timeout=500ms")
        async with front(endpoints[row.endpoint], *settings) as gateway:
            yield gateway


@pytest.mark.parametrize("name", BEHAVIOURS)
async def test_a_misbehaving_backend_gets_one_call_and_its_caller_a_sound_answer(name: str) -> None:
    row = BEHAVIOURS[name]
    async with ScriptedBackend() as backend, before(backend, row) as gateway:
        for surface in SURFACES:
            backend.default = row.behaviour
            backend.abandoned.clear()
            calls = backend.calls(row.method)
            async with asyncio.timeout(PATIENCE):
                called = await gateway.call(surface, row.method, row.arguments)

            assert_outcome(row, called)
            assert_nothing_leaks(backend, row, called)
            assert backend.calls(row.method) == calls + row.sends
            assert backend.faults == []
            assert backend.other.connections == 0
            if row.hangs:
                async with asyncio.timeout(PATIENCE):
                    await backend.abandoned.wait()
            await assert_still_serves(gateway, backend, row, surface)


def assert_outcome(row: Row, called: Called) -> None:
    if called.surface == "rest":
        assert called.status == row.rest, called.text
        assert called.failed == (called.status != 200)
        assert called.headers.get("Retry-After") == row.retry_after
    else:
        assert called.status == 200
        assert called.failed == (row.mcp == "isError"), called.text
    if not called.failed and row.method == "add":
        assert called.value in ({"sum": 5}, {"sum": 6})


def assert_nothing_leaks(backend: ScriptedBackend, row: Row, called: Called) -> None:
    assert LEAK not in called.everything
    assert "Set-Cookie" not in called.headers
    for port in (backend.port, backend.other.port):
        assert f":{port}" not in called.everything
    assert "no-such-host" not in called.everything
    if isinstance(row.behaviour, Body) and not is_json(row.behaviour.payload):
        body = row.behaviour.payload.decode("utf-8", "replace")
        message = called.message if called.failed else ""
        pieces = (message[at : at + WINDOW] for at in range(len(message) - WINDOW))
        assert [piece for piece in pieces if piece in body] == []


def is_json(payload: bytes) -> bool:
    try:
        json.loads(payload.replace(b"@ID@", b"1").replace(b"@SWAPPED-ID@", b"1"))
    except (ValueError, RecursionError):
        return False
    return True


async def assert_still_serves(gateway: Front, backend: ScriptedBackend, row: Row, surface: Surface) -> None:
    """One honest call afterwards, on what is left of the connections."""
    assert set(await gateway.tools(surface)) == {"add", "echo", "fail", "void"}
    if row.endpoint != "scripted":
        return
    backend.default = Honest()
    again = await gateway.call(surface, "add", {"a": 20, "b": 22})
    assert again.value == {"sum": 42}
    assert LEAK not in again.everything
    assert "Cookie" not in backend.requests[-1].headers


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_never_followed(status: int, surface: Surface) -> None:
    async with ScriptedBackend(default=Redirect(status)) as backend, front(backend.url) as gateway:
        called = await gateway.call(surface, "add", {"a": 2, "b": 3})
        assert "redirects" in called.message
        assert called.status == (502 if surface == "rest" else 200)
        assert (backend.calls("add"), backend.other.connections, backend.other.received) == (1, 0, b"")


MAX_RESPONSE = 8 * 1024 * 1024
SLACK = 2 * 1024 * 1024  # what the two processes hold themselves


def kernel_buffers() -> int:
    """The most that the kernel takes from one end of a connection while the other end reads nothing."""
    limits = [Path(f"/proc/sys/net/ipv4/tcp_{way}mem").read_text().split()[2] for way in ("r", "w")]
    return sum(map(int, limits))


@pytest.mark.parametrize("name", ["B13-100-mb", "B13-100-mb-chunked", "B12-gzip-bomb"])
async def test_reading_stops_where_the_answer_gets_too_large(name: str) -> None:
    async with ScriptedBackend(default=BEHAVIOURS[name].behaviour) as backend, front(backend.url) as gateway:
        called = await gateway.call("rest", "add", {"a": 2, "b": 3})
        assert (called.status, called.message) == (502, f"The backend's answer is too large; {UNKNOWN}")
        async with asyncio.timeout(PATIENCE):
            await gateway.call("rest", "echo", {"value": 1})
        assert backend.bytes_sent <= MAX_RESPONSE + kernel_buffers() + SLACK < 100 * 1000 * 1000


async def test_calls_at_the_same_time_get_their_own_answers() -> None:
    async with ScriptedBackend() as backend, front(backend.url) as gateway:
        calls = [gateway.call(SURFACES[n % 3], "echo", {"value": n}) for n in range(60)]
        answers = await asyncio.gather(*calls)
        assert [called.value for called in answers] == list(range(60))
        assert backend.calls("echo") == 60
