"""Large listings become catalogs quickly, and in turns with the calls of others.

Bounds are on processor time, so that other work of the machine does not count; stalls are what passes of it between two
turns of the loop. Memory is a row of ``make bench``.
"""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway import jsonrpc
from gateway.backend.http import HttpTransport
from gateway.backend.request_parts import RequestParts
from gateway.backend.source import BackendSource
from gateway.catalog.build import Builder
from gateway.discovery.discovery import Discovery
from gateway.http_client.response import Answer
from gateway.listing.openrpc import OpenRpc
from gateway.model import ANONYMOUS, Caller, Catalog, Listing
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, ListingSettings, Params
from tests.orders import openrpc
from tests.pace import quickly, slowness

Json = dict[str, Any]
LONGEST_STALL = 0.050


def ethereum_like() -> Json:
    """A document of 2.6 MB like that of the Ethereum clients: 78 methods that share many components, long examples."""
    chance = random.Random(1)
    names = [f"Component{n}" for n in range(400)]

    def reference() -> Json:
        return {"$ref": f"#/components/schemas/{chance.choice(names)}"}

    def component(name: str, number: int) -> Json:
        field = {
            "title": "Hash",
            "type": "string",
            "description": "Of what it is about.",
            "pattern": "^0x[0-9a-f]{64}$",
        }
        properties = {f"field{n}": field for n in range(11)} | ({"next": reference()} if number % 2 else {})
        return {"title": name, "type": "object", "required": ["field0"], "properties": properties}

    def method(number: int) -> Json:
        example = [{"name": "block", "value": {f"0x{n:064x}": "0x" + "f" * 256 for n in range(41)}}]
        return {
            "name": f"eth_method{number}",
            "summary": "Returns what is asked for.",
            "params": [{"name": f"p{n}", "required": n < 2, "schema": reference()} for n in range(3)],
            "result": {"name": "found", "schema": {"oneOf": [reference(), {"type": "null"}]}},
            "examples": [{"name": "one", "params": example, "result": example[0]}],
        }

    return {
        "openrpc": "1.2.4",
        "info": {"title": "Execution", "version": "1"},
        "methods": [method(number) for number in range(78)],
        "components": {"schemas": {name: component(name, number) for number, name in enumerate(names)}},
    }


URL = "http://backend.example/rpc"


class OneListing:
    """An HTTP client that answers every request with one result."""

    def __init__(self, document: Json) -> None:
        self.body = jsonrpc.encode({"jsonrpc": "2.0", "result": document})

    async def request(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], *, timeout: float, max_bytes: int
    ) -> Answer:
        return Answer(200, {"Content-Type": "application/json"}, self.body)

    async def close(self) -> None: ...


def discovery(document: Json) -> Discovery:
    transport = OneListing(document)
    settings = CatalogSettings(exclude=())

    async def fetch(caller: Caller) -> Listing:
        source = BackendSource(
            HttpTransport(transport, URL), URL, RequestParts(), listing=ListingSettings(timeout=60), max_bytes=2**25
        )
        return await OpenRpc().fetch_listing(source)

    return Discovery(fetch, Builder(Params(), ValidatorCache()), settings)


@asynccontextmanager
async def unstalled() -> AsyncIterator[None]:
    """The loop comes around at least every 50 ms of processor time while the body runs."""
    longest, over = 0.0, False

    async def turn() -> None:
        nonlocal longest
        last = time.process_time()
        while not over:
            await asyncio.sleep(0)
            now = time.process_time()
            longest, last = max(longest, now - last), now

    before = slowness()
    turning = asyncio.create_task(turn())
    try:
        yield
    finally:
        over = True
        await turning
    allowed = LONGEST_STALL * max(before, slowness())
    assert longest < allowed, f"the loop stood still for {longest * 1000:.0f} ms"


@pytest.fixture
def unfrozen() -> Any:
    """The collector as it was."""
    yield
    gc.unfreeze()


async def listed(document: Json) -> Catalog:
    subject = discovery(document)
    async with unstalled():
        return await subject.catalog(ANONYMOUS)


async def test_a_document_of_megabytes_becomes_a_catalog_and_stalls_nobody() -> None:
    document = ethereum_like()
    assert 2_500_000 < len(jsonrpc.encode(document)) < 3_000_000
    with quickly(5):
        catalog = await listed(document)
    assert (len(catalog.tools), catalog.quarantined) == (78, ())
    assert not any("examples" in str(tool.input_schema) for tool in catalog.tools)


@pytest.mark.usefixtures("unfrozen")
async def test_five_thousand_methods_stall_nobody() -> None:
    with quickly(20):
        catalog = await listed(openrpc(5000))
    assert (len(catalog.tools), catalog.quarantined) == (5000, ())


@pytest.mark.usefixtures("unfrozen")
async def test_a_large_catalog_is_nothing_for_the_garbage_collector_to_look_at() -> None:
    catalog = await listed(openrpc(1000))
    with quickly(0.02):
        gc.collect()
    assert catalog.by_name.get("order_find") is not None


async def test_an_ordinary_tool_is_made_within_a_millisecond() -> None:
    settings = CatalogSettings()
    transport = HttpTransport(OneListing(openrpc(200)), URL)
    source = BackendSource(transport, URL, RequestParts(), listing=ListingSettings(timeout=60), max_bytes=2**25)
    listing = await OpenRpc().fetch_listing(source)
    with quickly(200 * 0.001):
        await Builder(Params(), ValidatorCache()).build_catalog(listing, settings)


async def test_the_same_listing_again_gives_the_same_tools() -> None:
    subject = discovery(openrpc(300))
    first = await subject.catalog(ANONYMOUS)
    await subject.refresh(ANONYMOUS)
    second = subject.current()
    assert second is not None
    assert all(one is two for one, two in zip(first.tools, second.tools, strict=True))


async def test_thresholds_of_the_collector_are_as_before_after_a_listing() -> None:
    before = gc.get_threshold()
    await listed(openrpc(10))
    assert gc.get_threshold() == before
