"""nginx before the gateway: connections, streams, bodies, addresses, smuggled requests, and a gateway that stops."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from aiohttp import ClientSession, TCPConnector

from gateway.config.source import load_settings
from gateway.networks import AddressReader
from gateway.process.server import Server
from gateway.web.public import Origins, PublicHandler
from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Front, Surface
from tests.http_servers import gateway_of, served
from tests.kustomize import render
from tests.nginx import Nginx, connections_to
from tests.protocol import smuggled
from tests.protocol.bounds import listen
from tests.protocol.conftest import Start
from tests.protocol.talk import Client, exchange, modern_headers, modern_request, status_of
from tests.protocol.watched import Watched
from tests.unit.test_deploy import BASE

STREAMED = {"name": "add", "arguments": {"a": 2, "b": 3}, "_meta": {"progressToken": "p"}}
HEAD = (
    b"POST /mcp/tools/invoke HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n"
)
WITHIN = 10.0


@asynccontextmanager
async def before(*ports: int, directives: str = "") -> AsyncIterator[Front]:
    """An nginx before the gateways at these ports, and a client of it."""
    async with Nginx(ports, directives) as nginx, ClientSession() as session:
        yield Front(nginx.port, session)


async def test_calls_of_many_clients_share_connections_that_stay_open(
    gateway: Server, backend: ScriptedBackend
) -> None:
    async with before(gateway.port) as front:
        for number in range(30):
            for surface in SURFACES:
                called = await front.call(surface, "echo", {"value": number})
                assert (called.status, called.value) == (200, number)
        # One, and another now and then: nginx puts a connection back a moment after the client has its answer.
        assert len(connections_to(gateway.port)) < 10
    assert [sent.params["value"] for sent in backend.requests] == [n for n in range(30) for _ in SURFACES]


@pytest.mark.parametrize("directives", ["proxy_buffering off;", "proxy_buffering on;"])
async def test_a_stream_passes_event_by_event_also_where_nginx_buffers(
    gateway: Server, backend: ScriptedBackend, directives: str
) -> None:
    """H33: X-Accel-Buffering: no on the answer switches nginx's buffering off."""
    watched = Watched()
    backend.on("add", watched)
    async with Nginx([gateway.port], directives) as nginx, ClientSession() as session:
        client = Client(session, nginx.port)
        async with client.stream(modern_request("tools/call", STREAMED), modern_headers("tools/call", "add")) as stream:
            async with asyncio.timeout(WITHIN):
                assert (await stream.event())["method"] == "notifications/progress"
                await watched.begun()
                assert watched.under_way
                watched.release()
                while "result" not in (event := await stream.event()):
                    pass
        assert event["result"]["structuredContent"] == {"sum": 5}
    assert backend.calls("add") == 1


async def test_a_client_of_nginx_that_hangs_up_ends_its_call(gateway: Server, backend: ScriptedBackend) -> None:
    """H32: nginx closes its own connection then, which is how the gateway learns of it."""
    watched = Watched()
    backend.on("add", watched)
    async with Nginx([gateway.port]) as nginx, ClientSession() as session:
        client = Client(session, nginx.port)
        async with client.stream(modern_request("tools/call", STREAMED), modern_headers("tools/call", "add")):
            await watched.begun()
        assert await watched.over() == "abandoned"


@pytest.fixture(params=["", "proxy_request_buffering off;"], ids=["buffered", "unbuffered"])
async def proxied(gateway: Server, request: pytest.FixtureRequest) -> AsyncIterator[Front]:
    """A client of an nginx that reads bodies whole before it passes them on, or does not."""
    # A client that sends no more is one that has left, to nginx.
    async with before(gateway.port, directives=f"proxy_ignore_client_abort on; {request.param}") as front:
        yield front


@each("sent", smuggled.EVERY)
async def test_nothing_is_smuggled_through(proxied: Front, backend: ScriptedBackend, sent: bytes) -> None:
    """H01 to H04: whatever nginx makes of it, the service is asked as often as the client is answered, and the next
    client on the connection that nginx keeps gets its own answer."""
    backend.requests.clear()
    said = await said_by(proxied.port, sent)
    assert len(backend.requests) == said.count(b"HTTP/1.1 200 ")
    assert backend.calls(smuggled.HIDDEN) == said.count(b'"smuggled"')
    for number in range(3):
        assert (await proxied.call("rest", "echo", {"value": number})).value == number


async def said_by(port: int, sent: bytes) -> bytes:
    """What nginx says until it has nothing more to say."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(WITHIN):
            writer.write(sent)
            writer.write_eof()
            return await reader.read()
    finally:
        writer.transport.abort()


async def listed(gateway: Server, address: str, forged: str | None = None) -> int:
    """The status of a listing for a client of nginx at this address, which may say that it is somebody else."""
    headers = {} if forged is None else {"X-Forwarded-For": forged}
    connector = TCPConnector(local_addr=(address, 0))
    async with Nginx([gateway.port]) as nginx, ClientSession(connector=connector) as session:
        return (await Client(session, nginx.port).get("/mcp/tools/list", **headers)).status


async def test_callers_behind_a_trusted_proxy_are_told_apart_by_the_address_that_it_names(start: Start) -> None:
    """What the client itself wrote into X-Forwarded-For stands left of that, and counts for nothing."""
    gateway = await start("server.trusted_proxies=[127.0.0.1/32]", "limits.discovery=1/hour")
    assert await listed(gateway, "127.0.0.2") == 200
    assert await listed(gateway, "127.0.0.2") == 429
    assert await listed(gateway, "127.0.0.2", "10.9.9.9") == 429
    assert await listed(gateway, "127.0.0.3", "127.0.0.2") == 200
    assert await listed(gateway, "127.0.0.4") == 200


async def test_callers_behind_a_proxy_that_is_not_trusted_are_one(start: Start) -> None:
    gateway = await start("limits.discovery=1/hour")
    assert await listed(gateway, "127.0.0.2") == 200
    assert await listed(gateway, "127.0.0.3", "10.9.9.9") == 429


async def test_a_body_that_is_too_large_for_the_gateway_alone_is_its_413(
    proxied: Front, backend: ScriptedBackend
) -> None:
    """H12, H13: the answer comes while nginx still sends, and reaches the client."""
    body = b'{"name":"echo","arguments":{"value":"%s"}}' % (b"x" * 2**21)
    raw = await exchange(proxied.port, HEAD % len(body) + body)
    assert status_of(raw) == 413
    assert json.loads(raw.partition(b"\r\n\r\n")[2])["error"]["code"] == "too_large"
    assert backend.requests == []
    assert (await proxied.call("rest", "echo", {"value": 1})).value == 1


async def test_a_body_that_nginx_waits_for_in_vain_is_the_gateways_408(
    gateway: Server, backend: ScriptedBackend
) -> None:
    """H11: where nginx passes bodies on as they come, the gateway's patience counts."""
    public = PublicHandler(AddressReader(()), Origins(None, (), ()))
    public.sites = {"": replace(gateway.services[""].site, body_timeout=0.1)}
    port = await listen(public)
    try:
        async with Nginx([port.number], "proxy_request_buffering off;") as nginx:
            raw = await exchange(nginx.port, HEAD % 99 + b"{")
        assert status_of(raw) == 408
        assert json.loads(raw.partition(b"\r\n\r\n")[2])["error"]["code"] == "request_timeout"
        assert backend.requests == []
    finally:
        await port.close()


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_gateway_that_stops_finishes_what_came_through_nginx_and_the_other_one_goes_on(
    start: Start, backend: ScriptedBackend, surface: Surface
) -> None:
    """Each call is answered, and made once: nginx repeats no POST that it has sent."""
    stopping, staying = await start(), await start()
    async with before(stopping.port, staying.port) as front:
        for number in range(4):
            assert (await front.call(surface, "echo", {"value": number})).value == number
        watched = [Watched(), Watched()]
        calls = []
        for each_watched in watched:
            backend.on("add", each_watched)
            calls.append(asyncio.create_task(front.call(surface, "add", {"a": 2, "b": 3})))
            await each_watched.begun()
        stop = asyncio.create_task(stopping.stop())
        await asyncio.sleep(0)
        for each_watched in watched:
            each_watched.release()
        assert [(await call).value for call in calls] == [{"sum": 5}, {"sum": 5}]
        await stop
        for number in range(10):
            assert (await front.call(surface, "echo", {"value": number})).value == number
    assert backend.calls("add") == 2
    assert backend.calls("echo") == 14


async def test_the_recipe_for_a_second_address_of_a_service_works(backend: ScriptedBackend) -> None:
    """docs/proxy.md."""
    knobs = (
        "auth.mode=off", "server.port=0", "server.admin_port=0", "server.public_url=https://gw.example.com",
        'server.trusted_proxies=["127.0.0.1"]', f"services.crm.backend.url={backend.url}",
        "services.crm.backend.listing.dialect=openrpc",
    )  # fmt: skip
    async with served(load_settings(None, knobs, environ={})) as http:
        await recipe_serves(gateway_of(http))


async def recipe_serves(gateway: Server) -> None:
    recipe = documented("A second address of a service", "nginx").replace("127.0.0.1:8080", f"127.0.0.1:{gateway.port}")
    async with before(gateway.port, directives=recipe) as front:
        front.mcp = f"{front.base}/accounts/mcp"
        for surface in SURFACES:
            assert (await front.call(surface, "add", {"a": 2, "b": 3})).value == {"sum": 5}
        assert (await front.post(f"{front.base}/accounts/nope", {})).status == 404


def test_the_recipe_for_a_second_service_of_kubernetes_finds_the_same_pods() -> None:
    second, first = yaml.safe_load(documented("A second address of a service", "yaml")), render(BASE)["Service"]
    assert second["spec"] == first["spec"]
    kubernetes_validate.validate(second, "1.30", strict=True)


def documented(heading: str, language: str) -> str:
    """The first example in this language below a heading of docs/proxy.md."""
    text = (Path(__file__).parents[2] / "docs" / "proxy.md").read_text()
    section = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return section.partition(f"```{language}\n")[2].partition("```")[0]
