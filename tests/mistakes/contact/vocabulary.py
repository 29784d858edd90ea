"""The words by which tables name stand-ins: a function of this file, alone or with what it is given.

there: listed
there: {page: {title: Not Found, status: 404}}
there: {by_verb: {get: {page: {title: It works}}, post: hanging}}
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final

from tests.mistakes.contact.stand_ins import Answering, Asked, Http, Raw, Reply, StandIn, Talking

_UNKNOWN: Final = {"code": -32601, "message": "Method not found"}
_WEATHER: Final = {"name": "Weather", "version": "2.1.0"}


def stand_in(word: Any) -> StandIn:
    """Return what a word stands for. Raise ValueError for one that is not known, TypeError for what it is not given."""
    made = _made(word)
    return made if isinstance(made, Http | Raw) else Http(made)


def _made(word: Any) -> Any:
    name, given = next(iter(word.items())) if isinstance(word, dict) and len(word) == 1 else (word, {})
    if not isinstance(name, str) or name not in WORDS:
        raise ValueError(f"there is no stand-in {name!r}; there are {', '.join(WORDS)}")
    return WORDS[name](*given) if isinstance(given, list) else WORDS[name](**given)


# Answers in HTTP


def reply(
    body: Any = "",
    status: int = 200,
    type: str = "application/json",
    headers: Mapping[str, str] | None = None,
    encoding: str = "utf-8",
) -> Answering:
    """Return one answer for all. A body that is no text is sent as JSON; with latin-1, a character is a byte."""
    text = body if isinstance(body, str) else json.dumps(body)
    made = Reply(text.encode(encoding), status, type, headers or {})
    return lambda _: made


def page(**given: Any) -> Answering:
    """Return a page: the arguments are those of :func:`_html`."""
    made = _html(**given)
    return lambda _: made


def _html(title: str, text: str = "", status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """Return a page with a title; ``text`` is HTML below it."""
    body = f"<!doctype html><html><head><title>{title}</title></head><body><h1>{title}</h1>{text}</body></html>"
    return Reply(body, status, "text/html", headers or {})


def gzipped(text: str) -> Answering:
    """Return an answer that is compressed, and does not say so."""
    made = Reply(gzip.compress(text.encode(), mtime=0))
    return lambda _: made


def redirect_to_itself(status: int = 302, headers: Mapping[str, str] | None = None) -> Answering:
    """Return a redirect to the path that is asked for."""
    return lambda asked: Reply("", status, headers={"Location": asked.path, **(headers or {})})


async def _hang(_: Asked) -> Reply:
    """Never answer."""
    await asyncio.Event().wait()
    raise AssertionError("nobody sets the event")


def at(pages: Mapping[str, Any], otherwise: Any = None) -> Answering:
    """Return an answer for each path; elsewhere there is nothing, unless ``otherwise`` says more."""
    made = {path: _made(word) for path, word in pages.items()}
    nothing = _made(otherwise or {"page": {"title": "Not Found", "status": 404}})
    return lambda asked: made.get(asked.path, nothing)(asked)


def by_verb(get: Any, post: Any) -> Answering:
    """Return an answer for GET, and one for all else."""
    to_get, to_post = _made(get), _made(post)
    return lambda asked: (to_get if asked.verb == "GET" else to_post)(asked)


def wanting(header: str, value: str, otherwise: Any) -> Answering:
    """Return a sound service for requests that have this in that header."""
    sound, refusal = listed(), _made(otherwise)
    return lambda asked: (sound if value in asked.headers.get(header, "") else refusal)(asked)


# Answers in JSON-RPC


def rpc(results: Mapping[str, Any] | None = None, error: Mapping[str, Any] = _UNKNOWN) -> Callable[[Asked], Reply]:
    """Return a JSON-RPC endpoint: a result for each of these methods, and the error for others."""
    known = results or {}

    def answer(asked: Asked) -> Reply:
        message = asked.message
        if asked.verb != "POST":
            return _html("Method Not Allowed", status=405)
        if not isinstance(message, dict):
            return Reply({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})
        found = message.get("method")
        said = {"result": known[found]} if found in known else {"error": error}
        return Reply({"jsonrpc": "2.0", "id": message.get("id"), **said})

    return answer


def listed(*methods: str, **more: str) -> Callable[[Asked], Reply]:
    """Return a sound service, which lists these methods as OpenRPC; each has ``more``, too."""
    described = [
        {"name": name, "params": [], "result": {"name": "r", "schema": {}}, **more} for name in methods or ("ping",)
    ]
    return rpc({"rpc.discover": {"openrpc": "1.2.6", "info": {"title": "Shop", "version": "1"}, "methods": described}})


@cache
def _huge() -> Callable[[Asked], Reply]:
    """Return a service whose listing is larger than is read. It is made once, and when it is first asked."""
    return listed("shop.sell", description="x" * (17 * 2**20))


def after(text: str, type: str = "application/json") -> Answering:
    """Return a sound service whose answers begin with a text."""
    sound = listed()
    return lambda asked: Reply(text + json.dumps(sound(asked).body), 200, type)


def one_error(error: Mapping[str, Any], status: int = 200) -> Callable[[Asked], Reply]:
    """Return an endpoint with one error for all questions, GET and batches, too."""

    def answer(asked: Asked) -> Reply:
        id_ = asked.message.get("id") if isinstance(asked.message, dict) else None
        return Reply({"jsonrpc": "2.0", "id": id_, "error": error}, status)

    return answer


def batches() -> Answering:
    """Return an endpoint that takes batches alone."""
    refusal = one_error({"code": -32600, "message": "Batch request expected"})

    def answer(asked: Asked) -> Reply:
        if not isinstance(asked.message, list):
            return refusal(asked)
        return Reply([{"jsonrpc": "2.0", "id": one.get("id"), "error": _UNKNOWN} for one in asked.message])

    return answer


def mcp(refusal: Any, stream: bool = False, server: Mapping[str, str] = _WEATHER) -> Answering:
    """Return an MCP server: it refuses all but a sound `initialize`, and answers that in an event stream if it must."""
    result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": server}
    refused = _made(refusal)

    def answer(asked: Asked) -> Reply | Awaitable[Reply]:
        message = asked.message
        if asked.verb != "POST" or not isinstance(message, dict) or message.get("method") != "initialize":
            return refused(asked)
        said = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        if not stream:
            return Reply(said)
        event = f"event: message\ndata: {json.dumps(said)}\n\n"
        return Reply(event, type="text/event-stream", headers={"Mcp-Session-Id": "s-1"})

    return answer


# Servers


def tls(names: Sequence[str], answer: Any = "listed", expired: bool = False, clients: bool = False) -> Http:
    """Return a server with TLS and a certificate for these names."""
    return Http(_made(answer), names=tuple(names), expired=expired, clients=clients)


def websocket(answer: Any) -> Http:
    """Return a server of WebSockets that answers so where none is asked for."""
    return Http(_made(answer), socket=True)


def greeting(first: str, then: str = "", waits: bool = False) -> Raw:
    """Return a server that sends ``first`` as a client connects (``waits``: once it has read a line), and ``then``
    after each line. A character is a byte."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if waits:
            await reader.readline()
        writer.write(first.encode("latin-1"))
        await writer.drain()
        while then and await reader.readline():
            writer.write(then.encode("latin-1"))
            await writer.drain()

    return Raw(talk)


async def _mute(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Read until the client has had enough."""
    await reader.read()


async def _drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send an answer byte by byte."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 4000\r\n\r\n")
    while not reader.at_eof():
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.5)


async def _language_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer as a language server does: it reads headers, and our request line is none."""
    await reader.readuntil(b"\r\n\r\n")
    body = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'
    writer.write(
        b"Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf8\r\n\r\n%s" % (len(body), body)
    )
    await writer.drain()
    await reader.read()


_TALKS: Final[Mapping[str, Talking]] = {"mute": _mute, "drip": _drip, "language_server": _language_server}
_MAKERS: Final[Sequence[Callable[..., Any]]] = (
    *(reply, page, gzipped, redirect_to_itself, at, by_verb, wanting),
    *(rpc, listed, after, one_error, batches, mcp, tls, websocket, greeting),
)
WORDS: Final[Mapping[str, Callable[..., Any]]] = {
    **{maker.__name__: maker for maker in _MAKERS},
    **{name: partial(Raw, talk) for name, talk in _TALKS.items()},
    "hanging": lambda: _hang,
    "huge_listing": lambda: lambda asked: _huge()(asked),
}
