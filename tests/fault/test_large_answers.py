"""An answer that is too large is refused without being read to its end. What it costs in memory is a row of
``make bench``."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

import pytest

from gateway.backend.transport import UNKNOWN
from gateway.http_client.lean import LeanTransport
from gateway.http_client.response import AnswerTooLarge
from tests.fault.behaviours import Behaviour, Exchange, GzipBomb, Honest, Stream
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, front

MB = 1024 * 1024


@dataclass
class Counted:
    """Plays another behaviour, and counts how often it came to its end."""

    behaviour: Behaviour
    ended: int = 0

    async def play(self, exchange: Exchange) -> None:
        await self.behaviour.play(exchange)
        self.ended += 1


@pytest.mark.parametrize("chunked", [False, True], ids=["with its length", "chunked"])
async def test_the_rest_of_an_answer_that_is_too_large_is_never_read(chunked: bool) -> None:
    async with ScriptedBackend() as backend, front(backend.url) as gateway:
        backend.default = stream = Counted(Stream(50 * MB, chunked=chunked))
        for surface in SURFACES:
            called = await gateway.call(surface, "add", {"a": 2, "b": 3})
            assert called.message == f"The backend's answer is too large; {UNKNOWN}"
        backend.default = Honest()
        assert (await gateway.call("rest", "add", {"a": 2, "b": 3})).value == {"sum": 5}
        assert stream.ended == 0


async def test_an_answer_that_is_large_once_it_is_unpacked_is_refused() -> None:
    async with ScriptedBackend() as backend, front(backend.url) as gateway:
        backend.default = GzipBomb(300 * MB)
        for surface in SURFACES:
            called = await gateway.call(surface, "add", {"a": 2, "b": 3})
            assert called.message == f"The backend's answer is too large; {UNKNOWN}"
        backend.default = Honest()
        assert (await gateway.call("rest", "add", {"a": 2, "b": 3})).value == {"sum": 5}


async def test_the_count_sees_an_answer_that_is_read_whole() -> None:
    """A count that never rises would prove nothing."""
    stream = Counted(Stream(20 * MB))
    async with (
        ScriptedBackend(default=stream) as backend,
        front(backend.url, "backend.max_response=100MiB") as gateway,
    ):
        assert not (await gateway.call("rest", "echo", {"value": 1})).failed
        assert stream.ended == 1


async def test_the_error_of_a_bomb_keeps_none_of_its_bytes() -> None:
    """Whoever holds the error would hold them, too: an exchange does until its end."""
    async with ScriptedBackend() as backend:
        backend.default = GzipBomb(20 * MB)
        transport = LeanTransport()
        body = b'{"jsonrpc":"2.0","id":1,"method":"add"}'
        with pytest.raises(AnswerTooLarge) as raised:
            await transport.request("POST", backend.url, body, {}, timeout=20, max_bytes=MB)
        sizes = [
            len(value)
            for frame, _ in traceback.walk_tb(raised.value.__traceback__)
            for local in frame.f_locals.values()
            for value in (local if isinstance(local, list) else [local])
            if isinstance(value, bytes)
        ]
        assert max(sizes) < MB
        await transport.close()
