"""Run the demo: a bookshop that lists its methods with ``rpc.discover``, and the gateway in front of it."""

import os
import socket
from typing import Any, Final

import click

from gateway import jsonrpc
from gateway.config.source import load_settings
from gateway.errors import GatewayError
from gateway.http_server.accepting import Bounds, Port, bind
from gateway.http_server.connection_limit import ConnectionLimit
from gateway.http_server.held_bytes import HeldBytes
from gateway.http_server.request import HttpRequest
from gateway.http_server.response import Response
from gateway.jsonrpc import BadMessage, Notification, Request
from gateway.process.server import Server
from gateway.process.signals import stop_on_signal
from gateway.web.exchange import raw_refusal

SERVICE_PORT: Final = 8000
ADMIN_PORT: Final = 9090
_TEXT, _COUNT, _NUMBER = ({"type": name} for name in ("string", "integer", "number"))
_COLUMNS: Final = {"isbn": _TEXT, "title": _TEXT, "author": _TEXT, "price": _NUMBER, "stock": _COUNT}
_BOOK: Final = {"type": "object", "properties": _COLUMNS, "required": list(_COLUMNS)}
_ORDER: Final = {"type": "object", "properties": {"order": _COUNT, "total": _NUMBER}, "required": ["order", "total"]}
_ISBN: Final = {
    "name": "isbn",
    "required": True,
    "description": "ISBN-13, digits only.",
    "schema": {"type": "string", "pattern": "^[0-9]{13}$"},
}
_WORDS: Final = {"name": "query", "required": True, "description": "Words to look for.", "schema": _TEXT}
_LIMIT: Final = {"name": "limit", "schema": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10}}
_COPIES: Final = {"name": "copies", "schema": {"type": "integer", "minimum": 1, "default": 1}}
_BOOK_REF: Final = {"$ref": "#/components/schemas/Book"}
_BOOKS: Final = {"type": "array", "items": _BOOK_REF}


def _method(name: str, summary: str, structure: str, params: list[Any], result: dict[str, Any]) -> dict[str, Any]:
    described = {"name": name, "summary": summary, "paramStructure": structure, "params": params}
    return {**described, "result": {"name": "result", "schema": result}}


DOCUMENT: Final[dict[str, Any]] = {
    "openrpc": "1.3.2",
    "info": {"title": "Bookshop", "version": "1.0.0"},
    "methods": [
        _method("books.search", "Find books by words of their title or author.", "by-name", [_WORDS, _LIMIT], _BOOKS),
        _method("books.get", "One book.", "by-position", [_ISBN], _BOOK_REF),
        _method("orders.create", "Order copies of a book.", "by-name", [_ISBN, _COPIES], _ORDER),
    ],
    "components": {"schemas": {"Book": _BOOK}},
}


class Bookshop:
    """Serve JSON-RPC 2.0 on ``POST /jsonrpc``."""

    def __init__(self) -> None:
        self._orders = 0
        books = (
            ("9780142437247", "Moby-Dick", "Herman Melville", 13.0, 7),
            ("9780141439518", "Pride and Prejudice", "Jane Austen", 9.5, 3),
            ("9780199535675", "Twenty Thousand Leagues Under the Sea", "Jules Verne", 11.0, 0),
        )
        self._books: dict[str, dict[str, Any]] = {row[0]: dict(zip(_COLUMNS, row, strict=True)) for row in books}

    async def listen(self, port: int) -> Port:
        """Serve at a port of loopback, 0 for any free one."""
        bounds = Bounds(1.0, 60.0, ConnectionLimit(100, lambda _: True), HeldBytes(2**26))
        return Port(await bind("127.0.0.1", port), self, bounds)

    async def __call__(self, request: HttpRequest) -> Response:
        if (request.method, request.path) != ("POST", "/jsonrpc"):
            return Response(status=404)
        body = b""
        while part := await request.read():
            body += part
        try:
            message = jsonrpc.parse_message(jsonrpc.decode(body))
        except (ValueError, BadMessage):
            return _json({"id": None, "error": {"code": -32700, "message": "Parse error"}})
        if not isinstance(message, Request | Notification):
            return Response(status=400)
        answer: dict[str, Any] = {"id": getattr(message, "id", None)}
        try:
            answer["result"] = self._dispatch(message.method, message.params)
        except LookupError as error:
            answer["error"] = {"code": 1001, "message": str(error.args[0])}
        return _json(answer)

    raw_refusal = staticmethod(raw_refusal)

    def refusal(self, _: HttpRequest, error: GatewayError) -> Response:
        return Response(status=error.status)

    def _dispatch(self, method: str, params: Any) -> Any:
        match method, params:
            case "rpc.discover", _:
                return DOCUMENT
            case "books.search", {"query": str(query)}:
                words = query.lower().split()
                books = self._books.values()
                found = [b for b in books if all(w in f"{b['title']} {b['author']}".lower() for w in words)]
                return found[: params.get("limit", 10)]
            case "books.get", [str(isbn)]:
                return self._book(isbn)
            case "orders.create", {"isbn": str(isbn)}:
                return self._order(self._book(isbn), params.get("copies", 1))
        raise LookupError("Method not found")

    def _book(self, isbn: str) -> dict[str, Any]:
        if isbn not in self._books:
            raise LookupError(f"There is no book with the ISBN {isbn}")
        return self._books[isbn]

    def _order(self, book: dict[str, Any], copies: int) -> dict[str, Any]:
        if copies > book["stock"]:
            raise LookupError(f"Only {book['stock']} copies of {book['title']} are left")
        book["stock"] -= copies
        self._orders += 1
        return {"order": self._orders, "total": copies * book["price"]}


def _json(members: dict[str, Any]) -> Response:
    return Response(jsonrpc.encode({"jsonrpc": "2.0", **members}))


async def run(port: int) -> None:
    """Serve until SIGTERM or SIGINT. Print a guide with commands to type."""
    service = await Bookshop().listen(free_or_any(SERVICE_PORT))
    url = f"http://127.0.0.1:{service.number}/jsonrpc"
    admin = 0 if port == ADMIN_PORT else free_or_any(ADMIN_PORT)
    ports = [f"server.port={free_or_any(port)}", f"server.admin_port={admin}"]
    gateway = Server(load_settings(None, [f"backend.url={url}", *ports, "auth.mode=off"], environ={}))
    await gateway.start()
    stop = stop_on_signal()
    try:
        await gateway.wait_until_listed()
        click.echo(_guide(url, f"http://127.0.0.1:{gateway.port}", f"http://127.0.0.1:{gateway.admin_port}"))
        await stop.wait()
    finally:
        await gateway.stop()
        await service.close()


def free_or_any(port: int) -> int:
    """Return the port, or 0 (any free one) if it is in use."""
    with socket.socket() as probe:
        if os.name == "posix":  # on Windows it would let two processes listen on one port
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port


def _guide(service: str, gateway: str, admin: str) -> str:
    return f"""\
Open in a browser                  {gateway}/
For who runs it                    {admin}/

A bookshop speaks JSON-RPC 2.0 at  {service}
The gateway speaks MCP for it at   {gateway}/mcp
Health is at                       {admin}/readyz

Type in another terminal:

  curl -s {gateway}/mcp/tools/list

  curl -s {gateway}/mcp/tools/invoke -H 'Content-Type: application/json' \\
    -d '{{"name": "books.search", "arguments": {{"query": "sea"}}}}'

  curl -s {gateway}/mcp/tools/books.get -H 'Content-Type: application/json' \\
    -d '{{"jsonrpc": "2.0", "id": 1, "method": "books.get", "params": ["9780142437247"]}}'

Or give {gateway}/mcp to any MCP client. Ctrl-C ends it.
"""
