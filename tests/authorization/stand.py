"""A gateway that asks for tokens, in front of a backend whose listing depends on who asks.

async with stand("auth.anonymous=list") as it:
    it.listings.shows("ann", ADD)
    ann = it.client(it.issuer.sign(sub="ann"))
    assert await names(ann, MODERN) == ["add"]
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import jwt
from aiohttp import ClientSession
from multidict import CIMultiDict

from gateway.config.source import load_settings
from gateway.process.server import Server
from gateway.settings import Settings
from tests.authorization.issuer import ForgedIssuer
from tests.fault.behaviours import Behaviour, Body, Exchange, result
from tests.fault.methods import METHODS, Rpc, openrpc
from tests.fault.scripted import ScriptedBackend
from tests.fault.wire import Request
from tests.http_servers import gateway_of, served
from tests.protocol.official import LEGACY, MODERN
from tests.protocol.talk import Answer, Client, modern_headers, modern_request, request

PUBLIC: Final = "https://gw.example.com"
RESOURCE: Final = f"{PUBLIC}/mcp"
METADATA: Final = f"{PUBLIC}/.well-known/oauth-protected-resource/mcp"
REST: Final = "rest"
LISTS: Final = (MODERN, *LEGACY, REST)
"""The surfaces that list tools."""
CALLS: Final = (MODERN, LEGACY[0], REST, "tool", "jsonrpc")
"""Those that call one."""


def bearer_of(sent: Request) -> str | None:
    """The token that the backend was shown."""
    return sent.headers.get("Authorization", "").removeprefix("Bearer ") or None


class Listings:
    """What the backend lists to whom: to a token, or to its subject, where tokens are read; "" is nobody.

    ``refused`` has the status that somebody gets in place of a listing; ``broken`` is what everybody gets.
    """

    def __init__(self, everybody: Sequence[Mapping[str, Any]]) -> None:
        self.everybody = list(everybody)
        self.shown: dict[str, list[Mapping[str, Any]]] = {}
        self.refused: dict[str, int] = {}
        self.broken: Behaviour | None = None

    def shows(self, whom: str, *methods: Rpc | Mapping[str, Any]) -> None:
        self.shown[whom] = [method.listed() if isinstance(method, Rpc) else method for method in methods]

    async def play(self, exchange: Exchange) -> None:
        if self.broken is not None:
            await self.broken.play(exchange)
            return
        token = bearer_of(exchange.request) or ""
        known = (token, subject_of(token))
        status = next((self.refused[whom] for whom in known if whom in self.refused), None)
        if status is not None:
            await Body(status=status, content_type=None).play(exchange)
            return
        methods = next((self.shown[whom] for whom in known if whom in self.shown), self.everybody)
        await result(openrpc(()) | {"methods": methods}).play(exchange)


def subject_of(token: str) -> str:
    """Whose token it is; "" where it cannot be read."""
    try:
        return str(jwt.decode(token, options={"verify_signature": False})["sub"])
    except jwt.InvalidTokenError:
        return ""


class Bearer(Client):
    """A client that shows a token with whatever it sends, and asks in a language; None shows none, and names none."""

    language: str | None = None

    def __init__(self, session: ClientSession, port: int, token: str | None, mount: str = "") -> None:
        super().__init__(session, port, mount)
        self.token = token

    def request(self, verb: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Any:
        sent = CIMultiDict(headers)
        if self.token is not None:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        if self.language is not None:
            sent.setdefault("Accept-Language", self.language)
        return super().request(verb, path, body, sent)

    async def list(self, surface: str, cursor: str | None = None) -> Answer:
        """The first page on a surface of :data:`LISTS`, or the one behind a cursor."""
        params = {} if cursor is None else {"cursor": cursor}
        if surface != REST:
            return await self.speak(surface, "tools/list", params)
        return await self.get("/mcp/tools/list" + ("" if cursor is None else f"?cursor={cursor}"))

    async def call(self, surface: str, tool: str, arguments: Mapping[str, Any] | None = None) -> Answer:
        """A call on a surface of :data:`CALLS`."""
        arguments = arguments or {}
        if surface == REST:
            return await self.post("/mcp/tools/invoke", {"name": tool, "arguments": arguments})
        if surface in ("tool", "jsonrpc"):
            path = f"/mcp/tools/{tool}" if surface == "tool" else "/jsonrpc"
            return await self.post(path, request(tool, arguments))
        params = {"name": tool, "arguments": arguments}
        if surface == MODERN:
            return await self.mcp(modern_request("tools/call", params), modern_headers("tools/call", tool))
        return await self.legacy("tools/call", params, version=surface)


def tools_in(answer: Answer) -> dict[str, Any]:
    """The tools of a page, by name, whatever the surface."""
    assert answer.status == 200, answer
    page = answer.json
    found = page["tools"] if "tools" in page else page["result"]["tools"]
    return {tool["name"]: tool for tool in found}


async def names(client: Bearer, surface: str = MODERN) -> list[str]:
    return list(tools_in(await client.list(surface)))


def challenge_of(answer: Answer) -> dict[str, str]:
    """The parameters of the one challenge."""
    scheme, _, parameters = answer.headers["WWW-Authenticate"].partition(" ")
    assert scheme == "Bearer"
    pairs = (part.partition("=") for part in parameters.split(", "))
    return {name: json.loads(value) for name, _, value in pairs}


@dataclass
class Stand:
    """All of it, running."""

    gateway: Server
    issuer: ForgedIssuer
    backend: ScriptedBackend
    listings: Listings
    session: ClientSession

    def client(self, token: str | None = None) -> Bearer:
        return Bearer(self.session, self.gateway.port, token)

    def of(self, subject: str, scope: str = "", **claims: Any) -> Bearer:
        """A client with a new token of this subject."""
        extra = {"scope": scope} if scope else {}
        return self.client(self.issuer.sign(sub=subject, **extra, **claims))

    async def reload(self, *knobs: str) -> None:
        """What a changed file does: ``knobs`` on top of those that the gateway has."""
        old = self.gateway.settings
        new = load_settings(None, [f"backend.url={self.backend.url}", "auth.mode=off", *knobs], environ={})
        await self.gateway.reload(old.model_copy(update={"catalog": new.catalog}))

    def offers(self, *tools: Mapping[str, Any]) -> None:
        """The tools in the listing of Drupal's jsonrpc_mcp (``backend.listing.dialect=jsonrpc_mcp``), to everybody."""
        listed = [{"description": "A tool", "inputSchema": {"type": "object"}, **tool} for tool in tools]
        body = json.dumps({"tools": listed, "nextCursor": None}).encode()
        self.backend.pages["/mcp/tools/list"] = Body(body)

    def shown(self, method: str) -> list[str | None]:
        """The tokens that requests for a backend method have shown."""
        return [bearer_of(sent) for sent in self.backend.requests if sent.method == method]


def settings(url: str, issuers: Sequence[ForgedIssuer], *knobs: str) -> Settings:
    """Settings of a gateway whose backend takes its callers' tokens."""
    named = ", ".join(f"{{issuer: '{issuer.issuer}'}}" for issuer in issuers)
    ground = (
        f"backend.url={url}", "backend.listing.dialect=openrpc", "server.port=0", "server.admin_port=0",
        f"server.public_url={PUBLIC}", f"auth.issuers=[{named}]", f"backend.credentials.backend_audience={RESOURCE}",
        "limits.discovery=100000/minute", "limits.invocation=100000/second", "limits.concurrent=10000",
    )  # fmt: skip
    return load_settings(None, [*ground, *knobs], environ={})


@asynccontextmanager
async def running(made: Settings) -> AsyncIterator[Server]:
    async with served(made) as client:
        yield gateway_of(client)


@asynccontextmanager
async def stand(
    *knobs: str, methods: Sequence[Rpc] = METHODS, listing: Sequence[Mapping[str, Any]] = ()
) -> AsyncIterator[Stand]:
    """One issuer, one backend, one gateway. The backend lists all methods, else ``listing``, to everybody until a test
    says otherwise."""
    async with ForgedIssuer(RESOURCE) as issuer, ScriptedBackend(methods) as backend:
        listings = Listings(listing or [method.listed() for method in methods])
        backend.on("rpc.discover", listings)
        async with served(settings(backend.url, [issuer], *knobs)) as client:
            yield Stand(gateway_of(client), issuer, backend, listings, client.session)
