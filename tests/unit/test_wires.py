"""What a service that is not reached over HTTP cannot be told, and how that is said at start."""

from __future__ import annotations

import pytest

from gateway.config.source import ConfigError, load_settings
from gateway.config.warnings import config_warnings
from tests.each import each

SOCKET = "backend.url=ws://127.0.0.1:9/rpc"
OFF = "auth.mode=off"
JWT = "auth.issuers=[{issuer: 'https://login.example.com'}]"


def faults(*knobs: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_settings(None, knobs, {})
    return list(caught.value.faults)


@each("url", ["ws://127.0.0.1/rpc", "wss://rpc.example.com/", "WS://[::1]:8000/"])
def test_a_websocket_is_an_address_of_a_service(url: str) -> None:
    assert load_settings(None, [f"backend.url={url}", OFF], {}).backend.wire == "websocket"


@each("url", ["ftp://a/", "ws://", "wss:///x", "ws://user:pass@a/"])
def test_another_address_is_none(url: str) -> None:
    (fault,) = faults(f"backend.url={url}", OFF)
    assert fault.startswith("backend.url: ")
    assert "pass" not in fault.partition("must not carry a user name or password")[0]


def test_with_tokens_auto_is_never_silently_nothing() -> None:
    assert faults(SOCKET, JWT) == [
        "backend.credentials.mode: auto means same_resource here, but a WebSocket is opened once for all callers; set "
        "none or static",
        "backend.listing.credentials.mode: auto means same_resource here, but a WebSocket is opened once for all "
        "callers; set none or static",
    ]
    load_settings(None, [SOCKET, JWT, "backend.credentials.mode=none"], {})


@each(
    "mode",
    ["{mode: token_exchange, audience: a, client_id: g, client_secret: s}", "{mode: digest, user: a, password: b}"],
)
def test_what_each_request_would_show_is_a_fault(mode: str) -> None:
    assert (
        "a WebSocket is opened once for all callers; set none or static"
        in faults(SOCKET, JWT, f"backend.credentials={mode}")[0]
    )


@each(
    "knob",
    [
        "caller_headers={X-User: '{sub}'}",
        "proxy=http://proxy.example.com:3128",
        "listing.url=http://a/",
        "listing.language=de",
    ],
)
def test_what_needs_a_request_of_http_is_a_fault(knob: str) -> None:
    (fault,) = faults(SOCKET, JWT, "backend.credentials.mode=none", f"backend.{knob}")
    name = knob.partition("=")[0]
    assert fault == f"backend.{name}: take it out, since a WebSocket is opened once for all callers"


STREAM = "backend.url=tcp://127.0.0.1:9"


@each(
    "url",
    [
        "tcp://127.0.0.1:1705",
        "tls://rpc.example.com:6640",
        "TCP://[::1]:8000/",
        "unix:/run/a.sock",
        "unix:///run/a%20b",
    ],
)
def test_a_stream_is_an_address_of_a_service(url: str) -> None:
    assert load_settings(None, [f"backend.url={url}", OFF], {}).backend.wire == "stream"


@each(
    ("url", "said"),
    [
        ("tcp://host", "host and a port"),
        ("tls://host:1/path", "nothing behind them"),
        ("tcp://host:1?a=b", "nothing behind them"),
        ("tcp://host:0", "host and a port"),
        ("tcp://host:99999", "is not a URL"),
        ("tcp://user:pass@host:1", "must not carry a user name"),
        ("unix:run/a.sock", "unix:/run/service.sock"),
        ("unix:/run/a.sock?x", "unix:/run/service.sock"),
        ("unix:/", "unix:/run/service.sock"),
        ("unix:/a%00b", "unix:/run/service.sock"),
        ("unix:/" + "a" * 107, "more than 107 bytes"),
    ],
)
def test_what_no_stream_can_be_is_a_fault(url: str, said: str) -> None:
    (fault,) = faults(f"backend.url={url}", OFF)
    assert said in fault
    assert "pass" not in fault.partition("must not carry a user name or password")[0]


def test_framing_is_of_streams_alone() -> None:
    assert load_settings(None, [STREAM, OFF, "backend.framing=etx"], {}).backend.framing == "etx"
    (fault,) = faults("backend.url=ws://127.0.0.1:9/", OFF, "backend.framing=etx")
    assert fault.endswith("framing is for tcp, tls and unix, but url has ws: leave it out")
    (fault,) = faults(STREAM, OFF, "backend.framing=lines")
    assert "newline" in fault


@each(
    "credentials",
    [
        "{mode: none}",
        "{mode: static, send: {message: {auth: abc}}}",
        "{mode: static, send: {params: ['token:abc']}}",
        "{mode: login, password: abc, login: {method: l, params: ['{password}'], find: {t: $.result}}, "
        "send: {arguments: {token: '{t}'}}}",
    ],
)
def test_a_stream_takes_credentials_within_the_message(credentials: str) -> None:
    load_settings(None, [STREAM, JWT, f"backend.credentials={credentials}"], {})


@each(
    "credentials",
    [
        "{mode: auto}",
        "{mode: basic, user: a, password: b}",
        "{mode: digest, user: a, password: b}",
        "{mode: client_credentials, client_id: g, client_secret: s}",
        "{mode: token_exchange, audience: a, client_id: g, client_secret: s}",
        "{mode: static, send: {headers: {X-Api-Key: abc}}}",
        "{mode: static, send: {query: {key: abc}}}",
    ],
)
def test_other_credentials_are_faults_with_what_to_set(credentials: str) -> None:
    assert "set none or static" in faults(STREAM, JWT, f"backend.credentials={credentials}")[0]


@each("knob", ["headers={X-A: b}", "caller_headers={X-User: '{sub}'}", "proxy=http://a:3128"])
def test_a_stream_has_no_headers_and_no_proxy(knob: str) -> None:
    (fault,) = faults(STREAM, JWT, "backend.credentials.mode=none", f"backend.{knob}")
    assert fault.startswith(f"backend.{knob.partition('=')[0]}: take it out")


@each(
    ("url", "target", "socket"),
    [
        ("unix+http:/run/app.sock", "http://localhost/", "/run/app.sock"),
        ("unix+http:/run/app.sock:/rpc?a=b", "http://localhost/rpc?a=b", "/run/app.sock"),
        ("unix+http:///run/app.sock:/rpc", "http://localhost/rpc", "/run/app.sock"),
        ("http://127.0.0.1/rpc", "http://127.0.0.1/rpc", None),
    ],
)
def test_a_unix_socket_carries_requests_of_http(url: str, target: str, socket: str | None) -> None:
    backend = load_settings(None, [f"backend.url={url}", OFF], {}).backend
    assert (backend.wire, backend.target, backend.socket) == ("http", target, socket)


def test_a_relative_path_is_no_socket_and_a_socket_has_no_proxy() -> None:
    (fault,) = faults("backend.url=unix+http:app.sock", OFF)
    assert "unix+http:/run/service.sock:/rpc" in fault
    (fault,) = faults("backend.url=unix+http:/run/app.sock", OFF, "backend.proxy=http://proxy.example.com:3128")
    assert fault == "backend.proxy: take it out, since all requests go to one Unix socket"


def test_a_secret_beyond_loopback_without_tls_is_a_remark() -> None:
    send = "backend.credentials={mode: static, send: {headers: {X-Api-Key: abcdefghijkl}}}"
    (remark,) = config_warnings(load_settings(None, ["backend.url=ws://rpc.example.com/", OFF, send], {}))
    assert "rpc.example.com over ws: use wss, or set trusted_network" in remark
    assert [*config_warnings(load_settings(None, ["backend.url=wss://rpc.example.com/", OFF, send], {}))] == []
