"""Find out what else answers at an address: an MCP server, a WebSocket, another protocol, a known product."""

import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.diagnosis.connection import set_knob, shown
from gateway.diagnosis.said import DIRECTLY, places, quoted, text_of
from gateway.diagnosis.trouble import Diagnosis, Elsewhere, Question, Trouble, is_message
from gateway.model import HttpFacts
from gateway.text import printable

_NO_HTTP: Final = re.compile("no HTTP|the connection ended before the answer|TLS failed: (?:wrong version|record)")
_OVER_HTTP: Final = "Set {knob} to the JSON-RPC endpoint, over HTTP."
_NOT_OFFERED: Final = (
    "What a call means there depends on the calls before it, so it cannot be shared (docs/transports.md)."
)
_FIRST_BYTES: Final = (
    (rb"\Z", "It ends each connection without a word, as for lack of a client certificate.",
     "If it wants one, set {tls}.cert_file and {tls}.key_file; else look into its log."),
    (rb"HTTP/1\.", "The connection ended before its answer did: it sent {said}.",
     "Look into the log of the service, and of what stands in front of it."),
    (rb"\x15\x03", "{place} speaks TLS.", "Set {knob} to {https}"),  # an alert (RFC 8446 §6)
    (rb"\x00..[\x04\x07]\x00{5}", "It speaks HTTP/2 alone, as gRPC does.",  # a frame (RFC 9113 §4.1)
     "Let it answer HTTP/1.1, too, or put a proxy between that translates."),
    (rb".{0,200}content-length:",
     "It speaks JSON-RPC with Content-Length, as language servers do, without HTTP ({said}).", _NOT_OFFERED),
    (rb"\s*\{", "It speaks JSON-RPC without HTTP, on a plain socket ({said}).", "Set {knob} to {stream}"),
    (b"", "It does not speak HTTP: it sends {said}.", _OVER_HTTP),
)  # fmt: skip
"""What a server sends that does not speak HTTP, with cause and next step."""
_ABOUT_METHOD: Final = re.compile(
    r"(?i)error -32601\b|-32700\b|\b(?:method|procedure|function|command)\b|not found|not supported|unknown|no such"
)
_LATER: Final = re.compile(
    r"(?i)loading|warming|starting|sync|initiali[sz]ing|busy|try again|limited?\b|too many|exceed|maintenance|not ready"
)
_INITIALIZE: Final = {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "jsonrpc-mcp-gateway", "version": "0"},
}  # fmt: skip
_OF_MCP: Final = re.compile(
    rb"text/event-stream|mcp-protocol-version|mcp-session-id|missing session id|not initialized", re.IGNORECASE
)
"""Words of MCP servers to clients that do not speak MCP."""
_ETHEREUM: Final = (
    "Save the OpenRPC document of the Ethereum API (execution-apis), and set {listing}.dialect: static and "
    "{listing}.file."
)
_IN_A_FILE: Final = "Describe its methods in a file: {listing}.dialect: static and {listing}.file (docs/listings.md)."


_PRODUCTS: Final[tuple[tuple[str, Callable[[Any], str], str], ...]] = (
    ("web3_clientVersion", lambda found: f"the Ethereum node {found}", _ETHEREUM),
    ("rpc_modules", lambda found: f"a node with the modules {', '.join(found)}", _ETHEREUM),
    ("getnetworkinfo", lambda found: f"a node of Bitcoin's kind, {found['subversion']}", _IN_A_FILE),
    ("JSONRPC.Version", lambda found: f"Kodi, API {found['version']['major']}",
     "Let it answer JSONRPC.Introspect: it may be off, or blocked by a proxy."),
    ("apiinfo.version", lambda found: f"Zabbix {found}",
     f"Log in as docs/credentials.md shows for Zabbix. {_IN_A_FILE}"),
    ("aria2.getVersion", lambda found: f"aria2 {found['version']}", "Update it to 1.18 or later."),
)  # fmt: skip
"""Questions that one product answers, what the result says, and the next step."""
_OF_ONE_CLIENT: Final = (
    (re.compile(r"error -32601: '[\w.]+' wasn't found"), "Chrome's DevTools"),
    (re.compile(r"error -32002|(?i:server not initialized)"), "a language server"),
)


def stateful(trouble: Trouble) -> Diagnosis | None:
    """Find a service that keeps the state of one client in its connection."""
    if trouble.settings.backend.wire == "http":  # a connection there is no client
        return None
    said = " ".join(step.answer.summary for step in trouble.steps)
    found = next((what for words, what in _OF_ONE_CLIENT if words.search(said)), None)
    return None if found is None else Diagnosis(f"It is {found}.", _NOT_OFFERED)


def not_http(trouble: Trouble) -> Question | None:
    """Find a port that speaks something else than HTTP, and show what it sends."""
    step = trouble.calls[0].answer if trouble.steps else None
    if step is None or step.http is not None or trouble.settings.backend.proxy or not _NO_HTTP.search(step.summary):
        return None

    async def ask(elsewhere: Elsewhere) -> Diagnosis | None:
        first = await elsewhere.first_bytes(trouble.url, plain=step.unreachable)  # as for TLS that does not begin
        if not first and not trouble.url.startswith("https:"):
            return None
        text = printable(first.decode("utf-8", "replace").strip().partition("\r\n")[0])
        said = quoted(" ".join("".join(mark if mark.isprintable() else " " for mark in text).split()))
        cause, what = next(found for begin, *found in _FIRST_BYTES if re.match(begin, first, re.DOTALL | re.IGNORECASE))
        parts = urlsplit(trouble.url)
        scheme, port = ("tls", 443) if parts.scheme == "https" else ("tcp", 80)
        stream = f"{scheme}://{parts.netloc if parts.port else f'{parts.netloc}:{port}'}"
        fields = {**places(trouble), "said": said, "stream": shown(stream)}
        return Diagnosis(cause.format(**fields), what.format(**fields))

    return ask


def mcp_server(trouble: Trouble) -> Question | None:
    """Find an MCP server, which has no need of us. A service without a hint at MCP is not asked."""
    answers = [step.answer.http for step in trouble.calls if step.answer.http is not None]
    if trouble.http.status in (401, 404, 407) or not any(hints_at_mcp(trouble.url, http) for http in answers):
        return None
    return lambda elsewhere: mcp_server_at(trouble.url, elsewhere)


def hints_at_mcp(url: str, http: HttpFacts) -> bool:
    """Return whether an address or its answer looks like that of an MCP server."""
    is_named = urlsplit(url).path.rstrip("/").endswith("/mcp") and (is_message(http) or http.status in (400, 405))
    is_stream = http.content_type == "text/event-stream" or http.status == 406
    return is_named or is_stream or _OF_MCP.search(http.start) is not None


async def mcp_server_at(url: str, elsewhere: Elsewhere) -> Diagnosis | None:
    """Return that an MCP server answers at an address, with its name; None where none does."""
    found = await elsewhere.result(url, "initialize", _INITIALIZE)
    if not isinstance(found, dict) or "protocolVersion" not in found:
        return None
    info = found.get("serverInfo")
    name = f"{info.get('name')} {info.get('version')}" if isinstance(info, dict) else "without a name"
    return Diagnosis(f"It is an MCP server already: {name}.", f"{DIRECTLY[:-1]}: {shown(url)}")


def websocket(trouble: Trouble) -> Question | None:
    """Find a WebSocket, whatever it answers to POST, or HTTP where a WebSocket is not opened."""
    status, is_websocket = trouble.http.status, trouble.settings.backend.wire == "websocket"
    statuses = (200, 400, 404, 405, 426, 501) if is_websocket else (400, 404, 405, 426)
    if trouble.speaks_json_rpc or status not in statuses or trouble.settings.backend.proxy:
        return None

    async def ask(elsewhere: Elsewhere) -> Diagnosis | None:
        if is_websocket:
            other = f"http{trouble.url[2:]}"
            cause = f"It opens no WebSocket (HTTP {status}), and speaks JSON-RPC over HTTP."
            found = is_message(await elsewhere.facts(other))
            return Diagnosis(cause, set_knob(trouble.knob, other)) if found else None
        if status != 426 and not await elsewhere.opens_websocket(trouble.url):
            return None
        step = set_knob(trouble.knob, f"ws{trouble.url.removeprefix('http')}")
        return Diagnosis(f"It is a WebSocket (HTTP {status} to POST).", step)

    return ask


def web_api(trouble: Trouble) -> Question | None:
    """Find an API of another form in JSON: its document by OpenAPI, else its own words."""
    http = trouble.http
    if not ("json" in http.content_type or http.start.lstrip()[:1] == b"{") or trouble.speaks_json_rpc:
        return None
    if http.status in (401, 403) or http.status >= 500 or ", broken JSON: " in trouble.calls[0].answer.summary:
        return None

    async def ask(elsewhere: Elsewhere) -> Diagnosis:
        document = await elsewhere.openapi(trouble.url)
        endpoint = f"set {trouble.knob} to the JSON-RPC endpoint"
        if document is not None:
            step = f"For a REST API use a program that makes tools of OpenAPI; else {endpoint}."
            return Diagnosis(f"It is a REST API: its OpenAPI document is {document}.", step)
        said = f"HTTP {http.status}: {quoted(text_of(http))}"
        cause = f"It answers in JSON as a REST API does, not as JSON-RPC ({said})."
        return Diagnosis(cause, f"S{endpoint[1:]}; if this is one, describe its methods in a file (docs/listings.md).")

    return ask


def refuses_all(trouble: Trouble) -> Diagnosis | None:
    """Find one error for all questions, which is about something else than the method."""
    texts = {step.answer.summary for step in trouble.calls if step.answer.error}
    if len(texts) != 1 or len(trouble.calls) < 2 or not trouble.speaks_json_rpc:
        return None
    said = texts.pop()
    if _ABOUT_METHOD.search(said):
        return None
    if "Odoo Server Error" in said:
        return Diagnosis(f"This is Odoo: {said}.", "Set what each call needs, as docs/credentials.md shows for Odoo.")
    mend = "Try again later. If that lasts, mend" if _LATER.search(said) else "Mend"
    cause = f"It refuses every question: {said.partition(': ')[2].rstrip('.')}."
    return Diagnosis(cause, f"{mend} that at the service, or send what it asks for.")


def product(trouble: Trouble) -> Question | None:
    """Find a product that says its name, and has no listing."""
    if not trouble.speaks_json_rpc or trouble.settings.backend.listing.dialect == "custom":
        return None

    async def ask(elsewhere: Elsewhere) -> Diagnosis | None:
        results = [await elsewhere.ask_here(method, []) for method, *_ in _PRODUCTS]
        for (_, name_of, step), found in zip(_PRODUCTS, results, strict=True):
            try:
                name = name_of(found) if found else ""
            except (KeyError, TypeError):  # another product's method of this name
                continue
            if name:
                cause = f"It is {name}: it speaks JSON-RPC, and has no listing that can be read."
                return Diagnosis(cause, step.format(listing=trouble.settings.knob("backend.listing")))
        return None

    return ask
