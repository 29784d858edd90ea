"""Why there is no listing: one cause, and one next step, where docs/troubleshooting.md has no row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.contact import ContactFailed, contact
from gateway.config.source import load_settings
from gateway.diagnosis.trouble import PATHS, Diagnosis
from gateway.listing.reader import DIALECTS
from tests.each import each
from tests.fault.behaviours import Behaviour, Body, Exchange, error, result
from tests.fault.scripted import ScriptedBackend
from tests.front import ground
from tests.tls import Authority

KEY = "a8f3c2d1e4b5968778695a4b3c2d1e0f"
CALLS = ("rpc.discover", "rpc.describe", "system.describe", "system.listMethods", "JSONRPC.Introspect", "core.describe",
         "help", "rpc_methods", "rpc.methods", "methods", "commands")  # fmt: skip
STATIC = ("backend.credentials.mode=static", "backend.credentials.send.headers.Authorization=Bearer some-token-of-ours")
OF_LISTING = ("backend.listing.credentials.mode=static", "backend.listing.credentials.send.headers.X=y")
KEY_IN_URL = ("backend.credentials={mode: static, send: {query: {key: p+a/s&s=W0rd9}}}",)
CUSTOM = ("backend.listing.dialect=custom", "backend.listing.custom={method: help, methods: '$[*]'}")
HTML = "text/html"
AUTH = error(-32000, "Authentication required")


async def nothing(*_: Any) -> None:
    """Do nothing with the catalog."""


async def diagnosed(url: str, *knobs: str) -> Diagnosis:
    settings = load_settings(None, ground(url, *knobs), environ={}).by_mount[""]
    with pytest.raises(ContactFailed) as caught:
        await contact(settings, nothing)
    assert [line[:13] for line in caught.value.lines[-2:]] == ["cause        ", "next         "]
    assert caught.value.diagnosis is not None
    return caught.value.diagnosis


@dataclass(frozen=True)
class Only:
    """Behave like this at one path, and elsewhere as if nothing were there."""

    path: str
    behaviour: Behaviour

    async def play(self, exchange: Exchange) -> None:
        there = exchange.request.path == self.path
        await (self.behaviour if there else Body(b"", 404, HTML)).play(exchange)


def every_call(behaviour: Behaviour) -> Callable[[ScriptedBackend], None]:
    def script(backend: ScriptedBackend) -> None:
        for method in CALLS:
            backend.on(method, behaviour)

    return script


def redirect(location: str) -> Body:
    return Body(b"", 302, HTML, headers=(("Location", location),))


@each(
    ("behaviour", "knobs", "cause", "then"),
    [
        (Body(b"", 429, HTML), (), "The service gets too many requests (HTTP 429).", "Try again later."),
        (Body(b"", 503, HTML, (("Retry-After", "soon"),)), (), "The service is in maintenance", "again later."),
        (Body(b"", 504, HTML), (), "but not the service behind it (HTTP 504).", "Start the service behind the proxy."),
        (redirect("https://else.example.com/rpc#top"), (), "It redirects elsewhere (HTTP 302).",
         "Set backend.url to https://else.example.com/rpc"),
        (redirect(f"/v2/{KEY}/rpc?token=abc"), (), "It redirects elsewhere", "/v2/…/rpc?token=…"),
        (redirect("/v2/p%2Ba/s%26s%3DW0rd9?n=7"), KEY_IN_URL, "It redirects elsewhere", "/v2/[redacted]?n=7"),
        (redirect("/oauth2/authorize?x=1"), (), "It redirects to a login page (HTTP 302", "Set backend.credentials"),
        (redirect("javascript:alert(1)"), (), "It does not answer as a JSON-RPC service: HTTP 302", "Set backend.url"),
        (AUTH, (), "It wants credentials, and none are sent", "Set backend.credentials"),
        (AUTH, STATIC, "It refuses the credentials that are", "Correct backend.credentials, whose mode is static."),
        (error(1, "x", status=401, headers=(("WWW-Authenticate", 'Digest realm="x"'),)), (), "it asks for Digest",
         "Set backend.credentials"),
        (Body(b"", 401, HTML), OF_LISTING, "It refuses the credentials",
         "Correct backend.listing.credentials, whose mode is static."),
        (Body(b"<x/>", 200, "application/soap+xml"), (), "It answers in XML (application/soap+xml)", "Set backend.url"),
        (Body(b"", 500, HTML), (), "The service fails (HTTP 500).", "Look into the log of the service."),
        (Body(b"Upgrade Required", 426, "text/plain"), (), "It is a WebSocket (HTTP 426", "Set backend.url to ws://"),
        (Body(b"\xef\xbb\xbf{}"), (), "a byte order mark before the JSON", "without it"),
        (Body(b"hello", 200, "text/plain"), (), "not answer as a JSON-RPC service: HTTP 200, text/plain", "Set"),
        (result({"status": "fine"}), (), "does not list its methods in a known form", "listing.dialect: static"),
        (error(-32601, "Method not found"), CUSTOM, "where the knobs for dialect: custom look for it",
         "Compare backend.listing.custom with"),
    ],
)  # fmt: skip
async def test_the_answer_to_the_calls_tells_the_cause(
    behaviour: Behaviour, knobs: tuple[str, ...], cause: str, then: str
) -> None:
    async with ScriptedBackend() as backend:
        every_call(behaviour)(backend)
        found = await diagnosed(backend.url, *knobs)
        assert cause in found.cause
        assert then in found.next
        assert KEY not in f"{found}"


async def test_questions_with_the_same_broken_answer_are_one_line() -> None:
    async with ScriptedBackend() as backend:
        every_call(Body(b'{"id":@ID@,"error":"no such method",}'))(backend)
        settings = load_settings(None, ground(backend.url), environ={}).by_mount[""]
        with pytest.raises(ContactFailed) as caught:
            await contact(settings, nothing)
    (line,) = [line for line in caught.value.lines if "broken JSON" in line and not line.startswith("cause")]
    assert line.startswith(f"  {len(CALLS)} questions: HTTP 200, broken JSON: ")
    assert line.endswith("""it begins with {"id":"@","error":"no such method",}""")


async def test_an_error_without_a_code_is_told_without_one() -> None:
    async with ScriptedBackend() as backend:
        every_call(Body(b'{"error":"no such method"}'))(backend)
        settings = load_settings(None, ground(backend.url), environ={}).by_mount[""]
        with pytest.raises(ContactFailed) as caught:
            await contact(settings, nothing)
    assert f"  {len(CALLS)} questions: error: no such method" in caught.value.lines


@dataclass(frozen=True)
class Saying:
    """Answer any method with a text, which may quote it."""

    text: str

    async def play(self, exchange: Exchange) -> None:
        await result(self.text.replace("METHOD", exchange.request.method or "")).play(exchange)


@each("text", ["ok", "Unknown command", "Unknown command METHOD", "METHOD failed"])
async def test_a_text_that_is_the_answer_to_any_method_is_no_list_of_names(text: str) -> None:
    async with ScriptedBackend() as backend:
        every_call(Saying(text))(backend)
        assert "and does not list its methods in a known form" in (await diagnosed(backend.url)).cause


async def test_a_tls_port_that_only_closes_is_told_by_a_second_look(tmp_path: Path) -> None:
    async with ScriptedBackend(tls=Authority(tmp_path).server("127.0.0.1")) as backend:
        plain = backend.url.replace("https:", "http:")
        found = await diagnosed(plain, *STATIC)
        assert found.next == f"Set backend.url to {backend.url}"
        assert backend.requests == [], "the certificate is not trusted, so nothing was sent"


@dataclass(frozen=True)
class ChallengingElsewhere:
    async def play(self, exchange: Exchange) -> None:
        challenge = ("WWW-Authenticate", 'Digest realm="r", nonce="n", qop="auth"')
        there = exchange.request.path == "/jsonrpc"
        await (Body(b"", 404, HTML) if there else Body(b"", 401, HTML, headers=(challenge,))).play(exchange)


@each("knobs", [STATIC, ("backend.credentials={mode: digest, user: gw, password: s3same-0pens}",)])
async def test_the_questions_to_other_places_carry_no_credential(knobs: tuple[str, ...]) -> None:
    async with ScriptedBackend() as backend:
        every_call(ChallengingElsewhere())(backend)
        found = await diagnosed(backend.url, *knobs)
        assert "There is no JSON-RPC endpoint at /jsonrpc: it answers HTTP 404" in found.cause
        elsewhere = {
            request.path: request.headers
            for request in backend.requests
            if request.json and request.json.get("id") == "where"
        }
        assert {*PATHS, "/jsonrpc/", "/rpc/", "/api/"} - elsewhere.keys() == {"/jsonrpc"}
        assert all("Authorization" not in headers for headers in elsewhere.values())


async def test_the_slash_at_the_end_can_be_what_is_missing() -> None:
    async with ScriptedBackend() as backend:
        every_call(Only("/jsonrpc/", error(-32601, "Method not found")))(backend)
        found = await diagnosed(backend.url)
        assert found.next == f"Set backend.url to {backend.url}/"


@each("dialect", [name for name, dialect in DIALECTS.items() if dialect.info.probed and name != "openrpc"])
async def test_a_dialect_that_is_named_and_not_spoken_is_told_with_the_one_that_is(dialect: str) -> None:
    async with ScriptedBackend() as backend:
        found = await diagnosed(backend.url, f"backend.listing.dialect={dialect}")
        assert found == Diagnosis(f"It does not speak {dialect}, but openrpc.", "Set backend.listing.dialect: openrpc")


async def test_what_a_service_with_the_right_credential_is_asked_carries_it_and_nothing_hints_at_mcp() -> None:
    async with ScriptedBackend() as backend:
        every_call(error(-32601, "Method not found"))(backend)
        backend.on("getnetworkinfo", result({"subversion": "/Satoshi:27.0.0/"}))
        found = await diagnosed(backend.url, *STATIC)
        assert "a node of Bitcoin's kind, /Satoshi:27.0.0/" in found.cause
        calls = [one for one in backend.requests if one.verb == "POST"]
        assert {one.headers.get("Authorization") for one in calls} == {"Bearer some-token-of-ours"}
        assert backend.calls("initialize") == 0
