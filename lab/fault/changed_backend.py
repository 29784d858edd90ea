"""Row of ``make fault``: a reload changes a knob of ``backend`` while the service's listing hangs, under calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final

from gateway.config.source import load_settings
from lab.fault.table import Figure, Line, Row
from tests.fault.behaviours import Hang
from tests.fault.scripted import ScriptedBackend
from tests.front import Front, front, ground

_BASE: Final = ("backend.listing.dialect=openrpc", "backend.listing.timeout=5s")
_KNOBS: Final[Mapping[str, str]] = {
    "timeout": "7s", "max_response": "1MiB", "errors": "passed", "not_run": "[503]", "lenient": "false",
    "connections": "7", "queue_timeout": "1s", "listing.timeout": "6s", "version": "1.0", "ids": "integer",
    "content_type": "application/json-rpc", "proxy": "http://127.0.0.1:9/", "params.structure": "by-position",
    "tls.fingerprint": "ab" * 32, "listing.dialect": "smd", "listing.language": "de", "url": "http://127.0.0.1:9/",
}  # fmt: skip
_FOR: Final = 2.0
"""Seconds of calls after each reload."""
_LONGEST: Final = 0.5
"""Seconds of a call, which the service answers in 1 ms."""


async def _calls(gateway: Front, until: float, waits: list[float], failures: list[str]) -> None:
    while (began := time.monotonic()) < until:
        answer = await gateway.call("rest", "add", {"a": 2, "b": 3})
        waits.append(time.monotonic() - began)
        if answer.status != 200:
            failures.append(answer.text)


async def changed_backend() -> Line:
    failures: list[str] = []
    worst, slow = 0.0, []
    for knob, value in _KNOBS.items():
        async with ScriptedBackend() as backend, front(backend.url, *_BASE) as gateway:
            backend.on("rpc.discover", Hang("nothing"))
            waits: list[float] = []
            calls = asyncio.create_task(_calls(gateway, time.monotonic() + _FOR, waits, failures))
            await backend.called("add")
            assert gateway.gateway is not None
            changed = load_settings(None, ground(backend.url, *_BASE, f"backend.{knob}={value}"), environ={})
            await gateway.gateway.reload(changed)
            await calls
            worst = max(worst, *waits)
            if max(waits) > _LONGEST:
                slow.append(f"{knob}: {max(waits):.2f} s")
    return Line(
        worst=worst,
        figures=(Figure("failed calls", len(failures), 0), Figure("longest call", worst, _LONGEST, " s")),
        notes=(*slow, *failures[:3]),
    )


ROWS: Final[dict[str, Row]] = {"a knob of backend changes while the listing hangs": changed_backend}
