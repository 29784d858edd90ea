"""Mistakes in the configuration: of a newcomer's first hour, and of an operator.

Each expectation was written before its row was run.
"""

from __future__ import annotations

from typing import Final

import trustme

from tests.mistakes.mistake import Mistake
from tests.mistakes.row import BACKEND, OFF, START, URL, Row, exported, knob, written

_CRM: Final = f"crm: {{backend: {{url: {URL}}}}}"
_LEAF: Final = trustme.CA().issue_cert("gateway.example.com")
_PEMS: Final = {"cert.pem": _LEAF.cert_chain_pems[0].bytes(), "key.pem": _LEAF.private_key_pem.bytes()}

YAML: Final = (
    written("a tab in place of spaces", "tab", "spaces", f"backend:\n\turl: {URL}\n{OFF}"),
    written("no space after a colon", "backend", "space", f"backend:\n  url:{URL}\n{OFF}"),
    written("a key that is not indented", "url", "backend.url", f"backend:\nurl: {URL}\n{OFF}"),
    written("a section twice", "gateway.yaml:3:1", "occurs twice: keep one", f"auth: {{mode: jwt}}\n{START}"),
    written("a pattern without quotes", "gateway.yaml:3:22", "quote", f"{START}catalog: {{include: [*]}}\n"),
    written("a password that begins with %", "gateway.yaml:3:51", "quote",
            f"{OFF}backend:\n  credentials: {{mode: basic, user: ada, password: %secret}}\n  url: {URL}\n"),
    written("a password that is a number", "backend.credentials.password", "quote",
            f"{OFF}backend: {{url: {URL}, credentials: {{mode: basic, user: ada, password: 123456}}}}\n"),
    written("JSON with a comment", "gateway.yaml:3", "begin a comment with #",
            f'{{\n  // my service\n  "backend": {{"url": "{URL}"}}\n}}\n'),
    written("an empty file", "gateway.yaml", "--minimal", ""),
    written("a file in Latin-1", "gateway.yaml: not UTF-8", "save it", f"# Schlüssel\n{START}".encode("latin-1")),
    written("a folder in place of a file", "backend.tls.ca_file: /etc", "directory",
            f"backend: {{url: {URL}, tls: {{ca_file: /etc}}}}\n{OFF}"),
)  # fmt: skip

PLACES: Final = (
    written("a port at the top", "port", "server.port", f"port: 9000\n{START}"),
    written("a name in camelCase", "publicUrl", "public_url",
            f"server: {{publicUrl: https://gw.example.com}}\n{START}"),
    written("a name with hyphens", "max-response", "max_response",
            f"backend: {{url: {URL}, max-response: 1MiB}}\n{OFF}"),
    written("a knob of another section", "backend.ttl", "catalog.ttl", f"backend: {{url: {URL}, ttl: 5m}}\n{OFF}"),
    written("another gateway's listen", "server.listen", "server.port", f"server: {{listen: 9000}}\n{START}"),
    written("another gateway's upstream", "upstream", "backend.url", f"upstream: {URL}\n{OFF}"),
    written("another gateway's log level", "log_level", "telemetry.log.level", f"log_level: debug\n{START}"),
    written("another gateway's headers", "backend.headers.Authorization", "backend.credentials",
            f"backend: {{url: {URL}, headers: {{Authorization: Bearer k}}}}\n{OFF}"),
    written("another gateway's host", "backend.host", "did you mean backend.url?",
            f"backend: {{host: 127.0.0.1, port: 8000}}\n{OFF}"),
    written("a host of the store", "store.host", "did you mean store.url?", f"store: {{host: redis}}\n{START}"),
    written("auth with enabled: false", "auth.enabled", "auth.mode", f"{BACKEND}auth: {{enabled: false}}\n"),
    written("auth mode none", "auth.mode", "off", f"{BACKEND}auth: {{mode: none}}\n"),
    written("the service's credentials as auth", "backend.auth", "did you mean backend.credentials?",
            f"backend: {{url: {URL}, auth: {{user: ada}}}}\n{OFF}"),
    written("an audience beside the issuers", "auth.audience", "auth.issuers.*.audiences",
            f"{BACKEND}auth: {{mode: off, audience: https://gw.example.com/mcp}}\n"),
    written("keys beside the issuers", "auth.jwks_uri", "auth.issuers.*.metadata",
            f"{BACKEND}auth: {{mode: off, jwks_uri: https://login.example.com/keys}}\n"),
    written("one issuer, without the list", "auth.issuer", "did you mean auth.issuers.*.issuer?",
            f"{BACKEND}auth: {{issuer: https://login.example.com}}\n"),
    written("a map in place of the list of issuers", "auth.issuers", "[{issuer:",
            f"{BACKEND}auth: {{issuers: {{issuer: https://login.example.com}}}}\n"),
    written("nothing about who may call", "auth.issuers", "auth.mode", BACKEND),
)  # fmt: skip

VALUES: Final = (
    knob("a URL without http://", "backend.url", "http://", "backend.url=127.0.0.1:8000/jsonrpc"),
    knob("a password in the URL", "backend.url", "backend.credentials", "backend.url=http://ada:secret@127.0.0.1/"),
    written("a scope in place of a list", "auth.scopes.call", "must be a list, such as [one, two]",
            f"{BACKEND}auth: {{mode: off, scopes: {{call: books:read books:write}}}}\n"),
    knob("a duration in words", "catalog.ttl", "5m", "catalog.ttl=5 minutes"),
    knob("a timeout in milliseconds without a unit", "backend.timeout", "seconds", "backend.timeout=30000"),
    knob("a size in megabytes", "server.max_body", "MiB", "server.max_body=10MB"),
    knob("a negative number", "limits.concurrent", "at least 1", "limits.concurrent=-1"),
    knob("a rate without its time", "limits.invocation", "a rate such as 60/minute", "limits.invocation=100"),
    knob("a max_stale below ttl", "max_stale", "at least ttl, which is 1h", "catalog.ttl=1h", "catalog.max_stale=1m"),
    knob("a port out of range", "server.port", "65535", "server.port=80800"),
    knob("a log level of another program", "telemetry.log.level", "warning", "telemetry.log.level=warn"),
    knob("a dialect misspelled", "backend.listing.dialect", "openrpc", "backend.listing.dialect=open-rpc"),
    knob("a JSONPath that does not compile", "backend.listing.custom.methods", "$",
         "backend.listing.dialect=custom", "backend.listing.custom={method: list, methods: 'functions[*'}"),
    knob("the path in the public URL", "server.public_url", "must not end in /mcp",
         "server.public_url=https://gw.example.com/mcp"),
    knob("a host with its scheme", "server.allowed_hosts", "without https://",
         "server.allowed_hosts=[https://gw.example.com]"),
    knob("an origin without its scheme", "server.allowed_origins", "https://app.example.com",
         "server.allowed_origins=[app.example.com]"),
    knob("a network with bits of a host", "server.trusted_proxies", "10.0.0.0/8",
         "server.trusted_proxies=[10.0.0.1/8]"),
    knob("a name in place of a network", "server.trusted_proxies", "CIDR", "server.trusted_proxies=[nginx]"),
)  # fmt: skip

ELSEWHERE: Final = (
    written("a variable that is not set", "BACKEND_KEY", "set it",
            f"backend: {{url: {URL}, "
            f"credentials: {{mode: static, send: {{headers: {{Authorization: '${{BACKEND_KEY}}'}}}}}}}}\n{OFF}"),
    written("a secret file that is not there", "backend.credentials.send", "/absent/key",
            f"backend: {{url: {URL}, "
            f"credentials: {{mode: static, send: {{headers: {{Authorization: '${{file:/absent/key}}'}}}}}}}}\n{OFF}"),
    # A warning: the program goes on, and finds no service.
    Row(Mistake("a variable with one underscore", "GATEWAY_SERVER_PORT", "GATEWAY__SERVER__PORT", 3),
        ("check", "--set", "backend.url=http://127.0.0.1:9/"), {"gateway.yaml": START}, {"GATEWAY_SERVER_PORT": "1"}),
    exported("a variable of an unknown knob", "GATEWAY__SERVER__PUBLICURL", "GATEWAY__SERVER__PUBLIC_URL",
             GATEWAY__SERVER__PUBLICURL="https://gw.example.com"),
    exported("a list with commas in a variable", "server.allowed_hosts", "must be a list, such as [one, two]",
             GATEWAY__SERVER__ALLOWED_HOSTS="a.example.com,b.example.com"),
    exported("quotes in a variable", "GATEWAY__BACKEND__URL", "leave them out", GATEWAY__BACKEND__URL=f'"{URL}"'),
    exported("an issuer as text in a variable", "auth.issuers", "has the form [{issuer:",
             GATEWAY__AUTH__ISSUERS="https://login.example.com"),
)  # fmt: skip

TOGETHER: Final = (
    knob("open to all on every address", "server.host", "auth.allow_unauthenticated", "server.host=0.0.0.0"),
    knob("workers with a store in memory", "server.workers", "redis://", "server.workers=4"),
    knob("one port twice", "port and admin_port", "must differ", "server.port=9000", "server.admin_port=9000"),
    knob("Redis without a secret", "server.secret_file", "store.url", "store.url=redis://127.0.0.1:6379/0"),
    knob("a secret that is too short", "server.secret_file", "openssl rand", "server.secret_file=key", key="s3cret"),
    knob("a certificate without its key", "backend.tls: cert_file", "key_file must be set together",
         "backend.url=https://127.0.0.1/", "backend.tls.cert_file=cert.pem", **_PEMS),
    knob("a certificate and its key exchanged", "backend.tls.cert_file", "are files exchanged",
         "backend.url=https://127.0.0.1/", "backend.tls.cert_file=key.pem", "backend.tls.key_file=cert.pem", **_PEMS),
    knob("a user without a mode", "no user", "mode: basic",
         "backend.credentials.user=ada", "backend.credentials.password=secret"),
    knob("a header's value without a mode", "backend.credentials", "which is for mode: static",
         "backend.credentials.send={headers: {Authorization: Bearer k}}"),
    knob("dialect static without a file", "backend.listing: dialect: static", "file must be set together",
         "backend.listing.dialect=static"),
    knob("a pin file that is not there", "catalog.pin", "tools --pin", "catalog.pin=tools.pin"),
)  # fmt: skip

SERVICES: Final = (
    written("a service with a capital", "CRM", "lower-case", f"{OFF}services: {{CRM: {{backend: {{url: {URL}}}}}}}\n"),
    written("a service with a hyphen", "my-shop", "underscores",
            f"{OFF}services: {{my-shop: {{backend: {{url: {URL}}}}}}}\n"),
    written("two services of one name", "gateway.yaml:4:3", "occurs twice: keep one",
            f"{OFF}services:\n  {_CRM}\n  {_CRM}\n"),
    written("services as a list", "services", "must be a mapping",
            f"{OFF}services: [{{name: crm, backend: {{url: {URL}}}}}]\n"),
    written("a backend beside services", "backend", "services.crm.backend", f"{START}services: {{{_CRM}}}\n"),
    written("the server's knobs in a service", "services.crm.server", "top level",
            f"{OFF}services: {{crm: {{backend: {{url: {URL}}}, server: {{port: 9000}}}}}}\n"),
)  # fmt: skip

ROWS: Final[tuple[Row, ...]] = (*YAML, *PLACES, *VALUES, *ELSEWHERE, *TOGETHER, *SERVICES)
