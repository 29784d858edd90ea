"""A gateway in front of a service, within this process, and the three ways to call a tool through it.

async with front(service.url, "backend.timeout=200ms") as gateway:
    called = await gateway.call("modern", "add", {"a": 2, "b": 3})
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import aiohttp
from yarl import URL

from gateway.config.service_files import ServiceFiles
from gateway.config.source import load_settings
from gateway.process.server import Server
from gateway.service.resource import BuildContext
from gateway.service.service import Service
from gateway.settings import ServiceSettings
from gateway.store import ServerStore
from gateway.store.memory import MemoryStore
from tests.http_servers import gateway_of, served

Surface: TypeAlias = Literal["modern", "legacy", "rest"]
SURFACES: Final[tuple[Surface, ...]] = ("modern", "legacy", "rest")
MODERN: Final = "2026-07-28"
LEGACY: Final = "2025-11-25"
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
}


def shown(surface: Surface, *names: str) -> list[str]:
    """MCP's names of tools as a surface lists them: models are shown ones without dots."""
    return list(names) if surface == "rest" else [name.replace(".", "_") for name in names]


@dataclass(frozen=True)
class Called:
    """A tool call's answer: as it came, and what it means on its surface."""

    surface: Surface
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def body(self) -> Any:
        return json.loads(self.text)

    @property
    def result(self) -> Any:
        """The result of ``tools/call``."""
        return self.body["result"]

    @property
    def failed(self) -> bool:
        """REST: an error; MCP: ``isError``. A JSON-RPC error of MCP raises: it is no outcome of a call."""
        return "error" in self.body if self.surface == "rest" else bool(self.result["isError"])

    @property
    def message(self) -> str:
        """Why it failed."""
        assert self.failed, self.text
        if self.surface == "rest":
            return str(self.body["error"]["message"])
        (block,) = self.result["content"]
        return str(block["text"])

    @property
    def code(self) -> str:
        """REST's word for the failure."""
        return str(self.body["error"]["code"])

    @property
    def value(self) -> Any:
        """What the method answered, whatever form the surface gives it."""
        assert not self.failed, self.text
        if self.surface == "rest":
            return self.result
        if "structuredContent" not in self.result:
            return _json_or_text(self.result["content"][0]["text"])
        value = self.result["structuredContent"]
        # Older revisions allow objects alone; other values are wrapped.
        wrapped = self.surface == "legacy" and isinstance(value, dict) and set(value) == {"result"}
        return value["result"] if wrapped else value

    @property
    def everything(self) -> str:
        """Headers and body, to look for what must not be there."""
        return "\n".join([*(f"{name}: {value}" for name, value in self.headers.items()), self.text])


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


class Front:
    """The public port of a running gateway; ``gateway`` is the thing itself where it runs in this process."""

    def __init__(self, port: int, session: aiohttp.ClientSession, gateway: Server | None = None) -> None:
        self.gateway = gateway
        self.port = port
        self.base = f"http://127.0.0.1:{port}"
        self.mcp = f"{self.base}/mcp"
        self._session = session

    async def call(
        self, surface: Surface, tool: str, arguments: Mapping[str, Any] | None, headers: Mapping[str, str] | None = None
    ) -> Called:
        if surface == "rest":
            body: dict[str, Any] = {"name": tool, "arguments": arguments}
            return await self._post(surface, f"{self.mcp}/tools/invoke", body, headers or {})
        return await self._mcp(surface, "tools/call", {"name": tool, "arguments": arguments}, headers or {})

    async def tools(self, surface: Surface = "modern", headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The tools by name, all pages."""
        tools: dict[str, Any] = {}
        cursor: str | None = None
        while True:
            page = await self._page(surface, cursor, headers or {})
            tools |= {tool["name"]: tool for tool in page["tools"]}
            cursor = page.get("nextCursor")
            if cursor is None:
                return tools

    async def post(self, url: str, body: Any) -> Called:
        """JSON-RPC to a path of its own."""
        return await self._post("rest", url, body, {})

    async def _page(self, surface: Surface, cursor: str | None, headers: Mapping[str, str]) -> dict[str, Any]:
        params = {} if cursor is None else {"cursor": cursor}
        if surface != "rest":
            page: dict[str, Any] = (await self._mcp(surface, "tools/list", params, headers)).result
            return page
        async with self._session.get(f"{self.mcp}/tools/list", params=params, headers=headers) as response:
            assert response.status == 200
            rest_page: dict[str, Any] = await response.json()
        return rest_page

    async def _mcp(self, surface: Surface, method: str, params: dict[str, Any], headers: Mapping[str, str]) -> Called:
        version = MODERN if surface == "modern" else LEGACY
        named = {"MCP-Protocol-Version": version, "Accept": "application/json, text/event-stream"}
        if surface == "modern":
            named["Mcp-Method"] = method
            if "name" in params:
                named["Mcp-Name"] = params["name"]
            params = {**params, "_meta": _META}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self._post(surface, self.mcp, message, {**named, **headers})

    async def _post(self, surface: Surface, url: str, body: Any, headers: Mapping[str, str]) -> Called:
        async with self._session.post(url, json=body, headers=headers) as response:
            return Called(surface, response.status, response.headers, await response.text())


_AMPLE: Final = ("limits.invocation=100000/second", "limits.concurrent=10000")
"""What lets a test be many callers although it has one address."""


_TRANSPORT: Final[ContextVar[str]] = ContextVar("transport", default="lean")


@contextmanager
def transport_of_gateways(name: str) -> Iterator[None]:
    """Let gateways that are made within use this HTTP client towards the service: ``lean``, or ``session``. The latter
    serves proxies, so the service is its own: a server takes the absolute form of a request (RFC 9112 §3.2.2)."""
    token = _TRANSPORT.set(name)
    try:
        yield
    finally:
        _TRANSPORT.reset(token)


def ground(url: str, *settings: str) -> list[str]:
    """What a gateway before ``url`` starts from: free ports, and open to all unless ``settings`` say who may call and
    how often."""
    auth = () if any(setting.startswith("auth.") for setting in settings) else ("auth.mode=off",)
    proxy = [f"backend.proxy={URL(url).origin()}"] if _TRANSPORT.get() == "session" else []
    return [f"backend.url={url}", "server.port=0", "server.admin_port=0", *proxy, *_AMPLE, *auth, *settings]


async def built(settings: ServiceSettings) -> Service:
    """A service with a store of its own, not started. Close it."""
    return await Service.build(settings, BuildContext(await ServiceFiles.read(settings), MemoryStore(), (b"s" * 32,)))


@asynccontextmanager
async def front(
    url: str, *settings: str, file: Path | None = None, store: ServerStore | None = None
) -> AsyncIterator[Front]:
    """A gateway before the JSON-RPC endpoint ``url``; ``settings`` are section.knob=value, beside those in ``file``.
    Without one of auth it is open to all."""
    async with served(load_settings(file, ground(url, *settings), environ={}), store) as client:
        gateway = gateway_of(client)
        yield Front(gateway.port, client.session, gateway)
