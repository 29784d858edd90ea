"""Test what a real service sees of probing: the questions, their order and timeouts, and when probing stops."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import pytest
from aiohttp import web
from pytest_aiohttp.plugin import AiohttpServer

from gateway.backend.http import HttpTransport
from gateway.backend.request_parts import RequestParts
from gateway.backend.source import PLAIN, BackendSource
from gateway.http_client.response import Answer
from gateway.http_client.session import Outbound
from gateway.listing.dialect import NoListing
from gateway.listing.reader import DIALECTS, PATIENCE, ListingReader, probe_dialects
from gateway.model import Caller, Listing
from gateway.settings.backend import Backend, ListingSettings
from tests.fault.behaviours import InTurn, Raw, error
from tests.fault.scripted import ScriptedBackend
from tests.tables import each_row

ALL: Final = [
    "rpc.discover",
    "GET /api/mcp/tools/list",
    "GET /api/jsonrpc/methods",
    "rpc.describe",
    "system.describe",
    "system.listMethods",
    "JSONRPC.Introspect",
    "core.describe",
    "help",
    "rpc_methods",
    "rpc.methods",
    "methods",
    "commands",
    "GET /api/jsonrpc/openrpc.json",
    "GET /api/openrpc.json",
    "GET /openrpc.json",
    "GET /.well-known/openrpc.json",
    "GET /api/jsonrpc",
]
"""Every question of a probe that finds nothing."""
OPENRPC: Final = {"openrpc": "1.2.6", "methods": [{"name": "found", "params": []}]}
NAMES: Final = {"methods": ["found"]}


class Service:
    """Serve ``/api/jsonrpc`` with answers by question; ``asked`` has the questions in order.

    An answer that is a number is an HTTP status. A question in ``silent`` gets no answer until :meth:`release`.
    """

    def __init__(self, answers: Mapping[str, Any], silent: frozenset[str] = frozenset()) -> None:
        self.asked: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.url = ""
        self.headers: dict[str, str] = {}
        self._answers = answers
        self._silent = silent
        self._released = asyncio.Event()

    def release(self) -> None:
        self._released.set()

    async def handle(self, request: web.Request) -> web.Response:
        if request.method == "GET":
            return await self._answer(f"GET {request.path}", None)
        body = json.loads(await request.read())
        self.bodies.append(body)
        answer = await self._answer(body["method"], body["id"])
        answer.headers.update(self.headers)
        return answer

    async def _answer(self, question: str, id: Any) -> web.Response:
        self.asked.append(question)
        if question in self._silent:
            await self._released.wait()
        answer = self._answers.get(question, 404)
        if id is None:
            return web.Response(status=answer) if isinstance(answer, int) else web.json_response(answer)
        if isinstance(answer, int) and answer != 404:
            return web.Response(status=answer)
        error = {"code": -32601, "message": "Method not found"}
        outcome = {"error": error} if answer == 404 else {"result": answer}
        return web.json_response({"jsonrpc": "2.0", "id": id} | outcome)


Serve: TypeAlias = Callable[[Service], Awaitable[Service]]


@pytest.fixture
def serve(aiohttp_server: AiohttpServer) -> Serve:
    """``await serve(service)`` runs a service until the test ends."""

    async def serving(service: Service) -> Service:
        async def release(_: web.Application) -> None:
            service.release()

        application = web.Application()
        application.router.add_route("*", "/{tail:.*}", service.handle)
        application.on_shutdown.append(release)
        service.url = str((await aiohttp_server(application)).make_url("/api/jsonrpc"))
        return service

    return serving


class Timed:
    """Use the real transport and keep the timeout of each question."""

    def __init__(self) -> None:
        self._outbound = Outbound()
        self.timeouts: list[float] = []

    async def request(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], *, timeout: float, max_bytes: int
    ) -> Answer:
        self.timeouts.append(timeout)
        return await self._outbound.request(method, url, body, headers, timeout=timeout, max_bytes=max_bytes)

    async def close(self) -> None:
        await self._outbound.close()


class Nothing:
    """Add no credential."""

    tries = None

    async def request_parts(self, caller: Caller) -> RequestParts:
        return RequestParts()

    async def renew(self, caller: Caller, refused: RequestParts) -> RequestParts | None:
        return None


@pytest.fixture
async def transport() -> AsyncIterator[Timed]:
    made = Timed()
    yield made
    await made.close()


async def probed(transport: Timed, service: Service, patience: float = 3.0) -> Listing:
    way = HttpTransport(transport, service.url)
    source = BackendSource(
        way,
        service.url,
        RequestParts(),
        listing=ListingSettings(timeout=10),
        max_bytes=2**20,
        patience=patience,
    )
    return await probe_dialects(source)


async def test_a_service_without_a_listing_is_asked_everything_once_in_order_and_without_params(
    transport: Timed, serve: Serve
) -> None:
    service = await serve(Service({}))
    with pytest.raises(NoListing) as caught:
        await probed(transport, service)
    assert service.asked == ALL
    assert [step.question for step in caught.value.steps] == ALL
    assert all(body.keys() == {"jsonrpc", "id", "method"} for body in service.bodies)


@each_row
async def test_what_a_service_answers_tells_its_dialect(
    transport: Timed, answers: dict[str, Any], dialect: str, serve: Serve
) -> None:
    service = await serve(Service(answers))
    listing = await probed(transport, service)
    assert listing.dialect == dialect
    assert [method.name for method in listing.methods] == ["found"]
    gets = [question for question in service.asked if question.startswith("GET ")]
    assert len(gets) == len(set(gets)), "a document was asked for twice"


async def test_probing_stops_at_the_first_listing(transport: Timed, serve: Serve) -> None:
    service = await serve(Service({"rpc.discover": OPENRPC, "system.listMethods": ["other"]}))
    await probed(transport, service)
    assert service.asked == ALL[:3]


async def test_no_get_comes_before_the_last_call_but_to_what_looks_like_drupal(transport: Timed, serve: Serve) -> None:
    gets = [question for question in ALL if question.startswith("GET ")]
    calls = [question for question in ALL if question not in gets]
    for path, headers, drupal, others in (
        ("/api/rpc", {}, 0, 7),
        ("/api/jsonrpc", {}, 2, 5),
        ("/api/rpc", {"X-Generator": "Drupal 10 (https://www.drupal.org)"}, 2, 5),
        ("/api/rpc", {"Server": "libwww-perl-daemon/6.16"}, 0, 0),
    ):
        service = await serve(Service({}))
        service.headers = headers
        service.url = service.url.replace("/api/jsonrpc", path)
        with pytest.raises(NoListing):
            await probed(transport, service)
        first, *rest = service.asked
        assert (first, rest[drupal : drupal + len(calls) - 1]) == (calls[0], calls[1:])
        asked = [question.replace("/api/rpc", "/api/jsonrpc") for question in rest]
        assert asked[:drupal] == gets[:drupal]
        assert len(asked) == drupal + len(calls) - 1 + others


async def test_a_list_that_a_sites_owner_curated_wins(transport: Timed, serve: Serve) -> None:
    curated = {"tools": [{"name": "found", "inputSchema": {}}]}
    service = await serve(Service({"GET /api/mcp/tools/list": curated, "rpc.discover": OPENRPC}))
    assert (await probed(transport, service)).dialect == "jsonrpc_mcp"


async def test_a_form_without_a_specification_gives_way_to_one_with(transport: Timed, serve: Serve) -> None:
    service = await serve(Service({"GET /api/jsonrpc/methods": NAMES, "rpc.discover": OPENRPC}))
    assert (await probed(transport, service)).dialect == "openrpc"


async def test_a_question_that_is_not_answered_costs_its_patience_and_no_more(transport: Timed, serve: Serve) -> None:
    silent = frozenset({"GET /api/mcp/tools/list", "GET /api/jsonrpc"})
    service = await serve(Service({"system.listMethods": ["found"]}, silent))
    async with asyncio.timeout(10):
        listing = await probed(transport, service, patience=0.1)
    assert listing.dialect == "introspection"
    assert service.asked == ALL[: ALL.index("system.listMethods") + 1]


async def test_a_reader_probes_with_short_patience_and_reads_what_it_knows_with_all_its_time(
    transport: Timed, serve: Serve
) -> None:
    service = await serve(Service({"rpc.describe": {"methods": {"found": {"type": "method"}}}}))
    settings = Backend.model_validate({"url": service.url, "listing": {"timeout": "60s"}})
    reader = ListingReader(lambda _: HttpTransport(transport, settings.url), settings, Nothing())
    await reader.fetch_listing(Caller())
    assert transport.timeouts == [PATIENCE] * (ALL.index("rpc.describe") + 1)
    transport.timeouts.clear()
    service.asked.clear()
    await reader.fetch_listing(Caller())
    assert service.asked == ["rpc.describe"]
    assert transport.timeouts == [pytest.approx(60, abs=5)]


async def test_a_backend_that_is_not_there_is_asked_once(transport: Timed, unused_tcp_port: int) -> None:
    service = Service({})
    service.url = f"http://127.0.0.1:{unused_tcp_port}/api/jsonrpc"
    with pytest.raises(NoListing) as caught:
        await probed(transport, service)
    assert caught.value.unreachable
    assert [step.question for step in caught.value.steps] == ALL[:1]


async def test_missing_credentials_are_told_and_the_rest_is_still_asked(transport: Timed, serve: Serve) -> None:
    service = await serve(Service({"rpc.discover": 401}))
    with pytest.raises(NoListing) as caught:
        await probed(transport, service)
    assert service.asked == ALL
    assert caught.value.unauthorized


def test_what_is_probed_is_what_the_dialects_say() -> None:
    probed = [name for name, dialect in DIALECTS.items() if dialect.info.probed]
    assert probed == [
        "jsonrpc_mcp", "drupal", "openrpc", "smd", "describe", "introspection", "kodi", "mopidy", "help", "ovsdb",
        "plain",
    ]  # fmt: skip


async def test_no_form_is_learned_of_a_question_that_nobody_answers() -> None:
    refuses, ends = error(-32600, "Invalid Request"), Raw(b"")
    async with ScriptedBackend() as backend:
        transport = HttpTransport(Outbound(), backend.url)
        listing = ListingSettings(timeout=10)
        source = BackendSource(transport, backend.url, RequestParts(), listing=listing, max_bytes=2**20)
        backend.on("rpc.discover", InTurn([refuses, refuses, ends, ends, refuses]))
        answer = await source.call_method("rpc.discover")
        await transport.close()
    assert (answer.error, source.form) == ("Invalid Request", PLAIN)
