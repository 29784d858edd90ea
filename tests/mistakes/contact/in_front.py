"""Something stands in front of the service, or the service refuses how it is asked: what it says is quoted."""

from __future__ import annotations

import asyncio
import json
from typing import Final

from tests.mistakes.contact.row import Contact
from tests.mistakes.contact.stand_ins import Asked, Http, Reply, always, html, listed, refusing, rpc

_JSON: Final = "application/json"
_DJANGO_CSRF: Final = html("CSRF verification failed. Request aborted.", 403)
_DJANGO_HOST: Final = Reply(
    "<html><head><title>DisallowedHost at /jsonrpc</title></head><body><h1>DisallowedHost</h1><pre>Invalid HTTP_HOST "
    "header: &#x27;shop.internal&#x27;. You may need to add &#x27;shop.internal&#x27; to ALLOWED_HOSTS.</pre>",
    400, "text/html",
)  # fmt: skip
_TRANSMISSION_HOST: Final = Reply(
    "<h1>421: Misdirected Request</h1><p>Transmission received your request, but the hostname was unrecognized.</p>",
    421, "text/html",
)  # fmt: skip
_TRANSMISSION: Final = Reply(
    "<h1>409: Conflict</h1><p>Your request had an invalid session-id header.</p>", 409, "text/html",
    {"X-Transmission-Session-Id": "b3f1c2"},
)  # fmt: skip
_CHALLENGE: Final = Reply(
    "<!DOCTYPE html><html><head><title>Just a moment...</title></head><body>Enable JavaScript and cookies to continue"
    "</body></html>", 403, "text/html", {"Server": "cloudflare", "cf-mitigated": "challenge", "CF-RAY": "8f1"},
)  # fmt: skip
_BLOCKED: Final = Reply(
    "<html><head><title>Attention Required! | Cloudflare</title></head><body><h1>Sorry, you have been blocked</h1>"
    "</body></html>", 403, "text/html", {"Server": "cloudflare", "CF-RAY": "8f1"},
)  # fmt: skip
_CHECKING: Final = Reply(
    "<html><head><title>shop.example.com</title></head><body>Checking your browser before accessing shop.example.com."
    "</body></html>", 503, "text/html", {"Server": "cloudflare"},
)  # fmt: skip
_WARNING: Final = (
    b"<br />\n<b>Warning</b>:  Undefined variable $user in <b>/var/www/api/index.php</b> on line <b>12</b><br />\n"
)
_NOTICE: Final = b"PHP Notice:  Undefined index: id in /srv/rpc.php on line 7\n"


def _after(text: bytes, type: str = _JSON) -> Http:
    """Return a service whose answers begin with this text."""

    def answer(asked: Asked) -> Reply:
        reply = listed()(asked)
        assert isinstance(reply, Reply)
        return Reply(text + json.dumps(reply.body).encode(), 200, type)

    return Http(answer)


def _coded(coding: str, data: bytes) -> Http:
    return always(data, 200, _JSON, {"Content-Encoding": coding})


def _wanting(header: str, value: str, reply: Reply) -> Http:
    """Return a service that answers so, unless a request has this in that header."""
    sound = listed()
    return Http(lambda asked: sound(asked) if value in asked.headers.get(header, "") else reply)


async def _hanging_get(asked: Asked) -> Reply:
    """Answer POST at once, and GET never, as Deluge does at /json."""
    if asked.verb == "GET":
        await asyncio.sleep(60)
    reply = listed()(asked)
    assert isinstance(reply, Reply)
    return reply


HOSTS: Final = (
    Contact("Django does not know the host name.", Http(lambda _: _DJANGO_HOST), "ALLOWED_HOSTS", "backend.url"),
    Contact("Geth does not know the host name.", always("invalid host specified\n", 403, "text/plain"),
            "invalid host specified", "backend.url"),
    Contact("Transmission does not know the host name.", Http(lambda _: _TRANSMISSION_HOST),
            "the hostname was unrecognized", "backend.url", "http://<host>/transmission/rpc"),
    Contact("A front end has no such host.",
            Http(lambda _: html("421 Misdirected Request", 421)), "Misdirected Request",
            "backend.url"),
)  # fmt: skip

BROWSERS: Final = (
    Contact("Django wants a CSRF token.", Http(lambda _: _DJANGO_CSRF), "CSRF verification failed",
            "backend.credentials.send.headers"),
    Contact("Laravel wants a CSRF token.", always({"message": "CSRF token mismatch."}, 419), "CSRF token mismatch",
            "backend.credentials.send.headers"),
    Contact("The Referer is checked.", always("Referer check failed", 403, "text/plain"), "Referer check failed",
            "backend.credentials.send.headers"),
    Contact("The Origin is checked.", always({"error": "Origin not allowed"}, 403), "Origin not allowed",
            "backend.credentials.send.headers"),
    Contact("A header of scripts is wanted.", always("Missing header X-Requested-With", 400, "text/plain"),
            "X-Requested-With", "backend.credentials.send.headers"),
    Contact("Cloudflare asks for a browser.", Http(lambda _: _CHALLENGE), "Cloudflare", "without a challenge"),
    Contact("Cloudflare blocks this machine.", Http(lambda _: _BLOCKED), "Cloudflare", "this machine"),
    Contact("Cloudflare checks the browser.", Http(lambda _: _CHECKING), "Cloudflare", "without a challenge"),
    Contact("Transmission wants its session id.", Http(lambda _: _TRANSMISSION), "X-Transmission-Session-Id",
            "docs/credentials.md", "http://<host>/transmission/rpc"),
    Contact("Transmission 3 does not speak JSON-RPC.",
            always({"arguments": {}, "result": "method name not recognized"}),
            "Transmission", "4.1", "http://<host>/transmission/rpc"),
)  # fmt: skip

TYPES: Final = (
    Contact("Another JSON type is wanted.", _wanting("content-type", "application/json-rpc",
                Reply("Content-Type must be application/json-rpc", 415, "text/plain")),
            "application/json-rpc", "backend.content_type: application/json-rpc"),
    Contact("Another JSON type is wanted, nobody says which.", _wanting("content-type", "application/json-rpc",
                html("415 Unsupported Media Type", 415)),
            "application/json", "backend.content_type"),
    Contact("The oldest JSON type is wanted.", _wanting("content-type", "application/jsonrequest",
                Reply({"error": "use application/jsonrequest"}, 415)),
            "application/jsonrequest", "backend.content_type: application/jsonrequest"),
    Contact("XML is wanted.", always("<error>Send text/xml</error>", 415, "text/xml"), "415", "JSON-RPC"),
    Contact("Answers are XML alone.", always("Only application/xml can be produced", 406, "text/plain"),
            "Only application/xml can be produced", "JSON-RPC"),
    Contact("brotli is sent unasked.", _coded("br", b"\x0b\x02\x80\x03"), "brotli", "compress"),
    Contact("zstd is sent unasked.", _coded("zstd", b"\x28\xb5\x2f\xfd\x04"), "zstd", "compress"),
    Contact("A warning of PHP stands before the JSON.", _after(_WARNING), "PHP", "display_errors"),
    Contact("A warning of PHP stands before the JSON, as a page.", _after(_WARNING, "text/html; charset=UTF-8"), "PHP",
            "display_errors"),
    Contact("A notice of PHP stands before the JSON.", _after(_NOTICE), "PHP", "display_errors"),
    Contact("A byte order mark stands before the JSON.", _after(b"\xef\xbb\xbf"), "byte order mark", "without it"),
    Contact("A fatal error of PHP.",
            always(b"<br />\n<b>Fatal error</b>:  Uncaught PDOException: SQLSTATE[HY000] [2002] "
                                            b"Connection refused in <b>/srv/db.php</b>", 500, "text/html"),
            "PDOException", "log of the service"),
)  # fmt: skip

LOGINS: Final = (
    Contact("Kerberos is wanted.", Http(lambda _: Reply("", 401, headers={"WWW-Authenticate": "Negotiate"})),
            "Negotiate", "Basic"),
    Contact("NTLM is wanted.", Http(lambda _: Reply("", 401, headers={"WWW-Authenticate": "NTLM"})), "NTLM", "Basic"),
    Contact("Basic is wanted.", Http(lambda _: Reply("", 401, headers={"WWW-Authenticate": 'Basic realm="shop"'})),
            "Basic", "mode: basic"),
    Contact("Digest is wanted.",
            Http(lambda _: Reply("", 401, headers={"WWW-Authenticate": 'Digest realm="cam", nonce="1", qop="auth"'})),
            "Digest", "mode: digest"),
    Contact("A token is wanted.", Http(lambda _: Reply("", 401, headers={"WWW-Authenticate": 'Bearer realm="shop"'})),
            "Bearer", "backend.credentials"),
    Contact("The proxy in front wants a login.", always("Proxy Authentication Required", 407, "text/plain",
                                                        {"Proxy-Authenticate": "Basic"}),
            "407", "proxy"),
    Contact("Our proxy wants a login.", always("Proxy Authentication Required", 407, "text/plain",
                                               {"Proxy-Authenticate": "Basic"}),
            "407", "lets this machine through", "http://shop.example.com/jsonrpc",
            ("backend.proxy=http://<host>",)),
    Contact("This machine is not allowed.", always({"error": "IP 127.0.0.1 is not in the allow list"}, 403),
            "is not in the allow list", "Allow this machine"),
    Contact("A tenant is missing.", always({"message": "Missing header X-Tenant"}, 400), "Missing header X-Tenant",
            "backend.credentials.send.headers"),
    Contact("Another session is active.", always({"error": "Another administrator is logged in"}, 409),
            "Another administrator is logged in", "service"),
)  # fmt: skip

WORDS: Final = (
    Contact("Each question gets an error about a version.",
            Http(refusing("API version 1 is no longer supported", -32600)),
            "refuses every question: API version 1 is no longer supported", "service"),
    Contact("Each question gets an error about a database.", Http(refusing("Database shop does not exist", 100)),
            "refuses every question: Database shop does not exist", "service"),
    Contact("Each question gets an error about a license.", Http(refusing("License has expired")),
            "refuses every question: License has expired", "service"),
    Contact("Each question gets an error about maintenance.", Http(refusing("Maintenance mode is on", 503)),
            "refuses every question: Maintenance mode is on", "service"),
    Contact("Each question wants a login.", Http(refusing("Session expired, please login")), "Session expired",
            "backend.credentials"),
    Contact("No method is known.", Http(rpc({})), "does not list its methods", "backend.listing"),
    Contact("A GET hangs, and POST works.", Http(_hanging_get), "openrpc", "", code=0),
)  # fmt: skip

ROWS: Final = (*HOSTS, *BROWSERS, *TYPES, *LOGINS, *WORDS)
