"""Mistakes with the service: its address, what stands in front of it, its listing, and what is left of that."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from tests.mistakes.commands import Command, run_all
from tests.mistakes.mistake import Addresses, Mistake, Told
from tests.troubleshooting.places import Places, started

_HTML: Final = "<html><title>{0}</title><h1>{0}</h1></html>"


@dataclass(frozen=True)
class State:
    """Hold what a service in some state answers to every request; ``result`` is that of rpc.discover."""

    status: int = 200
    body: str = ""
    type: str = "text/html"
    headers: tuple[tuple[str, str], ...] = ()
    result: Any = None


def _document(*methods: dict[str, Any]) -> State:
    return State(result={"openrpc": "1.2.6", "info": {"title": "Shop", "version": "1"}, "methods": list(methods)})


def _method(name: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    params = [] if schema is None else [{"name": "what", "schema": schema}]
    return {"name": name, "params": params, "result": {"name": "r", "schema": {}}}


STATES: Final[dict[str, State]] = {
    "get-only": State(405, _HTML.format("Method Not Allowed"), headers=(("Allow", "GET, HEAD"),)),
    "small": State(413, _HTML.format("Request Entity Too Large")),
    "media": State(415, '{"detail":"Unsupported media type"}', "application/json"),
    "busy": State(429, '{"message":"Too many requests"}', "application/json", (("Retry-After", "37"),)),
    "upgrade": State(426, "Upgrade Required", "text/plain", (("Upgrade", "websocket"),)),
    "elsewhere": State(302, "", headers=(("Location", "http://rpc.example.com/jsonrpc"),)),
    "secure": State(301, "", headers=(("Location", "https://shop.example.com/secure"),)),
    "rest": State(200, '{"message":"Welcome to the shop","version":"3.1"}', "application/json"),
    "graphql": State(200, '{"errors":[{"message":"Must provide query string."}]}', "application/json"),
    "nothing": State(204),
    "empty": _document(),
    "large": _document(*(_method(f"shop.method{number}") for number in range(30))),
    "huge": _document({**_method("shop.sell"), "description": "x" * (17 * 2**20)}),
    "references": _document(_method("shop.buy", {"$ref": "https://schemas.example.com/book.json#/Book"})),
    "mcp": State(400, '{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Mcp-Session-Id header '
                 'is required"}}', "application/json"),
}  # fmt: skip


@dataclass(frozen=True)
class World(Addresses):
    """Hold the places, the states of a service, and the ports that speak no HTTP."""

    places: Places
    states: str
    speaks_json: int
    hangs_up: int

    def names(self) -> dict[str, str]:
        ports = {"redis": self.places.ports["redis"], "json": self.speaks_json, "closing": self.hangs_up}
        named = {"tls": "tls", "nginx": "nginx", "closed": "closed"}
        urls = {f"<{name}>": f"127.0.0.1:{self.places.ports[port]}" for name, port in named.items()}
        urls |= {f"<{name}>": f"127.0.0.1:{port}" for name, port in ports.items()}
        return {
            "<states>": self.states,
            "<service>": self.places.urls["service"],
            "<frozen>": self.places.urls["frozen"],
            "<deluge>": self.places.urls["deluge"],
            "<dir>": str(self.places.directory),
            **urls,
        }


@dataclass(frozen=True)
class Checked:
    """Hold one mistake, and the options of ``check`` that make it."""

    mistake: Mistake
    url: str
    knobs: tuple[str, ...] = ()
    command: tuple[str, ...] = ("check",)

    def make(self, world: World) -> Command:
        """Return the command line."""
        knobs = (f"backend.url={self.url}", "auth.mode=off", *self.knobs)
        return Command((*self.command, *(part for knob in knobs for part in ("--set", world.filled(knob)))))


FILES: Final = {
    "list.yaml": "methods: seats.free\n",
    "twice.yaml": "methods:\n  seats.free: {description: One.}\n  seats.free: {description: Two.}\n",
    "tab.yaml": "methods:\n\tseats.free: {description: Count the free seats.}\n",
    "openapi.json": json.dumps({"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "paths": {}}),
    "types.yaml": "methods:\n  seats.free:\n    params:\n      rows: {type: array}\n",
    "text.pem": "This is no certificate.\n",
}
STATIC: Final = "backend.listing.dialect=static"
ROWS: Final = (
    # The address
    Checked(Mistake("The port is that of Redis.", "the connection ended before the answer", "backend.url", 3),
            "http://<redis>/jsonrpc"),
    Checked(Mistake("The port speaks JSON-RPC without HTTP.", "without HTTP", "Set backend.url to tcp://", 3), "http://<json>/jsonrpc"),
    Checked(Mistake("The port closes every connection.", "the connection ended before the answer", "backend.url", 3),
            "http://<closing>/jsonrpc"),
    Checked(Mistake("The address is that of another MCP server.", "MCP", "without this gateway", 3), "<states>/mcp"),
    Checked(Mistake("The address takes GET alone.", "HTTP 405", "backend.url", 3), "<states>/get-only"),
    Checked(Mistake("The address is a REST API's.", "no JSON-RPC response", "backend.url", 3), "<states>/rest"),
    Checked(Mistake("The address is a GraphQL endpoint's.", "GraphQL", "backend.url", 3), "<states>/graphql"),
    Checked(Mistake("The address answers nothing.", "HTTP 204", "backend.url", 3), "<states>/nothing"),
    Checked(Mistake("The address is for WebSockets.", "WebSocket", "Set backend.url to ws://", 3), "<states>/upgrade"),
    Checked(Mistake("The service has moved to another host.", "redirect",
                    "Set backend.url to http://rpc.example.com/jsonrpc", 3), "<states>/elsewhere"),
    Checked(Mistake("The service redirects to https.", "redirect",
                    "Set backend.url to https://shop.example.com/secure", 3), "<states>/secure"),
    Checked(Mistake("The URL has a user and a password.", "backend.url", "backend.credentials", 2),
            "http://ann:pa55@127.0.0.1:8000/jsonrpc"),
    Checked(Mistake("An IPv6 address has no brackets.", "backend.url", "[::1]", 2), "http://::1:8000/jsonrpc"),
    # What stands in front
    Checked(Mistake("The service wants a user and a password, and a token is sent.", "it asks for Basic",
                    "Correct backend.credentials, whose mode is static", 3), "http://<nginx>/private/",
            ("backend.credentials.mode=static",
             "backend.credentials.send={headers: {Authorization: Bearer some-token}}")),
    Checked(Mistake("The service limits how often we ask.", "HTTP 429", "again in 37 s", 3), "<states>/busy"),
    Checked(Mistake("The service takes no body so large.", "HTTP 413", "limit", 3), "<states>/small"),
    Checked(Mistake("The service takes another media type.", "HTTP 415", "backend.content_type", 3), "<states>/media"),
    Checked(Mistake("The proxy is not there.", "<closed>", "backend.proxy", 3), "<service>",
            ("backend.proxy=http://<closed>",)),
    Checked(Mistake("The proxy has no http://.", "backend.proxy", "put http:// before it", 2), "<service>",
            ("backend.proxy=127.0.0.1:3128",)),
    Checked(Mistake("A knob that left names the HTTP client.", "backend.transport", "the gateway chooses", 2),
            "<service>", ("backend.proxy=http://<closed>", "backend.transport=lean")),
    Checked(Mistake("The file of the authority is no certificate.", "text.pem", "PEM", 2), "https://<tls>/jsonrpc",
            ("backend.tls.ca_file=<dir>/text.pem",)),
    Checked(Mistake("A client certificate without its key.", "backend.tls",
            "cert_file and key_file must be set together", 2),
            "https://<tls>/jsonrpc", ("backend.tls.cert_file=<dir>/ca.pem",)),
    # The listing
    Checked(Mistake("The listing is empty.", "no methods", "backend.credentials", 1), "<states>/empty"),
    Checked(Mistake("A knob of an earlier version bounds the tools.", "catalog.max_tools", "catalog.include", 2),
            "<states>/large", ("catalog.max_tools=10",)),
    Checked(Mistake("The listing is larger than is read.", "16777216 bytes", "backend.listing.file", 3),
            "<states>/huge"),
    Checked(Mistake("The named listing takes longer than it may.", "500", "backend.listing.timeout", 3), "<frozen>",
            ("backend.listing.dialect=openrpc", "backend.listing.timeout=500ms")),
    Checked(Mistake("Patterns leave out all methods.", "catalog.include", "catalog.include", 1), "<service>",
            ("catalog.include=['shop.*']",)),
    Checked(Mistake("All methods are quarantined.", "https://schemas.example.com/book.json",
                    "backend.listing.documents", 1), "<states>/references"),
    Checked(Mistake("The dialect is of another kind of service.", "drupal", "backend.listing.dialect: openrpc", 3),
            "<service>", ("backend.listing.dialect=drupal",)),
    Checked(Mistake("A listing file, and no dialect that reads it.", "backend.listing", "dialect: static and file", 2),
            "<service>", ("backend.listing.file=<dir>/list.yaml",)),
    Checked(Mistake("The dialect static has no file.", "static", "file must be set together", 2), "<service>",
            (STATIC,)),
    Checked(Mistake("The dialect custom says not where the methods are.", "custom", "needs custom.methods",
            2),
            "<service>", ("backend.listing.dialect=custom",)),
    Checked(Mistake("The methods of the file are a text.", "list.yaml:1: methods", "must be a mapping", 2), "<service>",
            (STATIC, "backend.listing.file=<dir>/list.yaml")),
    Checked(Mistake("A method stands twice in the file.", "seats.free", "occurs twice", 2), "<service>",
            (STATIC, "backend.listing.file=<dir>/twice.yaml")),
    Checked(Mistake("The file is indented with a tab.", "tab.yaml: line 2", "spaces", 2), "<service>",
            (STATIC, "backend.listing.file=<dir>/tab.yaml")),
    Checked(Mistake("The file is an OpenAPI document.", "OpenAPI", "methods", 2), "<service>",
            (STATIC, "backend.listing.file=<dir>/openapi.json")),
    Checked(Mistake("A parameter's type stands where its schema should.", "type", "schema", 2), "<service>",
            (STATIC, "backend.listing.file=<dir>/types.yaml")),
    Checked(Mistake("An override names a method that is not there.", 'catalog.tools: "ad" matches no method',
            "did you mean add?", 0), "<service>",
            ("catalog.tools={ad: {title: Add}}",)),
    Checked(Mistake("An override names an argument that is not there.", "[aa]", "", 0), "<service>",
            ("catalog.tools={add: {arguments: {aa: {description: One.}}}}",)),
)  # fmt: skip


async def tell() -> dict[str, Told]:
    """Make all the mistakes once, and return what each is told."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        places = stack.enter_context(started(directory))
        for name, text in FILES.items():
            (directory / name).write_text(text)
        states = await stack.enter_async_context(_states())
        json_port = await stack.enter_async_context(_listening(_speak_json))
        closing = await stack.enter_async_context(_listening(_hang_up))
        world = World(places, states, json_port, closing)
        told = await run_all({row.mistake.name: row.make(world) for row in ROWS})
        return {name: Told(one.code, world.named(one.text)) for name, one in told.items()}


@asynccontextmanager
async def _states() -> AsyncIterator[str]:
    """Serve each state at its path, and return the origin."""
    runner = web.ServerRunner(web.Server(_answer), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    _, port = runner.addresses[0][:2]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


async def _answer(request: web.BaseRequest) -> web.Response:
    state = STATES.get(request.path.split("/")[1])
    if state is None:
        return web.Response(status=404, text=_HTML.format("Not Found"), content_type="text/html")
    if state.result is None:
        return web.Response(
            status=state.status, body=state.body.encode(), content_type=state.type, headers=dict(state.headers)
        )
    if request.method != "POST":
        return web.Response(status=405)
    asked = await request.json()
    answer = {"jsonrpc": "2.0", "id": asked.get("id")}
    if asked.get("method") == "rpc.discover":
        return web.json_response(answer | {"result": state.result})
    return web.json_response(answer | {"error": {"code": -32601, "message": "Method not found"}})


Spoken = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]


@asynccontextmanager
async def _listening(speak: Spoken) -> AsyncIterator[int]:
    """Listen without HTTP, and return the port."""
    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def _speak_json(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()
    writer.write(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}\n')
    await writer.drain()
    writer.close()


async def _hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()
