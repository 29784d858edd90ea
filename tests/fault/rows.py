"""Rows B01 to B16 of the catalogue of backend misbehaviour, ready for a parametrized test.

Each row says what the backend does and what the gateway's caller must see: ``rest`` is the HTTP status of
``POST /mcp/tools/invoke``, ``mcp`` what ``tools/call`` comes to (always HTTP 200 there). Whatever a row does,
the text :data:`LEAK` must never reach a caller, and the method must have been requested exactly ``sends``
times: calls are not repeated.

The statuses hold for a gateway whose credential is not the caller's own token; ``forwarded`` is the REST
status where it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tests.fault.behaviours import (
    CLOSE,
    SUM,
    Behaviour,
    Body,
    Cut,
    EarlyHints,
    GzipBomb,
    Hang,
    Honest,
    Raw,
    Redirect,
    Several,
    Stream,
    error,
    result,
)

McpOutcome: TypeAlias = Literal["result", "isError"]

LEAK = "never-show-this-to-a-caller"
_LEAK = LEAK.encode()
_MB = 1024 * 1024


@dataclass(frozen=True)
class Row:
    """One misbehaviour and what must come of it.

    ``endpoint`` tells where ``backend.url`` points: the scripted backend, its ``refused_url``, or a name
    that no resolver knows. ``hangs`` asks for a short ``backend.timeout``, after which the backend's
    ``abandoned`` must be set. ``retry_after`` is the header that must reach the caller; None means that
    there must be none.
    """

    behaviour: Behaviour
    rest: int = 502
    mcp: McpOutcome = "isError"
    method: Literal["add", "void"] = "add"
    endpoint: Literal["scripted", "refused", "unresolvable"] = "scripted"
    sends: int = 1
    hangs: bool = False
    retry_after: str | None = None
    forwarded: int | None = None
    note: str = ""

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments that the method accepts."""
        return {"a": 2, "b": 3} if self.method == "add" else {}


def _json(members: bytes) -> Row:
    """A 200 whose JSON object has these members."""
    return Row(Body(b'{"jsonrpc":"2.0",' + members + b"}"))


def _forgiven(members: bytes) -> Row:
    return Row(_json(members).behaviour, 200, "result", note=_FORGIVEN)


def _mended(members: bytes) -> Row:
    return Row(_json(members).behaviour, 200, "result", note=_MENDED)


def _raw(head: bytes, body: bytes = b"") -> Row:
    return Row(Raw(head + b"\r\n\r\n" + body))


_LOGIN = Body(b"<html><form>Log in, " + _LEAK + b"</form></html>", content_type="text/html")
_OK_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json"
_EMPTY = Body()
_ANSWERED = "any JSON-RPC error is REST's execution_error, whatever its code and HTTP status"
_HARMLESS = "the HTTP client reads it, and the answer is right"
_LENIENT = "strict towards clients only: re-serialized with one of the two"
_MENDED = "one bad byte costs one byte, and the answer says so"
_FORGIVEN = "on a single call over HTTP the exchange says which call is answered; services lose or drop ids"

_CONNECTIONS = {
    "B01-refused": Row(CLOSE, endpoint="refused", sends=0),
    "B01-unresolvable": Row(CLOSE, endpoint="unresolvable", sends=0),
    "B02-hang-before-head": Row(Hang("nothing"), 504, hangs=True),
    "B02-hang-after-head": Row(Hang("head"), 504, hangs=True),
    "B02-hang-mid-body": Row(Hang("half"), 504, hangs=True),
    "B03-close-before": Row(CLOSE),
    "B03-reset-before": Row(Cut("nothing", "reset")),
    "B03-reset-after-head": Row(Cut("head", "reset")),
    "B03-reset-mid-body": Row(Cut("half", "reset")),
    "B03-short-content-length": Row(Cut("half")),
    "B03-truncated-chunk": Row(Cut("half", answer=result({"sum": 5}, chunked=True))),
    "B03-truncated-head": Row(Raw(_OK_HEAD)),
}

_ANSWERS = {
    "B04-html-login": Row(_LOGIN),
    "B04-plain-text": Row(Body(b"Log in first, " + _LEAK, content_type="text/plain")),
    "B04-json-as-plain-text": Row(
        result({"sum": 5}, content_type="text/plain"),
        200,
        "result",
        note="services name their JSON in many ways, or not at all: the body counts",
    ),
    "B04-no-content-type": Row(Body(b"Log in first, " + _LEAK, content_type=None)),
    "B05-500-html": Row(Body(_LOGIN.payload, 500, "text/html")),
    "B05-503-retry-soon": Row(
        Body(_LOGIN.payload, 503, "text/html", (("Retry-After", "120"),)), 503, retry_after="120"
    ),
    "B05-503-retry-late": Row(
        Body(_LOGIN.payload, 503, "text/html", (("Retry-After", "86400"),)), 503, retry_after="300"
    ),
    "B05-503-retry-date": Row(
        Body(_LOGIN.payload, 503, "text/html", (("Retry-After", "Fri, 31 Dec 2038 23:59:59 GMT"),)),
        503,
        retry_after="300",
    ),
    "B05-503-retry-past": Row(
        Body(_LOGIN.payload, 503, "text/html", (("Retry-After", "Sun, 06 Nov 1994 08:49:37 GMT"),)),
        503,
        retry_after="0",
    ),
    "B05-503-retry-with-an-error": Row(
        error(-32000, "Come back", status=503, headers=(("Retry-After", "7"),)),
        500,
        note="who answers with an error of the call may have run it",
    ),
    "B05-429-retry": Row(Body(status=429, headers=(("Retry-After", "300"),)), 503, retry_after="300"),
    "B05-429": Row(Body(_LOGIN.payload, 429, "text/html"), 503, retry_after="1", note="nothing ran, so soon again"),
    "B05-429-retry-late": Row(Body(status=429, headers=(("Retry-After", "86400"),)), 503, retry_after="300"),
    "B05-429-with-an-error": Row(error(-32000, "Slow down", status=429), 503, retry_after="1"),
    "B06-204": Row(Body(status=204, content_type=None)),
    "B06-empty-200": Row(_EMPTY),
    "B06-204-to-notification": Row(Honest(), 200, "result", "void"),
    "B06-empty-200-to-notification": Row(_EMPTY, 200, "result", "void"),
    "B07-method-not-found": Row(error(-32601, "Method not found"), 500, note=_ANSWERED),
    "B07-invalid-params": Row(error(-32602, "Invalid params"), 500, note=_ANSWERED),
    "B07-internal-error": Row(error(-32603, "Internal error", {"trace": LEAK}), 500, note=_ANSWERED),
    "B07-application-error": Row(error(1042, "No such order"), 500, note=_ANSWERED),
    "B07-error-on-http-500": Row(error(-32603, "Internal error", status=500), 500, note=_ANSWERED),
    "B08-401": Row(Body(_LOGIN.payload, 401, "text/html"), forwarded=401),
    "B08-401-with-an-error": Row(
        error(-32001, f"{LEAK}: log in", status=401),
        forwarded=401,
        note="whatever else a 401 holds, what was shown does not count there",
    ),
    "B08-403": Row(Body(_LOGIN.payload, 403, "text/html"), 403),
    "B08-403-with-an-error": Row(error(-32003, "Not yours", status=403), 403),
    "B08-denied-within-200": Row(
        Body(
            b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request",'
            b'"data":"Access Denied: The \'administer site configuration\' permission is required."}}'
        ),
        403,
        note="as Drupal's jsonrpc module sends it, null id included",
    ),
}

_ENVELOPES = {
    "B09-wrong-id": _json(b'"id":"somebody-else","result":{"sum":5,"x":"' + _LEAK + b'"}'),
    "B09-no-id": _forgiven(b'"result":{"sum":5}'),
    "B09-null-id": _forgiven(b'"id":null,"result":{"sum":5}'),
    "B09-two-ids": _json(b'"id":"somebody-else","id":@ID@,"result":{"sum":5,"x":"' + _LEAK + b'"}'),
    "B09-swapped-id-type": _json(b'"id":@SWAPPED-ID@,"result":{"sum":5}'),
    "B09-result-and-error": _json(b'"id":@ID@,"result":{"sum":5},"error":{"code":1,"message":"' + _LEAK + b'"}'),
    "B09-neither": _json(b'"id":@ID@'),
    "B09-batch": Row(Body(b'[{"jsonrpc":"2.0","id":@ID@,"result":{"sum":5}}]')),
    "B09-scalar": Row(Body(b"5")),
    "B09-extra-members": Row(
        Body(b'{"jsonrpc":"2.0","id":@ID@,"result":{"sum":5},"debug":"' + _LEAK + b'"}'),
        200,
        "result",
        note="the member is ignored; to relay it would not be sound",
    ),
    "B10-302-other-port": Row(Redirect(302)),
    "B10-307-other-port": Row(Redirect(307)),
    "B10-308-other-host": Row(Redirect(308, "http://localhost:{port}/jsonrpc")),
    "B10-307-other-scheme": Row(Redirect(307, "https://127.0.0.1:{port}/jsonrpc")),
    "B11-two-responses": Row(
        Several((SUM, result({"sum": 6, "x": LEAK}))),
        200,
        "result",
        note="the second must never be served, to anyone: call again afterwards and look for LEAK",
    ),
}

_HTTP = {
    "B12-gzip-bomb": Row(GzipBomb(300 * _MB)),
    "B13-100-mb": Row(Stream(100 * _MB), note="bytes_sent shows that the gateway stopped reading"),
    "B13-100-mb-chunked": Row(Stream(100 * _MB, chunked=True)),
    "B14-length-and-chunked": _raw(
        _OK_HEAD + b"\r\nContent-Length: 4\r\nTransfer-Encoding: chunked", b"0\r\n\r\n" + _LEAK
    ),
    "B14-garbage": Row(Raw(b"\x00\xff\x16\x03\x01 no HTTP at all \r\n\r\n")),
    "B14-long-header": Row(result({"sum": 5}, headers=(("X-Long", "a" * 9000),))),
    "B14-300-headers": Row(result({"sum": 5}, headers=tuple((f"X-{n}", "a") for n in range(300)))),
    "B14-bare-lf": Row(Raw(_OK_HEAD.replace(b"\r", b"") + b"\n\n" + SUM.payload), 200, "result", note=_HARMLESS),
    "B14-status-99": Row(result({"sum": 5}, status=99)),
    "B14-status-999": Row(result({"sum": 5}, status=999)),
    "B14-103-twenty": Row(EarlyHints(20), 200, "result", note=_HARMLESS),
    "B15-set-cookie": Row(
        result({"sum": 5}, headers=(("Set-Cookie", f"sid={LEAK}; Path=/"),)),
        200,
        "result",
        note="call again afterwards: no Cookie header may arrive at the backend",
    ),
}

_JSON = {
    "B16-invalid-utf-8": _mended(b'"id":@ID@,"result":{"sum":5},"x":"\xff\xfe"'),
    "B16-nan": _mended(b'"id":@ID@,"result":{"sum":5},"x":NaN'),
    "B16-infinity": _mended(b'"id":@ID@,"result":{"sum":5},"x":-Infinity'),
    "B16-duplicate-keys": Row(
        Body(b'{"jsonrpc":"2.0","id":@ID@,"result":{"sum":5,"sum":6}}'), 200, "result", note=_LENIENT
    ),
    "B16-duplicate-result": Row(
        Body(b'{"jsonrpc":"2.0","id":@ID@,"result":{"sum":5},"result":{"sum":6}}'),
        200,
        "result",
        note=_LENIENT,
    ),
    "B16-depth-bomb": _json(b'"id":@ID@,"result":' + b"[" * 100_000 + b"]" * 100_000),
    "B16-lone-surrogate": _mended(b'"id":@ID@,"result":{"sum":5},"x":"\\ud800"'),
    "B16-truncated-json": Row(Body(b'{"jsonrpc":"2.0","id":@ID@,"result":{"sum"')),
    "B16-byte-order-mark": Row(Body(b"\xef\xbb\xbf" + SUM.payload), 200, "result", note=_MENDED),
    "B16-utf-16": Row(Body('{"jsonrpc":"2.0","id":1,"result":{"sum":5}}'.encode("utf-16"))),
}

BEHAVIOURS: dict[str, Row] = _CONNECTIONS | _ANSWERS | _ENVELOPES | _HTTP | _JSON
