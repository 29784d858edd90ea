"""The page of the admin port: who sees it, what it says, and its buttons."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import ClientSession

from gateway.config.source import ConfigError, ConfigSource, load_settings
from gateway.process.server import Server
from gateway.process.serving import Reloads
from gateway.settings.server import AdminPageSettings
from gateway.telemetry import cells
from gateway.web.admin_page import AdminPage
from tests.configuring import put
from tests.each import each
from tests.fault.behaviours import Hang, error, result
from tests.fault.methods import ADD, ECHO, openrpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Start
from tests.protocol.talk import Answer, Client

FOREIGN: Final = ({"Host": "evil.example.com"}, {"Origin": "https://evil.example.com"}, {"Origin": "null"})


class Peer:
    """What a page knows of a request: the address of its peer, and its headers."""

    def __init__(self, remote: str, headers: Mapping[str, str]) -> None:
        self.remote, self.headers, self.connection = remote, headers, self
        self.host = headers.get("Host", "127.0.0.1:9090")


async def no_details() -> Mapping[str, Any]:
    return {}


def admits(remote: str, settings: str = "", **headers: str) -> bool:
    knobs = ["backend.url=http://127.0.0.1:8000/jsonrpc", "auth.mode=off", *([settings] if settings else [])]
    made = load_settings(None, knobs, {}).server.admin_page
    request: Any = Peer(remote, headers)
    return AdminPage(made, lambda: ({}, {}), no_details).admits(request)


def test_only_loopback_and_the_named_networks_see_it_under_a_name_that_is_theirs() -> None:
    assert admits("127.0.0.1")
    assert admits("::1", Host="localhost:9090", Origin="http://localhost:9090")
    assert not admits("192.0.2.7")
    assert not admits("127.0.0.1", Host="gateway.example.com")
    assert not admits("127.0.0.1", Host="127.0.0.1:9090", Origin="http://127.0.0.1:8080")
    network = "server.admin_page={networks: [192.0.2.0/24], hosts: [gw.internal]}"
    assert admits("192.0.2.7", network, Host="gw.internal:9090", Origin="http://gw.internal:9090")
    assert not admits("192.0.3.7", network, Host="gw.internal:9090")
    assert not admits("192.0.2.7", network, Host="evil.example.com")
    assert not admits("192.0.2.7", network, Host="gw.internal:9090", Origin="http://evil.example.com")


@each("value", ["{hosts: ['*']}", "{networks: [everywhere]}"])
def test_a_name_for_all_and_a_network_that_is_none_are_faults(value: str) -> None:
    with pytest.raises(ConfigError, match=r"server\.admin_page\."):
        admits("127.0.0.1", f"server.admin_page={value}")


async def asked(session: ClientSession, server: Server, verb: str, path: str, **headers: str) -> Answer:
    return await Client(session, server.admin_port).send(verb, path, headers=headers)


async def test_elsewhere_the_root_lists_the_paths(session: ClientSession, start: Start) -> None:
    server = await start()
    answer = await asked(session, server, "GET", "/", Host="gateway.internal")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    assert "POST /reload" in answer.body.decode()
    assert b"html" not in answer.body


@each(
    ("host", "is_served"),
    {
        **dict.fromkeys(
            ("127.0.0.1:9090", "[::1]:9090", "LOCALHOST", "10.1.2.3:9090", "[fd00::7]", "gateway:9090"), True
        ),
        **dict.fromkeys(("gw.crm.svc", "gw.crm.svc.:9090", "gw.crm.svc.cluster.local", "GW.Corp.Internal"), True),
        **dict.fromkeys(("nas.home.arpa", "gw.example.com:9090", "gw.example.com."), True),
        **dict.fromkeys(("evil.example.com:9090", "127.0.0.1.evil.example.com", "gw.example.com.evil.org"), False),
        **dict.fromkeys(
            ("svc.evil.org", "evil.org/.svc", "evil.org:9090.svc", "evil.org@gw", "", ".", "evil.org."), False
        ),
    }.items(),
)
async def test_what_the_admin_port_tells_is_for_hosts_that_no_web_page_can_have(
    session: ClientSession, start: Start, host: str, is_served: bool
) -> None:
    server = await start("server.admin_page.hosts=[gw.example.com]")
    told = [
        await asked(session, server, verb, path, Host=host)
        for verb, path in (
            ("GET", "/status"), ("HEAD", "/metrics"), ("GET", "/metrics"), ("GET", "/readyz?a=1&verbose"), ("GET", "/"),
            ("POST", "/refresh"), ("GET", "/nowhere"),
        )
    ]  # fmt: skip
    assert all((answer.status != 421) == is_served for answer in told)
    assert is_served or b"server.admin_page.hosts" in told[0].body
    for path in ("/livez", "/readyz", "/readyz?a=verbose"):  # a kubelet may have any name for it
        assert (await asked(session, server, "GET", path, Host=host)).status == 200


@each("headers", FOREIGN, ids=["host", "origin", "opaque origin"])
@each("path", ["/refresh", "/reload"])
async def test_no_button_works_for_another_page(
    session: ClientSession, start: Start, path: str, headers: dict[str, str]
) -> None:
    server = await start()
    refused = await asked(session, server, "POST", path, **{"Origin": "http://evil.example.com", **headers})
    assert refused.status == (421 if "Host" in headers else 403)


async def test_the_buttons_work_for_the_page_itself(session: ClientSession, start: Start) -> None:
    server = await start()
    own = f"http://127.0.0.1:{server.admin_port}"
    assert (await asked(session, server, "POST", "/refresh", Origin=own)).status == 200
    assert (await asked(session, server, "POST", "/refresh")).status == 200  # a program has no Origin
    assert (await asked(session, server, "POST", "/reload", Origin=own)).status == 409  # there is no file


async def test_it_is_locked_down_and_its_files_are_there(session: ClientSession, start: Start) -> None:
    server = await start()
    page = await asked(session, server, "GET", "/")
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    for name in re.findall(r'(?:src|href)="\./(static/[^"]+)"', page.body.decode()):
        assert (await asked(session, server, "GET", f"/{name}")).status == 200


async def test_it_names_four_failures_at_once_each_with_what_to_do(
    session: ClientSession, tmp_path: Path, backend: ScriptedBackend
) -> None:
    """A service that is down, one whose listing fails, a method that cannot be a tool, a file that is refused."""
    broken = {"name": "books.purge", "params": [{"name": "x", "schema": {"$ref": "#/nowhere"}}]}
    backend.on("rpc.discover", result(openrpc([ADD]) | {"methods": [ADD.listed(), broken]}))
    file = tmp_path / "gateway.yaml"
    async with ScriptedBackend([ECHO]) as other:
        other.on("rpc.discover", error(-32000, "the database is away"))
        text = (
            "server: {port: 0, admin_port: 0}\nauth: {mode: 'off'}\nservices:\n"
            f"  books: {{backend: {{url: '{backend.url}', listing: {{dialect: openrpc}}}}}}\n"
            f"  crm: {{backend: {{url: '{other.url}', listing: {{dialect: openrpc}}}}}}\n"
            "  shop: {backend: {url: 'http://127.0.0.1:9/jsonrpc', listing: {dialect: openrpc}}}\n"
        )
        file.write_text(text)
        source = ConfigSource(file)
        server = Server(source.load_settings())
        reloads = Reloads(server, source)
        await server.start()
        try:
            reloads.start()
            await server.wait_until_listed()
            put(file, f"{text}limits: {{invocation: often}}\n")
            refused = await asked(session, server, "POST", "/reload")
            page = (await asked(session, server, "GET", "/")).body.decode()
            put(file, text)
            assert (await asked(session, server, "POST", "/reload")).body == b"reloaded\n"
        finally:
            await server.stop()
    assert (refused.status, b"limits.invocation" in refused.body) == (409, True)
    shown = re.sub(r"<[^>]+>", "", page)
    assert "the database is away" in shown
    assert "Start the service, or set services.shop.backend.url" in shown
    assert "the configuration was refused" in shown
    assert "limits.invocation" in shown
    assert "What to do: Bring the service back." in " ".join(shown.split())
    assert "What to do: Correct the file." in " ".join(shown.split())
    for runbook in ("mcpgatewayservicenotlisted", "mcpgatewayconfigrefused"):
        assert f'<a href="#{runbook}">' in page
        assert f'<details id="{runbook}">' in page
    assert "books.purge" in shown
    assert "Remedy: give it a schema under" in shown
    assert f"{file}:5" in shown
    assert "services.crm.backend.url" in shown


async def test_it_counts_calls_and_shows_the_refused_ones(session: ClientSession, start: Start) -> None:
    server = await start()
    client = Client(session, server.port)
    good = {"name": "add", "arguments": {"a": 1, "b": 2}}
    for body in (good, good, {"name": "add", "arguments": {}}):
        await client.post("/mcp/tools/invoke", body)
    page = (await asked(session, server, "GET", "/")).body.decode()
    assert re.search(r'5 minutes</th><td class="num">\d+</td>', page)
    assert "<code>invalid_arguments</code>" in page


async def test_it_draws_the_calls_and_failures_since_the_samples_began() -> None:
    key, counts = (cells.REQUEST, "", "mcp", "tools/call", "ok", ""), [0.0] * (cells.SUM + 1)
    found: dict[Any, list[float]] = {key: counts}
    page = AdminPage(AdminPageSettings(), lambda: (found, {}), no_details)
    for calls in (0.0, 2.0):
        found[key] = [calls, *counts[1:]]
        history = asyncio.create_task(page.keep_history())
        await asyncio.sleep(0)  # one sample
        history.cancel()
    found[key] = [10.0, *counts[1:]]
    service = {"name": "", "path": "/mcp", "tools": 1, "quarantined": 0, "listing_age": 1.0, "problems": []}
    process = {"worker": None, "unready": None, "configuration": None, "services": [service], "problems": []}
    text = (await page.respond(None, [process], reloads=False)).body.decode()
    assert '<polyline points="0.0,22.0 100.0,1.0"/>' in text
    assert text.count('<td class="num">10</td><td class="num">0</td>') == 2  # in 5 minutes, and in an hour


async def test_after_the_restart_of_a_worker_it_counts_from_nothing() -> None:
    """A counter that went back is of another process."""
    key = (cells.REQUEST, "", "mcp", "tools/call", "ok", "")
    rest = [0.0] * cells.SUM
    found: dict[Any, list[float]] = {key: [10.0, *rest]}
    page = AdminPage(AdminPageSettings(), lambda: (found, {}), no_details)
    history = asyncio.create_task(page.keep_history())
    await asyncio.sleep(0)  # one sample
    history.cancel()
    found[key] = [2.0, *rest]
    service = {"name": "", "path": "/mcp", "tools": 1, "quarantined": 0, "listing_age": 1.0, "problems": []}
    process = {"worker": None, "unready": None, "configuration": None, "services": [service], "problems": []}
    text = (await page.respond(None, [process], reloads=False)).body.decode()
    assert text.count('<td class="num">2</td><td class="num">0</td>') == 2  # in 5 minutes, and in an hour


async def test_it_counts_the_calls_that_failed(session: ClientSession, start: Start, backend: ScriptedBackend) -> None:
    server = await start()
    backend.on("add", error(-32000, "no"))

    async def counts() -> tuple[int, int]:
        page = (await asked(session, server, "GET", "/")).body.decode()
        row = re.search(r'5 minutes</th><td class="num">(\d+)</td><td class="num">(\d+)</td>', page)
        assert row is not None
        return int(row[1]), int(row[2])

    before = await counts()
    for tool, arguments in (("add", {"a": 1, "b": 2}), ("echo", {"value": 1})):
        await Client(session, server.port).post("/mcp/tools/invoke", {"name": tool, "arguments": arguments})
    assert await counts() == (before[0] + 2, before[1] + 1)


async def test_an_issuer_whose_keys_never_came_is_there_and_says_so(session: ClientSession, start: Start) -> None:
    nobody = "auth={mode: jwt, issuers: [{issuer: 'http://127.0.0.1:9'}]}"
    server = await start(nobody, "server.public_url=http://127.0.0.1:8080", "backend.credentials.mode=none")
    page = (await asked(session, server, "GET", "/")).body.decode()
    assert re.search(r"http://127\.0\.0\.1:9</th><td></td><td class=\"num\">no keys</td>", page)
    assert "What to do: Reach the issuer from the gateway's machine" in " ".join(page.split())


async def test_of_several_services_it_says_which_one_refused_a_call(session: ClientSession) -> None:
    async with ScriptedBackend([ADD]) as crm, ScriptedBackend([ECHO]) as shop:
        places = (f"services.{name}.backend.url={it.url}" for name, it in (("crm", crm), ("shop", shop)))
        server = Server(load_settings(None, ("server.port=0", "server.admin_port=0", "auth.mode=off", *places), {}))
        await server.start()
        try:
            await server.wait_until_listed()
            assert (
                await Client(session, server.port, "/crm").post("/mcp/tools/invoke", {"name": "echo"})
            ).status == 404
            page = (await asked(session, server, "GET", "/")).body.decode()
        finally:
            await server.stop()
    assert "<td><code>tool_not_found</code></td><td>crm</td><td><bdi>echo</bdi></td>" in page


async def test_a_problem_of_several_workers_is_shown_once_and_says_which_workers_have_it() -> None:
    page = AdminPage(AdminPageSettings(), lambda: ({}, {}), no_details)
    common, own = (
        {"cause": cause, "since": "2026-11-21T12:00:00+00:00", "next_try": None} for cause in ("ours", "mine")
    )
    workers = [
        {"worker": number, "unready": None, "process": number, "configuration": None, "services": [],
         "problems": problems, "under_way": {}}
        for number, problems in ((1, [common]), (2, [common, own]))
    ]  # fmt: skip
    text = (await page.respond(None, workers, reloads=True)).body.decode()
    assert (text.count("<p>ours"), text.count("<p>mine")) == (1, 1)
    assert "2 things to look at" in text
    assert '<p>mine <span class="tag">worker 2 only</span>' in text


async def test_secrets_of_the_configuration_are_masked(
    session: ClientSession, tmp_path: Path, backend: ScriptedBackend
) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(
        "server: {port: 0, admin_port: 0}\nauth: {mode: 'off'}\nbackend:\n"
        f"  url: {backend.url}\n  listing: {{dialect: openrpc}}\n"
        "  credentials: {mode: static, send: {headers: {X-Key: quite-secret-indeed}}}\n"
    )
    source = ConfigSource(file)
    server = Server(source.load_settings())
    reloads = Reloads(server, source)
    await server.start()
    try:
        reloads.start()
        page = (await asked(session, server, "GET", "/")).body
    finally:
        await server.stop()
    assert b"***" in page
    assert b"quite-secret-indeed" not in page


async def test_it_answers_while_the_service_hangs(session: ClientSession, backend: ScriptedBackend) -> None:
    from tests.protocol.conftest import settings

    backend.on("rpc.discover", Hang("nothing"))
    server = Server(settings(backend.url))
    await server.start()
    try:
        page = (await asked(session, server, "GET", "/")).body
        assert b"the first listing has not come yet" in page
    finally:
        backend.release.set()
        await server.stop()
