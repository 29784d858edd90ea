"""The system's clock jumps while the gateway serves: Debian's faketime moves it, for that process alone."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
from aiohttp import ClientSession

from tests.authorization.issuer import ForgedIssuer
from tests.authorization.stand import REST, Bearer
from tests.fault.scripted import ScriptedBackend
from tests.program import Program, settings
from tests.protocol.streams import Mark
from tests.protocol.talk import LEGACY, MODERN, legacy_headers, request
from tests.protocol.test_streams_alone import begun, opened
from tests.services.process import require_program

RESOURCE: Final = "https://gw.example.com/mcp"
SUM: Final = {"a": 2, "b": 3}
HOUR: Final = 3600


class SystemClock:
    """The wall clock of a process, ``ahead`` seconds before the real one. Its monotonic clock goes on as ever."""

    def __init__(self, directory: Path) -> None:
        self.ahead = 0
        self._file = directory / "clock"
        program = Path(require_program("faketime", "faketime")).resolve()
        (self._library, *_) = program.parents[1].glob("lib/*/faketime/libfaketime.so.1")
        self.jump_to(0)

    @property
    def environ(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def jump_to(self, ahead: int) -> None:
        self.ahead = ahead
        temporary = self._file.with_suffix(".new")
        temporary.write_text(f"{ahead:+d}s\n")
        temporary.replace(self._file)

    def __call__(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def clock(tmp_path: Path) -> SystemClock:
    return SystemClock(tmp_path)


@pytest.fixture
async def issuer(clock: SystemClock) -> AsyncIterator[ForgedIssuer]:
    """An issuer whose clock jumps with the gateway's."""
    async with ForgedIssuer(RESOURCE, clock=clock) as issuer:
        yield issuer


async def test_a_clock_that_jumps_ends_tokens_and_sessions_and_touches_nothing_else(
    clock: SystemClock, issuer: ForgedIssuer
) -> None:
    """An hour forwards, two hours back, and forth again. Limits, catalogs and keys go by the time that passes."""
    async with ScriptedBackend() as backend, ClientSession() as session:
        knobs = settings(
            backend.url, f"server.public_url={RESOURCE.removesuffix('/mcp')}", "mcp.heartbeat=100ms", "catalog.ttl=10m",
            "backend.listing.dialect=openrpc", "backend.credentials.mode=none", "limits.discovery=1/hour",
            f"auth.issuers=[{{issuer: '{issuer.issuer}'}}]",
        )  # fmt: skip
        async with Program("serve", *knobs, environ=clock.environ) as program:
            await program.logged("listing refreshed")
            port = (await program.logged("gateway started"))["port"]

            def ada() -> Bearer:
                """A client with a token that is new by the clock."""
                return Bearer(session, port, issuer.sign(sub="ada"))

            async def ping(client: Bearer, id: str) -> int:
                return (await client.mcp(request("ping"), legacy_headers(LEGACY[0], id))).status

            async def works(client: Bearer) -> None:
                assert (await client.call(REST, "add", SUM)).status == 200
                assert (await client.list(REST)).status == 429, "the hour is not over"
                assert (len(backend.requests) - backend.calls("add"), issuer.count("jwks")) == asked

            first = ada()
            kept = await first.initialize()
            while (await first.list(REST)).status == 200:
                pass  # the burst of the limit
            asked = len(backend.requests) - backend.calls("add"), issuer.count("jwks")
            await works(first)
            async with opened(first, MODERN) as stream:
                await begun(stream, MODERN)

                clock.jump_to(HOUR)
                assert (await first.call(REST, "add", SUM)).status == 401, "it is an hour past its end, and was cached"
                assert [message["result"]["resultType"] for message in await stream.rest()] == ["complete"]
                assert await stream.event() is Mark.END
            second = ada()
            await works(second)
            assert await ping(second, kept) == 200, "sessions live for a day"
            ahead = await second.initialize()
            assert await ping(second, ahead) == 200

            clock.jump_to(-HOUR)
            third = ada()
            await works(third)
            assert await ping(third, kept) == 404, "it is of a time that is to come"

            clock.jump_to(0)
            fourth = ada()
            await works(fourth)
            assert (await ping(fourth, kept), await ping(fourth, ahead)) == (200, 404)
        assert "Traceback" not in program.output
