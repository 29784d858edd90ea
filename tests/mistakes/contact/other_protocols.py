"""The URL leads to something that speaks another protocol, or JSON-RPC over something else than HTTP POST."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from tests.mistakes.contact.row import Contact
from tests.mistakes.contact.stand_ins import Asked, Http, Raw, Reply, always, at, greeting, html, rpc

_INFO: Final = {
    "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
    "serverInfo": {"name": "Weather", "version": "2.1.0"},
}  # fmt: skip
_NOT_ACCEPTABLE: Final = "Not Acceptable: Client must accept both application/json and text/event-stream"


def _mcp(refusal: Reply, *, stream: bool = False) -> Http:
    """Return an MCP server: it refuses all but a sound `initialize`."""

    def answer(asked: Asked) -> Reply:
        message = asked.message
        if asked.verb != "POST" or not isinstance(message, dict) or message.get("method") != "initialize":
            return refusal
        said = {"jsonrpc": "2.0", "id": message["id"], "result": _INFO}
        if not stream:
            return Reply(said)
        return Reply(
            f"event: message\ndata: {json.dumps(said)}\n\n", type="text/event-stream", headers={"Mcp-Session-Id": "s-1"}
        )

    return Http(answer)


def _error(code: int, message: str, status: int = 200, id: Any = "server-error") -> Reply:
    return Reply({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}, status)


_GRAPHQL: Final = "GraphQL operations must contain a non-empty `query` or a `persistedQuery` extension."
_FAULT: Final = (
    '<?xml version="1.0"?><methodResponse><fault><value><struct><member><name>faultCode</name><value><int>1</int>'
    "</value></member><member><name>faultString</name><value><string>syntax error: line 1, column 0</string>"
    "</value></member></struct></value></fault></methodResponse>"
)
_SOAP: Final = (
    '<?xml version="1.0"?><soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body><soap:Fault>'
    "<faultcode>soap:Client</faultcode><faultstring>Bad Request</faultstring></soap:Fault></soap:Body></soap:Envelope>"
)
_OPENAPI: Final = Reply({"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "paths": {"/books": {}}})
_SWAGGER: Final = Reply({"swagger": "2.0", "info": {"title": "Old shop", "version": "1"}, "paths": {}})


async def _content_length(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer as a language server does: it reads headers, and our request line is none."""
    await reader.readuntil(b"\r\n\r\n")
    body = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'
    writer.write(
        b"Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf8\r\n\r\n%s" % (len(body), body)
    )
    await writer.drain()
    await reader.read()


async def _content_length_alone(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()
    body = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}'
    writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    await writer.drain()


_DIRECT: Final = "directly"

MCP: Final = (
    Contact("An MCP server that wants an event stream.", _mcp(_error(-32000, _NOT_ACCEPTABLE, 406)),
            "MCP server already: Weather 2.1.0", _DIRECT, "http://<host>/mcp"),
    Contact("An MCP server that wants a session.",
            _mcp(_error(-32000, "Bad Request: Missing session ID", 400), stream=True),
            "MCP server already: Weather 2.1.0", _DIRECT, "http://<host>/mcp"),
    Contact("An MCP server that is not initialized.", _mcp(_error(-32002, "Server not initialized")),
            "MCP server already: Weather 2.1.0", _DIRECT, "http://<host>/mcp"),
    Contact("An MCP server that knows none of our methods.", Http(rpc({"initialize": _INFO})),
            "MCP server already: Weather 2.1.0", _DIRECT, "http://<host>/mcp"),
    Contact("An MCP server that answers 406 with a page.", _mcp(html("406 Not Acceptable", 406), stream=True),
            "MCP server already: Weather 2.1.0", _DIRECT, "http://<host>/mcp"),
)  # fmt: skip

WEB: Final = (
    Contact("A REST API of FastAPI.", at({"/openapi.json": _OPENAPI}, Reply({"detail": "Not Found"}, 404)),
            "OpenAPI", "OpenAPI", "http://<host>/api/books"),
    Contact("A REST API with Swagger.", at({"/swagger.json": _SWAGGER}, Reply({"message": "no such resource"}, 404)),
            "OpenAPI", "OpenAPI", "http://<host>/v1"),
    Contact("The address of the OpenAPI document itself.", at({"/openapi.json": _OPENAPI}, html("404", 404)),
            "OpenAPI", "OpenAPI", "http://<host>/openapi.json"),
    Contact("A REST API that welcomes everybody.", always({"message": "Welcome to the shop", "version": "3.1"}),
            "REST", "JSON-RPC endpoint", "http://<host>/"),
    Contact("A REST API that does not take POST.", always({"detail": 'Method "POST" not allowed.'}, 405),
            "REST", "JSON-RPC endpoint", "http://<host>/books/"),
    Contact("A REST API that wants other members.", always({"errors": {"title": ["This field is required."]}}, 400),
            "This field is required", "JSON-RPC endpoint", "http://<host>/books/"),
    Contact("A REST API whose errors look like JSON-RPC.", always({"error": {"code": 404, "message": "no such route"}}),
            "no such route", "JSON-RPC endpoint", "http://<host>/v2"),
    Contact("An API with actions in the body.", always({"error": "unknown action"}),
            "unknown action", "JSON-RPC endpoint", "http://<host>/api.php"),
    Contact("GraphQL that misses its query.", always({"errors": [{"message": "Must provide query string."}]}, 400),
            "GraphQL", "JSON-RPC", "http://<host>/graphql"),
    Contact("GraphQL of Apollo.", always(_GRAPHQL, 400, "text/plain"), "GraphQL", "JSON-RPC", "http://<host>/"),
    Contact("GraphQL that answers 200.", always({"data": None, "errors": [
                {"message": "Unknown operation", "locations": [{"line": 1, "column": 1}]}]}),
            "GraphQL", "JSON-RPC", "http://<host>/query"),
    Contact("SOAP.", always(_SOAP, 500, "text/xml"), "SOAP", "JSON-RPC", "http://<host>/services/Shop"),
    Contact("SOAP 1.2.", always(_SOAP.replace("schemas.xmlsoap.org/soap/envelope/", "www.w3.org/2003/05/soap-envelope"),
                                400, "application/soap+xml"),
            "SOAP", "JSON-RPC", "http://<host>/ws"),
    Contact("XML-RPC.", always(_FAULT, 200, "text/xml"), "XML-RPC", "JSON-RPC", "http://<host>/RPC2"),
    Contact("XML-RPC with another content type.", always(_FAULT, 200, "application/xml"), "XML-RPC", "JSON-RPC",
            "http://<host>/xmlrpc.php"),
    Contact("gRPC-Web.", always("", 415, "text/plain", {"grpc-status": "3", "grpc-message": "invalid content-type"}),
            "gRPC", "JSON-RPC", "http://<host>/"),
)  # fmt: skip

SOCKETS: Final = (
    Contact("A WebSocket that says so.", Http(lambda _: Reply("Upgrade Required", 426, "text/plain"), socket=True),
            "WebSocket", "Set backend.url to ws://<host>/", "http://<host>/"),
    Contact("A WebSocket whose POST is not found.", Http(lambda _: html("Not Found", 404), socket=True),
            "WebSocket", "Set backend.url to ws://<host>/", "http://<host>/"),
    Contact("A WebSocket whose POST is a bad request.",
            Http(lambda _: Reply('Can "Upgrade" only to "WebSocket".', 400, "text/plain"), socket=True),
            "WebSocket", "Set backend.url to ws://<host>/websocket", "http://<host>/websocket"),
    Contact("A WebSocket whose POST is not allowed.", Http(lambda _: html("Method Not Allowed", 405), socket=True),
            "WebSocket", "Set backend.url to ws://<host>/api/current", "http://<host>/api/current"),
    Contact("JSON-RPC by lines.",
            greeting(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}\r\n',
                                           waits=True),
            "JSON-RPC without HTTP", "Set backend.url to tcp://<host>", "http://<host>/"),
    Contact("JSON-RPC 1.0 without an end of lines.", greeting(b'{"id":"echo","method":"echo","params":[]}'),
            "JSON-RPC without HTTP", "Set backend.url to tcp://<host>", "http://<host>/"),
    Contact("A language server.", Raw(_content_length), "Content-Length", "docs/transports.md", "http://<host>/"),
    Contact("A build server.", Raw(_content_length_alone), "Content-Length", "docs/transports.md", "http://<host>/"),
    Contact("An SSH server.", greeting(b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n"), "SSH-2.0-OpenSSH_9.2p1",
            "backend.url", "http://<host>/"),
    Contact("A mail server.",
            greeting(b"220 mail.example.com ESMTP Postfix\r\n", b"502 5.5.2 Error: command not recognized\r\n"),
            "220 mail.example.com ESMTP Postfix", "backend.url", "http://<host>/"),
    Contact("A database.", greeting(b"J\x00\x00\x00\n8.0.36\x00\x08\x00\x00\x00abcdefgh\x00mysql_native_password\x00"),
            "mysql_native_password", "backend.url", "http://<host>/"),
    Contact("A text protocol.", greeting(b"-ERR unknown command 'POST'\r\n", waits=True), "-ERR unknown command",
            "backend.url", "http://<host>/"),
    Contact("A port that closes at once.", greeting(b""), "the connection ended before the answer", "backend.url",
            "http://<host>/"),
)  # fmt: skip

ROWS: Final = (*MCP, *WEB, *SOCKETS)
