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
from tests.protocol.test_streams_alone import retired
from tests.tls import Authority
from tests.waiting import PATIENCE, until

BASE = ("backend.listing.dialect=openrpc", "backend.listing.timeout=5m")
"""A call that waits for the listing does not end within a test."""
ARGUMENTS = {"a": 2, "b": 3}
KEPT = {
    "timeout": "7s", "max_response": "1MiB", "errors": "passed", "not_run": "[503]", "lenient": "false",
    "connections": "7", "queue_timeout": "1s", "tls": "{ca_file: CA, cert_file: CLIENT, key_file: CLIENT}",
    "listing.timeout": "4m",
}  # fmt: skip

NOWHERE = "http://127.0.0.1:9/jsonrpc"
DERIVED = {
    "url": NOWHERE, "version": "1.0", "ids": "integer", "content_type": "application/json-rpc", "proxy": NOWHERE,
    "params.structure": "by-position", "params.send_defaults": "true", "tls.server_name": "x.example.com",
    "tls.fingerprint": "ab" * 32, "listing.dialect": "smd", "listing.url": NOWHERE,
    "listing.file": "/nowhere.json; backend.listing.dialect=static", "listing.documents": "{common.json: /dev/null}",
    "listing.language": "de",
    "listing.custom": "{method: rpc.discover, methods: '$.methods[*]'}; backend.listing.dialect=custom",
}  # fmt: skip
OTHERS = [
    ("backend.headers={X-Tenant: crm}",),
    ("backend.credentials={mode: basic, user: ada, password: secret}",),
    ("backend.listing.credentials={mode: static, send: {headers: {X-Key: secret}}}",),
    ("backend.listing.identity=shared",),
]


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


@each("knob, value", list(DERIVED.items()))
async def test_what_it_derives_from_is_as_before_until_the_new_listing(knob: str, value: str) -> None:
    first, *others = f"backend.{knob}={value}".split("; ")
    async with reloaded(first, *others, "catalog.exclude=[echo]") as (gateway, before, backend):
        for number in range(1, 6):
            assert (await gateway.call("rest", "add", ARGUMENTS)).value == {"sum": 5}
            added = [one.headers["content-type"] for one in backend.requests if one.method == "add"]
            assert added == ["application/json"] * number
        assert (await gateway.call("rest", "echo", {"value": 1})).code == "tool_not_found"
        assert now(gateway).unready() is None
        assert now(gateway) is not before


async def test_it_is_so_for_as_long_as_the_new_listing_may_take() -> None:
    async with reloaded("backend.ids=integer", "backend.listing.timeout=1s") as (gateway, *_):
        assert (await gateway.call("rest", "add", ARGUMENTS)).value == {"sum": 5}
        await until(lambda: fails(gateway))
        assert (await gateway.call("rest", "add", ARGUMENTS)).code == "catalog_unavailable"
        assert "the listing failed: " in now(gateway).discovery.problem.cause


async def test_a_new_listing_ends_the_old_one_at_once_and_the_old_service_after_its_calls() -> None:
    async with ScriptedBackend() as other, reloaded(f"backend.url={other.url}") as (gateway, _, backend):
        await until(lambda: answers(gateway, other))
        assert gateway.gateway is not None
        await retired(gateway.gateway)
        before = backend.calls("add")
        assert (await gateway.call("rest", "add", ARGUMENTS)).value == {"sum": 5}
        assert backend.calls("add") == before
        assert now(gateway).handover is None


async def test_a_second_reload_goes_on_with_the_old_listing_and_one_that_takes_the_first_back_keeps_it() -> None:
    async with ScriptedBackend() as other, reloaded(f"backend.url={other.refused_url}") as (gateway, before, backend):
        assert gateway.gateway is not None
        for knobs, learned in (
            ([f"backend.url={other.refused_url}", "backend.timeout=9s"], False),
            ([f"backend.url={other.refused_url}", "backend.ids=integer"], False),
            ([], True),
        ):
            await gateway.gateway.reload(load_settings(None, ground(backend.url, *BASE, *knobs), environ={}))
            assert (await gateway.call("rest", "add", ARGUMENTS)).value == {"sum": 5}
            assert (now(gateway).learned is before.learned) == learned
        assert now(gateway).handover is None


@each("knobs", OTHERS)
async def test_another_identity_gets_nothing_old(knobs: tuple[str, ...]) -> None:
    async with reloaded(*knobs, "backend.listing.timeout=200ms") as (gateway, _, backend):
        assert (await gateway.call("rest", "add", ARGUMENTS)).code == "catalog_unavailable"
        assert now(gateway).handover is None
        assert backend.calls("add") == 0


async def fails(gateway: Front) -> bool:
    return (await gateway.call("rest", "add", ARGUMENTS)).status == 503


async def answers(gateway: Front, backend: ScriptedBackend) -> bool:
    assert (await gateway.call("rest", "add", ARGUMENTS)).value == {"sum": 5}
    return backend.calls("add") > 0
