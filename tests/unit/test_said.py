"""What an answer says is read in bounded time, and quoted without secrets, whatever a stranger sends."""

from __future__ import annotations

from typing import Any, Final

from gateway.config.source import load_settings
from gateway.diagnosis.no_listing import known_diagnosis
from gateway.diagnosis.said import of_page, text_of
from gateway.diagnosis.trouble import Trouble
from gateway.listing.dialect import NoListing, Step
from gateway.model import HttpFacts, SourceAnswer
from gateway.settings import ServiceSettings
from tests.each import each
from tests.pace import quickly


@each("part", ["server: cloudflare ", "<script ", "<", '"result": "', '"arguments": {'])
def test_a_page_that_repeats_what_expressions_begin_with_holds_nobody_up(part: str) -> None:
    body = (part * 65_536)[:65_536].encode()
    nobody: Any = None
    for kind in ("text/html", "application/json"):
        page = HttpFacts(403, kind, {}, body)
        with quickly(1.2):
            assert of_page(nobody, page) is None
        assert len(text_of(page)) <= 16 * 1024


def test_a_page_whose_title_is_its_heading_is_quoted_once() -> None:
    html = b"<html><head><title>Not Found</title></head><body><h1>Not Found</h1><p>It is not here.</p></body></html>"
    assert text_of(HttpFacts(404, "text/html", {}, html)) == "Not Found It is not here."
    assert text_of(HttpFacts(404, "text/html", {}, html.replace(b"<p>It is not here.</p>", b""))) == "Not Found"


SECRETS: Final = ("apikey0123456789", "Tok3nOfTheHeader0123")


@each("before", range(0, 130, 6))
@each("secret", SECRETS)
def test_no_part_of_a_secret_is_quoted(secret: str, before: int) -> None:
    overrides = [f"backend.url=http://127.0.0.1:1/rpc?apikey={SECRETS[0]}", "auth.mode=off"]
    (settings,) = load_settings(None, overrides, environ={}).by_mount.values()
    assert isinstance(settings, ServiceSettings)
    said = f"csrf header {'x' * before} {secret} is wrong {'y' * 200}".encode()
    answer = SourceAnswer("HTTP 403", denied=True, http=HttpFacts(403, "text/plain", {}, said))
    failure = NoListing((Step("rpc.discover", answer),))
    found, _ = known_diagnosis(Trouble.of(settings, failure, SECRETS[1:], has_token=False))
    assert "csrf header" in found["cause"]
    assert secret[:4] not in found["cause"]
