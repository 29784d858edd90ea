"""What a reload that changes one knob of ``backend`` goes on with, while the service's listing hangs."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from gateway.config.source import load_settings
from gateway.service.service import Service
from gateway.settings.backend import Backend, Tls
from gateway.settings.changes import OF_KNOBS
from gateway.settings.paths import knobs
from tests.each import each
from tests.fault.behaviours import Hang
from tests.fault.scripted import ScriptedBackend
from tests.front import Front, front, ground
from tests.tls import Authority
from tests.waiting import PATIENCE

BASE = ("backend.listing.dialect=openrpc", "backend.listing.timeout=5m")
"""A call that waits for the listing does not end within a test."""
ARGUMENTS = {"a": 2, "b": 3}
KEPT = {
    "timeout": "7s", "max_response": "1MiB", "errors": "passed", "not_run": "[503]", "lenient": "false",
    "connections": "7", "queue_timeout": "1s", "tls": "{ca_file: CA, cert_file: CLIENT, key_file: CLIENT}",
    "listing.timeout": "4m",
}  # fmt: skip


def leaves() -> Iterator[str]:
    for knob, _ in knobs(Backend):
        yield from (f"tls.{name}" for name in Tls.model_fields) if knob == "tls" else (knob,)


def now(gateway: Front) -> Service:
    assert gateway.gateway is not None
    return gateway.gateway.services[""]


def test_each_knob_is_of_one_kind() -> None:
    for knob in leaves():
        kinds = [kind for kind, prefixes in OF_KNOBS.items() for one in prefixes if f"{knob}.".startswith(f"{one}.")]
        assert len(kinds) == 1, f"{knob}: {kinds}"
    for one in itertools.chain.from_iterable(OF_KNOBS.values()):
        assert any(f"{knob}.".startswith(f"{one}.") for knob in leaves()), f"{one} is no knob"


@asynccontextmanager
async def reloaded(*changed: str) -> AsyncIterator[tuple[Front, Service, ScriptedBackend]]:
    """A gateway whose service answers calls at once and hangs with the listing, after a reload with other knobs; and
    its service of before the reload."""
    async with ScriptedBackend() as backend, front(backend.url, *BASE) as gateway, asyncio.timeout(PATIENCE):
        assert gateway.gateway is not None
        before = gateway.gateway.services[""]
        backend.requests.clear()
        backend.on("rpc.discover", Hang("nothing"))
        await gateway.gateway.reload(load_settings(None, ground(backend.url, *BASE, *changed), environ={}))
        yield gateway, before, backend


@each("knob, value", list(KEPT.items()))
async def test_what_the_listing_does_not_derive_from_fails_no_call_and_asks_for_none(
    tmp_path: Path, knob: str, value: str
) -> None:
    authority = Authority(tmp_path)
    value = value.replace("CA", str(authority.file)).replace("CLIENT", str(authority.client_pem()))
    async with reloaded(f"backend.{knob}={value}") as (gateway, before, backend):
        for _ in range(5):
            assert (await gateway.call("rest", "add", ARGUMENTS)).value == {"sum": 5}
        service = now(gateway)
        assert service is not before
        assert service.learned is before.learned
        queue = service.learned.gate.queue
        assert queue.size + queue.listing_slots == service.settings.connections
        assert backend.calls("rpc.discover") == 0
