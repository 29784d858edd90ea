"""Mistakes in the configuration: of a newcomer's first hour, and of an operator.

Each expectation was written before its row was run.
"""

from __future__ import annotations

from typing import Final

import trustme

from tests.mistakes.row import BACKEND, OFF, START, URL, Row, exported, knob, written

_CRM: Final = f"crm: {{backend: {{url: {URL}}}}}"
_LEAF: Final = trustme.CA().issue_cert("gateway.example.com")
_PEMS: Final = {"cert.pem": _LEAF.cert_chain_pems[0].bytes(), "key.pem": _LEAF.private_key_pem.bytes()}

YAML: Final = (
    written("a tab in place of spaces", "tab", "spaces", f"backend:\n\turl: {URL}\n{OFF}"),
    written("no space after a colon", "backend", "space", f"backend:\n  url:{URL}\n{OFF}"),
    written("a key that is not indented", "url", "backend.url", f"backend:\nurl: {URL}\n{OFF}"),
    written("a section twice", "auth", "twice", f"auth: {{mode: jwt}}\n{START}"),
    written("a reference in a flow map", "gateway.yaml", "quote",
            f"backend: {{url: {URL}, credentials: {{mode: static, value: ${{KEY}}}}}}\n{OFF}", KEY="k"),
    written("a pattern without quotes", "*", "quote", f"{START}catalog: {{include: [*]}}\n"),
    written("a password that begins with %", "line 3", "quote",
            f"{OFF}backend:\n  credentials: {{mode: basic, user: ada, password: %secret}}\n  url: {URL}\n"),
    written("a password that is a number", "backend.credentials.password", "quote",
            f"{OFF}backend: {{url: {URL}, credentials: {{mode: basic, user: ada, password: 123456}}}}\n"),
    written("JSON with a comment", "//", "#", f'{{\n  // my service\n  "backend": {{"url": "{URL}"}}\n}}\n'),
    written("an empty file", "gateway.yaml", "--minimal", ""),
    written("a file in Latin-1", "gateway.yaml", "UTF-8", f"# Schlüssel\n{START}".encode("latin-1")),
    written("a folder in place of a file", "backend.tls.ca_file", "folder",
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
    written("another gateway's headers", "backend.headers", "backend.credentials.send",
            f"backend: {{url: {URL}, headers: {{X-Api-Key: k}}}}\n{OFF}"),
    written("auth with enabled: false", "auth.enabled", "auth.mode", f"{BACKEND}auth: {{enabled: false}}\n"),
    written("auth mode none", "auth.mode", "off", f"{BACKEND}auth: {{mode: none}}\n"),
    written("one issuer, without the list", "auth.issuer", "auth.issuers",
            f"{BACKEND}auth: {{issuer: https://login.example.com}}\n"),
    written("a map in place of the list of issuers", "auth.issuers", "[{issuer:",
            f"{BACKEND}auth: {{issuers: {{issuer: https://login.example.com}}}}\n"),
    written("nothing about who may call", "auth.issuers", "auth.mode", BACKEND),
)  # fmt: skip

VALUES: Final = (
    knob("a URL without http://", "backend.url", "http://", "backend.url=127.0.0.1:8000/jsonrpc"),
    knob("a password in the URL", "backend.url", "backend.credentials", "backend.url=http://ada:secret@127.0.0.1/"),
    written("a scope in place of a list", "auth.scopes.call", "[books:read, books:write]",
            f"{BACKEND}auth: {{mode: off, scopes: {{call: books:read books:write}}}}\n"),
    written("the word yes for a switch", "backend.params.always", "true",
            f'backend: {{url: {URL}, params: {{always: "yes"}}}}\n{OFF}'),
    knob("a duration in words", "catalog.ttl", "5m", "catalog.ttl=5 minutes"),
    knob("a timeout in milliseconds without a unit", "backend.timeout", "seconds", "backend.timeout=30000"),
    knob("a size in megabytes", "server.max_body", "MiB", "server.max_body=10MB"),
    knob("a negative number", "limits.concurrent", "at least 1", "limits.concurrent=-1"),
    knob("a rate without its time", "limits.invocation", "100/minute", "limits.invocation=100"),
    knob("a max_stale below ttl", "catalog.max_stale", "catalog.ttl", "catalog.ttl=1h", "catalog.max_stale=1m"),
    knob("a port out of range", "server.port", "65535", "server.port=80800"),
    knob("a log level of another program", "telemetry.log.level", "warning", "telemetry.log.level=warn"),
    knob("a dialect misspelled", "backend.listing.dialect", "openrpc", "backend.listing.dialect=open-rpc"),
    knob("a JSONPath that does not compile", "backend.listing.custom.methods", "$",
         "backend.listing.dialect=custom", "backend.listing.custom={method: list, methods: 'functions[*'}"),
    knob("the path in the public URL", "server.public_url", "without", "server.public_url=https://gw.example.com/mcp"),
    knob("a host with its scheme", "server.allowed_hosts", "without", "server.allowed_hosts=[https://gw.example.com]"),
    knob("an origin without its scheme", "server.allowed_origins", "https://app.example.com",
         "server.allowed_origins=[app.example.com]"),
    knob("a network with bits of a host", "server.trusted_proxies", "10.0.0.0/8",
         "server.trusted_proxies=[10.0.0.1/8]"),
    knob("a name in place of a network", "server.trusted_proxies", "CIDR", "server.trusted_proxies=[nginx]"),
)  # fmt: skip

ELSEWHERE: Final = (
    written("a variable that is not set", "BACKEND_KEY", "set",
            f"backend: {{url: {URL}, credentials: {{mode: static, value: '${{BACKEND_KEY}}'}}}}\n{OFF}"),
    written("a secret file that is not there", "backend.credentials.value", "/absent/key",
            f"backend: {{url: {URL}, credentials: {{mode: static, value: '${{file:/absent/key}}'}}}}\n{OFF}"),
    exported("a variable with one underscore", "GATEWAY_SERVER_PORT", "GATEWAY__SERVER__PORT",
             GATEWAY_SERVER_PORT="9000"),
    exported("a variable of an unknown knob", "GATEWAY__SERVER__PUBLICURL", "GATEWAY__SERVER__PUBLIC_URL",
             GATEWAY__SERVER__PUBLICURL="https://gw.example.com"),
    exported("a list with commas in a variable", "GATEWAY__SERVER__ALLOWED_HOSTS", "[a.example.com, b.example.com]",
             GATEWAY__SERVER__ALLOWED_HOSTS="a.example.com,b.example.com"),
    exported("quotes in a variable", "GATEWAY__BACKEND__URL", "without quotes", GATEWAY__BACKEND__URL=f'"{URL}"'),
    exported("an issuer as text in a variable", "GATEWAY__AUTH__ISSUERS", "{issuer:",
             GATEWAY__AUTH__ISSUERS="https://login.example.com"),
)  # fmt: skip

TOGETHER: Final = (
    knob("open to all on every address", "server.host", "auth.allow_unauthenticated", "server.host=0.0.0.0"),
    knob("workers with a store in memory", "server.workers", "redis://", "server.workers=4"),
    knob("one port twice", "server.admin_port", "server.port", "server.port=9000", "server.admin_port=9000"),
    knob("Redis without a secret", "server.secret_file", "store.url", "store.url=redis://127.0.0.1:6379/0"),
    knob("a secret that is too short", "server.secret_file", "openssl rand", "server.secret_file=key", key="s3cret"),
    knob("a certificate without its key", "backend.tls.cert_file", "backend.tls.key_file",
         "backend.url=https://127.0.0.1/", "backend.tls.cert_file=cert.pem", **_PEMS),
    knob("a certificate and its key exchanged", "backend.tls.cert_file", "backend.tls.key_file",
         "backend.url=https://127.0.0.1/", "backend.tls.cert_file=key.pem", "backend.tls.key_file=cert.pem", **_PEMS),
    knob("a user without a mode", "backend.credentials", "mode: basic",
         "backend.credentials.user=ada", "backend.credentials.password=secret"),
    knob("a header's value without a mode", "backend.credentials.value", "static",
         "backend.credentials.value=Bearer k"),
    knob("dialect static without a file", "backend.listing", "backend.listing.file", "backend.listing.dialect=static"),
    knob("a pin file that is not there", "catalog.pin", "tools --pin", "catalog.pin=tools.pin"),
)  # fmt: skip

SERVICES: Final = (
    written("a service with a capital", "CRM", "lower-case", f"{OFF}services: {{CRM: {{backend: {{url: {URL}}}}}}}\n"),
    written("a service with a hyphen", "my-shop", "my_shop",
            f"{OFF}services: {{my-shop: {{backend: {{url: {URL}}}}}}}\n"),
    written("two services of one name", "crm", "twice", f"{OFF}services:\n  {_CRM}\n  {_CRM}\n"),
    written("services as a list", "services", "crm:", f"{OFF}services: [{{name: crm, backend: {{url: {URL}}}}}]\n"),
    written("a backend beside services", "backend", "services.crm.backend", f"{START}services: {{{_CRM}}}\n"),
    written("the server's knobs in a service", "services.crm.server", "top level",
            f"{OFF}services: {{crm: {{backend: {{url: {URL}}}, server: {{port: 9000}}}}}}\n"),
)  # fmt: skip

ROWS: Final[tuple[Row, ...]] = (*YAML, *PLACES, *VALUES, *ELSEWHERE, *TOGETHER, *SERVICES)
