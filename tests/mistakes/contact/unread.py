"""First contacts thought up by somebody who had not read how the gateway finds causes: what answers in HTTP."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable
from typing import Any, Final

from tests.mistakes.contact.row import Contact
from tests.mistakes.contact.stand_ins import Asked, Http, Reply, always, at, html, listed, refusing, rpc

_ROOT: Final = "http://<host>/"
_TEXT: Final = "text/plain"


def _page(title: str, text: str = "", status: int = 200, **headers: str) -> Reply:
    body = f"<!DOCTYPE html><html><head><title>{title}</title></head><body><h1>{title}</h1><p>{text}</p></body></html>"
    return Reply(body, status, "text/html", {name.replace("_", "-"): value for name, value in headers.items()})


def _by_verb(post: Reply, get: Reply) -> Http:
    return Http(lambda asked: get if asked.verb == "GET" else post)


def _one_error(code: int, message: str, data: Any = None, status: int = 200) -> Callable[[Asked], Reply]:
    """Return an endpoint with one error for all questions, GET and batches, too."""
    error = {"code": code, "message": message, **({} if data is None else {"data": data})}

    def answer(asked: Asked) -> Reply:
        id_ = asked.message.get("id") if isinstance(asked.message, dict) else None
        return Reply({"jsonrpc": "2.0", "id": id_, "error": error}, status)

    return answer


def _batches(asked: Asked) -> Reply:
    if not isinstance(asked.message, list):
        return _one_error(-32600, "Batch request expected")(asked)
    unknown = {"code": -32601, "message": "Method not found"}
    return Reply([{"jsonrpc": "2.0", "id": one.get("id"), "error": unknown} for one in asked.message])


def _mcp(asked: Asked) -> Reply:
    """Answer as FastMCP does: an event stream for `initialize`, HTTP 400 for all else."""
    message = asked.message
    if asked.verb != "POST" or not isinstance(message, dict) or message.get("method") != "initialize":
        error = {"code": -32600, "message": "Bad Request: Missing session ID"}
        return Reply({"jsonrpc": "2.0", "id": "server-error", "error": error}, 400)
    info = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "weather", "version": "3.1"}}
    said = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": info})
    return Reply(f"event: message\ndata: {said}\n\n", 200, "text/event-stream", {"Mcp-Session-Id": "abc"})


def _sse(asked: Asked) -> Reply:
    """Answer as an MCP server of 2024-11-05 does."""
    if asked.path == "/sse" and asked.verb == "GET":
        return Reply("event: endpoint\ndata: /messages/?session_id=1\n\n", 200, "text/event-stream")
    return Reply("Method Not Allowed", 405, _TEXT) if asked.path == "/sse" else Reply("Not Found", 404, _TEXT)


async def _silent(asked: Asked) -> Reply:
    if asked.verb == "POST":
        await asyncio.sleep(60)
    return html("It works", 200)


_GRAPHQL: Final = {"extensions": {"path": "$", "code": "validation-failed"}, "message": 'key "query" was not present'}
_CONFLICT: Final = Reply("<h1>409: Conflict</h1><p>Your request had an invalid session-id header.</p>", 409,
                         "text/html", {"X-Transmission-Session-Id": "AbC"})  # fmt: skip
_WEB: Final = Reply("", 301, headers={"Location": "/transmission/web/"})
_OPENAPI: Final = Reply({"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "paths": {"/items": {}}})
_SWAGGER: Final = Reply({"swagger": "2.0", "info": {"title": "Petstore", "version": "1"}, "paths": {}})
_SWAGGER_UI: Final = Reply('<!DOCTYPE html><html><head><title>Swagger UI</title><link href="swagger-ui.css"></head>'
                           '<body><div id="swagger-ui"></div></body></html>', 200, "text/html")  # fmt: skip
_EMPTY_405: Final = Reply("", 405, _TEXT)
_STATUS: Final = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden",
                  "message": 'forbidden: User "system:anonymous" cannot post path "/"'}  # fmt: skip
_SOAP_415: Final = ("Cannot process the message because the content type 'application/json' was not the expected type "
                    "'application/soap+xml; charset=utf-8'.")  # fmt: skip
_LOGIN: Final = '<form action="/login" method="post"><input name="user"><input type="password" name="password"></form>'

QUOTED: Final = (
    Contact("Jenkins wants a crumb.",
            _by_verb(_page("Error 403 No valid crumb was included in the request", status=403), _page("Jenkins")),
            "No valid crumb", "send.headers", _ROOT),
    Contact("Rails wants an authenticity token.",
            _by_verb(_page("The change you wanted was rejected (422)", "ActionController::InvalidAuthenticityToken",
                           422), _page("Shop")),
            "InvalidAuthenticityToken", "send.headers", _ROOT),
    Contact("qBittorrent does not take the Origin.",
            _by_verb(Reply("Forbidden: Origin header mismatch", 403, _TEXT), _page("qBittorrent Web UI")),
            "Origin header mismatch", "send.headers", _ROOT),
    Contact("Bad requests with a reason.", always("unsupported protocol version: want 3", 400, _TEXT),
            "want 3", "at the service", _ROOT),
    Contact("Access by address, in words of its own.", always("Access from 127.0.0.1 is not in allow_ip", 403, _TEXT),
            "is not in allow_ip", "Allow this machine", _ROOT),
    Contact("Not initialized.", Http(_one_error(-32002, "Server not initialized")), "Server not initialized",
            "at the service", _ROOT),
    Contact("bitcoind loads its blocks.", Http(_one_error(-28, "Loading block index...", status=500)),
            "Loading block index", "again", _ROOT),
    Contact("Odoo's session expired.", Http(_one_error(100, "Odoo Session Expired", {"name": "SessionExpired"})),
            "Odoo Session Expired", "backend.credentials", _ROOT),
    Contact("Zabbix tells its reason as data.", Http(_one_error(-32602, "Invalid params.", "Not authorized.")),
            "Not authorized", "backend.credentials", _ROOT),
    Contact("A provider wants its key.", Http(_one_error(-32600, "Must be authenticated!", status=401)),
            "Must be authenticated", "backend.credentials", _ROOT),
    Contact("Batches alone.", Http(_batches), "Batch request expected", "at the service", _ROOT),
    Contact("A plan is used up.", Http(_one_error(-32005, "daily request count exceeded, request rate limited")),
            "request rate limited", "again", _ROOT),
    Contact("Unknown methods in JSON-RPC 1.0.", always(
                {"result": None, "error": {"code": -32601, "message": "Method not found"}, "id": None}, 404),
            "does not list", "static", _ROOT),
    Contact("Deluge without its cookie.", Http(_one_error(1, "Not authenticated")), "Not authenticated",
            "backend.credentials", _ROOT),
    Contact("aria2 without its secret.", Http(_one_error(1, "Unauthorized", status=400)), "Unauthorized",
            "backend.credentials", _ROOT),
    Contact("A license server in German.", Http(refusing("Lizenz abgelaufen", 17)), "Lizenz abgelaufen",
            "at the service", _ROOT),
)  # fmt: skip

OTHERS: Final = (
    Contact("An array for every question.", always([1, 2, 3]), "[1, 2, 3]", "JSON-RPC endpoint", _ROOT),
    Contact("A string for every question.", always('"ok"'), '"ok"', "JSON-RPC endpoint", _ROOT),
    Contact("Nothing with HTTP 204.", always("", 204), "HTTP 204", "JSON-RPC endpoint", _ROOT),
    Contact("Caddy without a site.", always("", 200, _TEXT, {"Server": "Caddy"}), "empty", "JSON-RPC endpoint", _ROOT),
    Contact("FastMCP from the root.", at({"/mcp": _mcp}, Reply("Not Found", 404, _TEXT)), "weather 3.1", "directly",
            _ROOT),
    Contact("An MCP server of the first revision.", Http(_sse), "MCP server", "directly", "http://<host>/sse"),
    Contact("Elasticsearch.",
            _by_verb(Reply({"error": "Incorrect HTTP method for uri [/] and method [POST]", "status": 405}, 405),
                     Reply({"name": "n1", "cluster_name": "c", "tagline": "You Know, for Search"})),
            "REST", "JSON-RPC", _ROOT),
    Contact("Docker.", always({"message": "page not found"}, 404), "page not found", "JSON-RPC endpoint", _ROOT),
    Contact("Kubernetes.", always(_STATUS, 403), "system:anonymous", "credentials", _ROOT),
    Contact("FastAPI from the root.",
            Http(lambda asked: _OPENAPI if (asked.verb, asked.path) == ("GET", "/openapi.json")
                 else Reply({"detail": "Method Not Allowed"}, 405)),
            "OpenAPI", "OpenAPI", _ROOT),
    Contact("Swagger's page.", _by_verb(_EMPTY_405, _SWAGGER_UI), "OpenAPI", "OpenAPI", _ROOT),
    Contact("Swagger's document.", _by_verb(_EMPTY_405, _SWAGGER), "OpenAPI", "OpenAPI", "http://<host>/swagger.json"),
    Contact("Hasura, with 200.", always({"errors": [_GRAPHQL]}), "GraphQL", "GraphQL", "http://<host>/v1/graphql"),
    Contact("Apollo refuses a simple request.", always({"errors": [{"message":
                "This operation has been blocked as a potential Cross-Site Request Forgery (CSRF).",
                "extensions": {"code": "BAD_REQUEST"}}]}, 400),
            "GraphQL", "GraphQL", "http://<host>/graphql"),
    Contact("SOAP behind a page.",
            _by_verb(Reply('<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body><soap:Fault>'
                           "<faultstring>Unmarshalling Error</faultstring></soap:Fault></soap:Body></soap:Envelope>",
                           500, "text/xml"), _page("CXF - Service list")),
            "SOAP", "SOAP", _ROOT),
    Contact("SOAP 1.2 wants its type.", always(_SOAP_415, 415, _TEXT), "SOAP", "SOAP", _ROOT),
    Contact("Python's XML-RPC.",
            _by_verb(Reply("<?xml version='1.0'?><methodResponse><fault><value><string>ExpatError: not well-formed"
                           "</string></value></fault></methodResponse>", 200, "text/xml"),
                     html("Unsupported method", 501)),
            "XML-RPC", "XML-RPC", _ROOT),
    Contact("WordPress' XML-RPC.",
            _by_verb(Reply("<methodResponse><fault><value><string>parse error. not well formed</string></value></fault>"
                           "</methodResponse>", 200, "text/xml"),
                     Reply("XML-RPC server accepts POST requests only.", 405)),
            "XML-RPC", "XML-RPC", "http://<host>/xmlrpc.php"),
    Contact("Transmission from the root.", at({"/transmission/rpc": _CONFLICT}, _WEB), "Transmission", "Transmission",
            _ROOT),
    Contact("Transmission's own path.", at({"/transmission/rpc": _CONFLICT}), "Transmission", "Transmission",
            "http://<host>/transmission/rpc"),
    Contact("Nethermind.", Http(rpc({"web3_clientVersion": "Nethermind/v1.25.4/linux-x64/dotnet8.0.2"})),
            "Nethermind/v1.25.4", "OpenRPC", _ROOT),
    Contact("S3.", always("<Error><Code>MethodNotAllowed</Code><Message>The specified method is not allowed.</Message>"
                          "</Error>", 405, "application/xml"),
            "HTTP 405", "JSON-RPC endpoint", _ROOT),
    Contact("GET alone.", _by_verb(_EMPTY_405, Reply({"jsonrpc": "2.0", "id": None,
                                                      "error": {"code": -32600, "message": "method is missing"}})),
            "HTTP 405", "JSON-RPC endpoint", _ROOT),
    Contact("An exporter of metrics.", _by_verb(_EMPTY_405, Reply("# HELP up\n# TYPE up gauge\nup 1\n", 200, _TEXT)),
            "HTTP 405", "JSON-RPC endpoint", _ROOT),
)  # fmt: skip

BETWEEN: Final = (
    Contact("A front end has another name in mind.",
            always("the requested host name does not match the Server Name Indication (SNI) in use", 421, _TEXT),
            "Server Name Indication", "name", _ROOT),
    Contact("Squid denies.", always("<title>ERROR: The requested URL could not be retrieved</title>Access Denied.", 403,
                                    "text/html", {"X-Squid-Error": "ERR_ACCESS_DENIED 0", "Via": "1.1 squid"}),
            "roxy", "roxy", _ROOT),
    Contact("Cloudflare does not reach the service.",
            Http(lambda _: _page("example.com | 522: Connection timed out", status=522, Server="cloudflare")),
            "HTTP 522", "behind", _ROOT),
    Contact("406 without a word.", always("", 406), "HTTP 406", "JSON-RPC endpoint", _ROOT),
    Contact("415 without a word.", always("", 415), "HTTP 415", "backend.content_type", _ROOT),
    Contact("IIS with NTLM and Negotiate.", always("", 401, _TEXT, {"WWW-Authenticate": "NTLM, Negotiate"}), "NTLM",
            "Basic", _ROOT),
    Contact("Negotiate or Basic.", always("", 401, _TEXT, {"WWW-Authenticate": 'Negotiate, Basic realm="x"'}),
            "Basic", "mode: basic", _ROOT),
    Contact("An API key as the scheme.", always("", 401, _TEXT, {"WWW-Authenticate": "ApiKey"}), "ApiKey",
            "backend.credentials", _ROOT),
    Contact("A warning of PHP in a page.", always('<br />\n<b>Warning</b>:  Undefined array key "x" in <b>/rpc.php</b>'
                ' on line <b>7</b><br />\n{"jsonrpc": "2.0", "id": 1, "result": []}', 200, "text/html"),
            "Undefined array key", "display_errors", _ROOT),
    Contact("gzip without its header.", always(gzip.compress(b'{"jsonrpc":"2.0","id":1,"result":[]}', mtime=0)),
            "gzip", "Content-Encoding", _ROOT),
    Contact("zstd unasked, again.", always(b"\x28\xb5\x2f\xfd\x04\x00\x00", headers={"Content-Encoding": "zstd"}),
            "zstd", "Accept-Encoding", _ROOT),
    Contact("A BOM before an error.", always(b'\xef\xbb\xbf{"jsonrpc":"2.0","id":null,"error":{"code":-32601,'
                                             b'"message":"Method not found"}}'),
            "byte order mark", "without it", _ROOT),
    Contact("UTF-16.", always('{"jsonrpc":"2.0","id":1,"result":[]}'.encode("utf-16")), "UTF-16", "UTF-8", _ROOT),
    Contact("nginx welcomes.", _by_verb(html("405 Not Allowed", 405), html("Welcome to nginx!")),
            "no JSON-RPC endpoint at /", "JSON-RPC endpoint", _ROOT),
    Contact("nginx without its upstream.", Http(lambda _: html("502 Bad Gateway", 502)), "HTTP 502", "behind", _ROOT),
    Contact("Maintenance until later.", Http(lambda _: _page("Down for maintenance", "", 503, Retry_After="600")),
            "maintenance", "600 s", _ROOT),
    Contact("Too many requests.", always({"message": "API rate limit exceeded"}, 429, headers={"Retry-After": "30"}),
            "HTTP 429", "30 s", _ROOT),
    Contact("A page to sign in.", Http(lambda _: _page("Sign in · Portal", _LOGIN)), "login page",
            "backend.credentials", _ROOT),
    Contact("A portal of a hotel.", always("", 302, _TEXT, {"Location": "http://portal.hotel.example/welcome"}),
            "portal.hotel.example", "http://portal.hotel.example", _ROOT),
    Contact("Two redirects in a circle.", at({"/b": Reply("", 302, headers={"Location": "/"})},
                                             Reply("", 302, headers={"Location": "/b"})),
            "circle", "service", _ROOT),
    Contact("http was sent to nginx's TLS.", Http(lambda _: html("400 The plain HTTP request was sent to HTTPS port",
                                                                 400)),
            "HTTPS", "https://<host>/", _ROOT),
    Contact("http was sent to Go's TLS.", always("Client sent an HTTP request to an HTTPS server.\n", 400, _TEXT),
            "HTTPS", "https://<host>/", _ROOT),
    Contact("POST hangs.", Http(_silent), "does not answer in time", "backend.listing.timeout", _ROOT),
    Contact("A listing below another server's page.", at({"/api/v1/jsonrpc": listed()}, html("It works!", 200)),
            "/api/v1/jsonrpc is one", "http://<host>/api/v1/jsonrpc", _ROOT),
)  # fmt: skip

ROWS: Final = (*QUOTED, *OTHERS, *BETWEEN)
