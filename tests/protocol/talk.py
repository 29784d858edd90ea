"""Speaking to a gateway as a client of either era does, or byte by byte.

What the MCP endpoint answers to a :class:`Client` is checked against the official models each time.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from aiohttp import ClientSession
from multidict import CIMultiDict
from yarl import URL

from tests.protocol import official
from tests.protocol.official import LEGACY, MODERN, VERSION
from tests.protocol.streams import Stream, check_headers, events_of
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from aiohttp import ClientResponse

CLIENT: Final = "io.modelcontextprotocol/clientInfo"
CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
SERVER: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
SESSION: Final = "Mcp-Session-Id"

JSON: Final = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def meta(version: object = MODERN) -> dict[str, Any]:
    """The ``_meta`` of a modern request."""
    return {VERSION: version, CLIENT: {"name": "probe", "version": "1.0"}, CAPABILITIES: {}}


def request(method: str, params: Any = None, id: Any = 1) -> dict[str, Any]:
    """A JSON-RPC request; without ``params`` no such member."""
    return {"jsonrpc": "2.0", "id": id, "method": method} | ({} if params is None else {"params": params})


def modern_request(method: str, params: Mapping[str, Any] | None = None, id: Any = 1) -> dict[str, Any]:
    """Return a request as it should be; a ``_meta`` in ``params`` adds to the usual one."""
    given = params or {}
    return request(method, {**given, "_meta": {**meta(), **given.get("_meta", {})}}, id)


def modern_headers(method: str, name: object = None) -> dict[str, str]:
    """The standard headers (SEP-2243) of a request."""
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    return headers | ({"Mcp-Name": name} if isinstance(name, str) else {})


@dataclass(frozen=True)
class Answer:
    """What came back over HTTP."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        assert self.headers["Content-Type"].partition(";")[0] == "application/json", self
        return json.loads(self.body)

    @property
    def messages(self) -> Any:
        """Return the messages of a stream that has ended."""
        assert self.headers["Content-Type"] == "text/event-stream", self
        return [json.loads(line[6:]) for line in self.body.splitlines() if line.startswith(b"data: ")]

    @property
    def result(self) -> Any:
        assert self.status == 200, self
        assert "error" not in self.json, self
        return self.json["result"]

    @property
    def error(self) -> Any:
        assert "result" not in self.json, self
        return self.json["error"]

    @property
    def fault(self) -> tuple[int, Any]:
        """HTTP status and error code, which tests look at together."""
        return self.status, self.error["code"]


class Client:
    """One client of one gateway, of the service at ``mount`` where it has several."""

    def __init__(self, session: ClientSession, port: int, mount: str = "") -> None:
        self.port = port
        self.mount = mount
        self._session = session

    async def send(
        self,
        verb: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    ) -> Answer:
        """One exchange; ``path``, below the mount, goes out as it is."""
        sent: CIMultiDict[str] = CIMultiDict(headers)
        async with self.request(verb, path, body, sent) as answer:
            raw = await answer.read()
            if path.partition("?")[0] == "/mcp":
                _check(answer, raw, official.Asked(body, sent))
            return Answer(answer.status, answer.headers, raw)

    def request(self, verb: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Any:
        """An exchange whose body is not read yet, as aiohttp has it."""
        url = URL(f"http://127.0.0.1:{self.port}{self.mount}{path}", encoded=True)
        return self._session.request(verb, url, data=body, headers=headers)

    @asynccontextmanager
    async def stream(self, body: object = None, headers: Mapping[str, str] | None = None) -> AsyncIterator[Stream]:
        """The stream that answers a POST of ``body``, or a GET without one. It is hung up at the end."""
        raw = None if body is None else json.dumps(body).encode()
        sent: CIMultiDict[str] = CIMultiDict({**JSON, **(headers or {})})
        async with self.request("GET" if raw is None else "POST", "/mcp", raw, sent) as answer:
            stream = Stream(answer, official.Asked(raw, sent))
            try:
                yield stream
            finally:
                stream.close()

    def listen(self, notifications: Mapping[str, Any], id: Any = 1) -> AbstractAsyncContextManager[Stream]:
        """2026-07-28's ``subscriptions/listen``."""
        body = modern_request("subscriptions/listen", {"notifications": notifications}, id)
        return self.stream(body, modern_headers("subscriptions/listen"))

    async def has_room_for_a_stream(self) -> bool:
        """Whether one more stream is let in; it is hung up at once."""
        headers = CIMultiDict({"Accept": "text/event-stream", **legacy_headers(LEGACY[0])})
        async with self.request("GET", "/mcp", None, headers) as answer:
            answer.close()
            assert answer.status in (200, 429)
            return bool(answer.status == 200)

    async def initialize(self, version: str = LEGACY[0], capabilities: Mapping[str, Any] = MappingProxyType({})) -> str:
        """The id of a new session of an older era, whose client has these capabilities."""
        probe = {"name": "probe", "version": "1.0"}
        params = {"protocolVersion": version, "capabilities": dict(capabilities), "clientInfo": probe}
        answer = await self.legacy("initialize", params, version=None)
        assert answer.result["protocolVersion"] == version
        return answer.headers[SESSION]

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.send("GET", path, headers=headers)

    async def post(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> Answer:
        """JSON, or bytes that pretend to be."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.send("POST", path, raw, {**JSON, **(headers or {})})

    async def mcp(self, body: object, headers: Mapping[str, str] | None = None) -> Answer:
        return await self.post("/mcp", body, headers)

    async def modern(self, method: str, params: Mapping[str, Any] | None = None, id: Any = 1) -> Answer:
        """A request of 2026-07-28 as it should be."""
        name = (params or {}).get("name")
        return await self.mcp(modern_request(method, params, id), modern_headers(method, name))

    async def legacy(self, method: str, params: Any = None, id: Any = 1, version: str | None = LEGACY[0]) -> Answer:
        """A request of a legacy revision; without ``version`` there is no such header."""
        return await self.mcp(request(method, params, id), legacy_headers(version))

    async def speak(self, era: str, method: str, params: Mapping[str, Any] | None = None, id: Any = 1) -> Answer:
        """The same request in the era of a revision."""
        if era == MODERN:
            return await self.modern(method, params, id)
        return await self.legacy(method, params, id, era)


def legacy_headers(version: str | None, session: str | None = None) -> dict[str, str]:
    headers = {} if version is None else {"MCP-Protocol-Version": version}
    return headers if session is None else headers | {SESSION: session}


def _check(answer: ClientResponse, raw: bytes, asked: official.Asked) -> None:
    if answer.content_type == "text/event-stream":
        check_headers(answer)
        events_of(raw, asked)
    elif answer.status in (202, 204):
        assert raw == b""
    elif answer.content_type == "application/json":
        official.check_json(asked, raw)


async def exchange(port: int, sent: bytes) -> bytes:
    """All that comes back for these bytes until the gateway has nothing more to say: its answer has a length, and the
    wait for it is bounded."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(PATIENCE):
            writer.write(sent)
            await writer.drain()
            head = await reader.readuntil(b"\r\n\r\n")
            fields = dict(line.lower().split(b": ", 1) for line in head.splitlines()[1:] if line)
            return head + await reader.readexactly(int(fields.get(b"content-length", b"0")))
    finally:
        writer.transport.abort()


async def all_said(port: int, sent: bytes) -> bytes:
    """Everything that comes back until the gateway closes the connection; it must do so by itself."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(PATIENCE):
            writer.write(sent)
            return await reader.read()
    finally:
        writer.transport.abort()


def status_of(raw: bytes) -> int:
    return int(raw.split(b" ", 2)[1])
