"""A service that is listed by GET, and whose calls go where no JSON-RPC endpoint is."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from gateway.cli.checking import check
from gateway.config.source import load_settings
from tests.e2e.told import serving
from tests.each import each
from tests.fault.methods import ADD, openrpc
from tests.front import ground
from tests.waiting import until

UNKNOWN = {"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "Method not found"}}
MISSING = "The listing is at /openrpc.json, but there is no JSON-RPC endpoint at"
BASIC = ("backend.credentials={mode: basic, user: u, password: p}",)


class Service:
    """Give a document to each GET of one path, and these answers to POSTs, by path; 404 elsewhere."""

    def __init__(self, document: str = "/openrpc.json", endpoints: tuple[str, ...] = (), **posts: web.Response) -> None:
        self.document, self.posts = document, dict(posts)
        self.asked: list[str] = []
        self.listed = openrpc([ADD])
        methods = [
            {**self.listed["methods"][0], "name": f"add{path}", "servers": [{"url": path}]} for path in endpoints
        ]
        self.listed["methods"] = methods or self.listed["methods"]

    async def answer(self, request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response(self.listed, status=200 if request.path == self.document else 404)
        self.asked.append(request.path)
        made = self.posts.get(request.path.strip("/") or "root")
        if made is None:
            return web.json_response({"detail": "Not Found"}, status=404)
        if made.status == 200 and made.content_type == "application/json":
            return web.json_response({**UNKNOWN, "id": (await request.json())["id"]})
        return web.Response(body=made.body, status=made.status, headers=made.headers)


@asynccontextmanager
async def listed(service: Service) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", service.answer)
    async with TestServer(app) as server:
        yield str(server.make_url("/")).rstrip("/")


async def checked(capsys: Any, url: str, *knobs: str) -> dict[str, Any]:
    settings = load_settings(None, ground(url, *knobs), environ={})
    await check(settings, [settings.by_mount[""]], None, as_json=True)
    printed = capsys.readouterr().out
    (one,) = json.loads(printed[printed.index("{\n") :])["services"]  # behind what the log said
    return one


RPC = web.json_response({})
HTML = web.Response(body=b"<p>", content_type="text/html")


@each(
    ("posts", "path", "knobs", "code", "cause", "then"),
    [
        ({}, "/", (), 3, f"{MISSING} /: HTTP 404", "Set backend.url to the JSON-RPC endpoint"),
        ({"root": web.Response(status=405)}, "/", (), 3, f"{MISSING} /: HTTP 405", "Set backend.url"),
        ({"root": web.Response(status=410)}, "/", (), 3, f"{MISSING} /: HTTP 410", "Set backend.url"),
        ({"root": HTML, "api/v1": RPC}, "/", (), 3, f"{MISSING} /: a web page. There is one at /api/v1", "/api/v1"),
        ({"root": web.Response(status=302, headers={"Location": "/x"})}, "/", (), 3, "a redirect (HTTP 302)", "Set"),
        ({"app": RPC}, "/app/openrpc.json", (), 3, "There is one at /app", "/app"),
        ({"root": web.Response(status=401)}, "/", (), 3, "but / refuses access to calls: HTTP 401",
         "Set backend.credentials."),
        ({"root": web.Response(status=403)}, "/", BASIC, 3, "HTTP 403", "Correct backend.credentials, whose mode is"),
        ({"root": web.Response(status=400)}, "/", (), 0, "whether / is a JSON-RPC endpoint is not known: HTTP 400", ""),
        ({"root": RPC}, "/", (), 0, "", ""),
    ],
)  # fmt: skip
async def test_check_says_where_calls_cannot_work(
    posts: dict[str, web.Response], path: str, knobs: tuple[str, ...], code: int, cause: str, then: str, capsys: Any
) -> None:
    service = Service("/app/openrpc.json" if "app" in path else "/openrpc.json", **posts)
    async with listed(service) as url:
        found = await checked(capsys, url + path, *knobs)
        assert found["exit_code"] == code
        assert [tool["name"] for tool in found["tools"]] == ["add"]
        assert then in ((found["failure"] or {}).get("next") or "")
        said = found["failure"]["cause"] if code else "\n".join(found["remarks"])
        assert cause in said
        assert (cause != "") or "endpoint" not in said


async def test_a_credential_of_the_listing_alone_says_nothing_of_calls(capsys: Any) -> None:
    async with listed(Service(root=web.Response(status=401))) as url:
        found = await checked(capsys, f"{url}/", *BASIC, "backend.listing.credentials.mode=none")
        assert found["exit_code"] == 0


async def test_each_endpoint_of_the_methods_is_asked_once_and_five_at_most(capsys: Any) -> None:
    paths = tuple(f"/{letter}" for letter in "abcdefg")
    service = Service(endpoints=paths, a=RPC, b=RPC, c=RPC, d=RPC)
    async with listed(service) as url:
        found = await checked(
            capsys, f"{url}/", "backend.listing.dialect=openrpc", f"backend.listing.url={url}/openrpc.json"
        )
        assert f"{MISSING} /e: HTTP 404" in found["failure"]["cause"]
        assert [path for path in service.asked if path in paths] == ["/a", "/b", "/c", "/d", "/e"]


async def test_serve_says_it_and_a_call_names_the_status(tmp_path: Path) -> None:
    service = Service(rpc=RPC)
    async with listed(service) as url, serving(tmp_path, f"{url}/") as told:
        line = await told.program.logged("calls cannot reach the service")
        assert line["cause"] == f"{MISSING} /: HTTP 404"
        assert [problem["cause"] for problem in await told.problems()] == [line["cause"]]
        async with ClientSession() as session, session.get(told.front.base, headers={"Accept": "text/html"}) as page:
            assert f"Its calls get no answer now ({line['cause']})" in await page.text()
        called = await told.front.call("rest", "add", {"a": 2, "b": 3})
        assert "HTTP 404" in called.text
        assert "/rpc" not in service.asked
        service.posts["root"] = RPC
        await told.refresh()

        async def is_well() -> bool:
            return not await told.problems()

        await until(is_well)
