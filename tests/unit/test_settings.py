"""The knobs: bounds, pairs that must be set together, and secrets that no text gives away."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from gateway.listing.reader import DIALECTS
from gateway.settings import Settings
from gateway.settings.auth import Issuer
from gateway.settings.backend import ListingSettings
from gateway.settings.knobs import is_loopback
from tests.each import each
from tests.tables import each_row_and

URL = "http://127.0.0.1:8000/jsonrpc"
ISSUER = {"issuer": "https://login.example.com"}
OPEN = {"mode": "off", "allow_unauthenticated": True}


def settings(**sections: Any) -> Settings:
    """Open to all unless ``auth`` is among the sections."""
    backend = {"url": URL} | sections.pop("backend", {})
    return Settings.model_validate({"backend": backend, "auth": {"mode": "off"}, **sections})


def fault(**sections: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        settings(**sections)
    return str(caught.value)


def test_only_the_backends_url_and_who_may_call_are_required() -> None:
    assert settings().backend.url == URL
    assert settings(auth={"issuers": [ISSUER]}).auth.mode == "jwt"
    with pytest.raises(ValidationError, match="backend"):
        Settings.model_validate({})


def test_nobody_opens_a_gateway_by_saying_nothing() -> None:
    for auth in ({}, {"mode": "jwt"}, {"mode": "jwt", "issuers": []}, {"allow_unauthenticated": True}):
        told = fault(auth=auth)
        assert "auth.issuers" in told
        assert "auth.mode: off" in told


@each("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"])
def test_on_loopback_no_authentication_is_needed_where_that_is_said(host: str) -> None:
    assert is_loopback(host)
    assert settings(server={"host": host}).auth.mode == "off"


@each(
    "server",
    [{"host": "0.0.0.0"}, {"host": "gw.example.com"}, {"port": 0}, {"public_url": "http://gw.example.com"}],
)
def test_with_authentication_the_gateway_has_a_secure_url_that_tokens_can_be_for(server: Any) -> None:
    assert "server.public_url: " in fault(server=server, auth={"issuers": [ISSUER]})
    named = {**server, "public_url": "https://gw.example.com/"}
    assert settings(server=named, auth={"issuers": [ISSUER]}).by_mount[""].resource == "https://gw.example.com/mcp"


def test_on_loopback_the_gateway_has_a_url_of_its_own() -> None:
    assert settings(auth={"issuers": [ISSUER]}).by_mount[""].resource == "http://127.0.0.1:8080/mcp"


@each("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", "localhost.example.org"])
def test_beyond_loopback_an_open_gateway_has_to_be_meant(host: str) -> None:
    assert not is_loopback(host)
    assert "allow_unauthenticated" in fault(server={"host": host})
    assert settings(server={"host": host}, auth={"mode": "off", "allow_unauthenticated": True}).server.host == host


@each(
    "url",
    [
        "",
        "ftp://h/x",
        "127.0.0.1:8000",
        "http:///jsonrpc",
        "http://h/#f",
        "http://u:pw@h/",
        "http://h:port/",
        "http://[::1/",
        "//h/jsonrpc",
        "http://h:99999/",
    ],
)
def test_what_is_no_plain_http_url_is_refused(url: str) -> None:
    for section in (
        {"backend": {"url": url}},
        {"backend": {"proxy": url}},
        {"backend": {"listing": {"url": url}}},
        {"server": {"public_url": url}},
    ):
        fault(**section)


def test_a_public_url_has_no_slash_at_its_end() -> None:
    assert settings(server={"public_url": "https://gw.example.com/"}).server.public_url == "https://gw.example.com"


@each("url", ["https://gw.example.com/mcp", "https://gw.example.com/mcp/", "http://127.0.0.1/a/mcp"])
def test_a_public_url_does_not_end_in_what_is_added_to_it(url: str) -> None:
    told = fault(server={"public_url": url})
    assert "server.public_url" in told
    assert "must not end in /mcp" in told
    for good in ("https://mcp", "https://gw.example.com/mcps", "https://gw.example.com/mcp/crm"):
        assert settings(server={"public_url": good}).server.public_url == good


def test_the_admin_port_is_one_of_its_own() -> None:
    told = fault(server={"port": 9090})
    assert "server" in told
    assert "port and admin_port are both 9090" in told
    assert settings(server={"port": 0, "admin_port": 0}).server.port == 0


def test_the_admin_port_is_for_this_machine_alone_unless_said_otherwise() -> None:
    assert is_loopback(settings(server={"host": "0.0.0.0"}, auth=OPEN).server.admin_host)
    assert settings(server={"admin_host": "0.0.0.0"}).server.admin_host == "0.0.0.0"


@each("password", ["hunter2", "hun/ter2", "hun#ter2", "hun?ter2", "hunter2\u2100", "hunter2]", "[hunter2", "hunter2:9"])
def test_a_password_in_a_url_is_refused_and_not_shown(password: str) -> None:
    text = fault(backend={"url": f"http://user:{password}@backend/"})
    assert "hun" not in text.replace("pydantic", "")
    assert "ter2" not in text


@each(
    "pair",
    [
        {"tls": {"cert_file": "c"}},
        {"tls": {"key_file": "k"}},
        {"listing": {"dialect": "static"}},
        {"listing": {"file": "f"}},
    ],
)
def test_knobs_that_come_together_are_refused_alone(pair: Any) -> None:
    assert "must be set together" in fault(backend=pair)


@each("header", ["", "X Y", "X:Y", "Host", "content-length", "Transfer-Encoding", "É", "X\r\nY"])
def test_a_static_header_has_a_name_of_its_own(header: str) -> None:
    fault(backend={"credentials": {"mode": "static", "send": {"headers": {header: "x"}}}})


@each("value", ["", " {}", "{} ", "{}\r\nX: y", "{}\n", "{}é", "\x00{}"])
def test_a_header_value_is_printable_ascii_and_is_not_shown_where_it_is_not(value: str) -> None:
    text = fault(backend={"credentials": {"mode": "static", "send": {"headers": {"X": value.format("hunter2")}}}})
    assert "printable ASCII" in text
    assert "hunter2" not in text


@each_row_and({"a name of a tool that is too long": {"catalog": {"tools": {"a": {"name": "x" * 129}}}}})
def test_what_is_out_of_bounds_or_unknown_is_refused(sections: Any) -> None:
    fault(**sections)


def test_secrets_are_masked_in_every_text() -> None:
    secret = "hunter2-hunter2"
    made = settings(
        backend={
            "credentials": {
                "mode": "static",
                "send": {"headers": {"X": f"Bearer {secret}"}, "params": [{"key": secret}]},
            },
        }
    )
    send = made.backend.credentials.send
    assert send is not None
    for text in (
        repr(made),
        str(made),
        repr(made.backend),
        str(made.backend.credentials),
        repr(send),
        str(made.model_dump()),
        made.model_dump_json(),
        f"{send.headers}",
    ):
        assert secret not in text
    assert send.revealed()["headers"] == {"X": f"Bearer {secret}"}
    assert send.revealed()["params"] == [{"key": secret}]


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        settings().server.port = 1  # type: ignore[misc]


def test_the_dialects_are_named_alike_in_both_places() -> None:
    assert set(get_args(ListingSettings.model_fields["dialect"].annotation)) == {"auto", *DIALECTS}


def test_every_knob_says_what_it_does() -> None:
    def walk(model: Any) -> None:
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name}"
            if hasattr(field.annotation, "model_fields"):
                walk(field.annotation)

    walk(Settings)


TOO_MUCH = {
    "a title that is too long": ("about", {"title": "t" * 257}, "at most 256 characters"),
    "too many icons": ("about", {"icons": [{"src": "https://b.example/i.png"}] * 11}, "at most 10 items"),
}


@each_row_and(TOO_MUCH)
def test_what_clients_cannot_be_told_of_the_server_is_a_fault(knob: str, value: Any, told: str) -> None:
    assert told in fault(mcp={"server": {knob: value}})


def test_an_icon_may_be_had_from_elsewhere_or_stand_in_the_settings() -> None:
    icons = [{"src": "https://b.example/i.png", "sizes": ["48x48", "any"]}, {"src": "data:image/png;base64,AAAA"}]
    made = settings(mcp={"server": {"about": {"icons": icons}}})
    assert [icon.src for icon in made.mcp.server.about.icons] == [icon["src"] for icon in icons]


ISSUER = {"issuer": "https://login.example.com"}


@each("given", [{}, {"cache": "60s"}, {"client_id": "gw"}])
def test_an_issuer_is_asked_about_tokens_where_introspection_is_given_even_with_its_defaults(given: Any) -> None:
    asked, signed = Issuer.model_validate(ISSUER | {"introspection": given}), Issuer.model_validate(ISSUER)
    assert (asked.introspects, signed.introspects) == (True, False)
    assert asked != signed, "a reload would not see the difference"
    assert asked == Issuer.model_validate(ISSUER | {"introspection": given})
