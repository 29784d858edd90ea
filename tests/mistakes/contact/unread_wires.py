"""First contacts thought up by somebody who had not read how the gateway finds causes: no HTTP, no TLS, no URL."""

from __future__ import annotations

import asyncio
from typing import Final

from tests.mistakes.contact.row import Contact
from tests.mistakes.contact.stand_ins import Http, Raw, always, greeting, listed

_ROOT: Final = "http://<host>/"
_PARSE_ERROR: Final = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'
_CUT: Final = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{"jsonrpc"'
_TRUSTED: Final = ("backend.tls.ca_file=<dir>/ca.pem",)


async def _mute(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Read until the client has had enough."""
    await reader.read()


async def _drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 4000\r\n\r\n")
    while not reader.at_eof():
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.5)


SOCKETS: Final = (
    Contact("SSH.", greeting(b"SSH-2.0-dropbear_2022.83\r\n"), "SSH-2.0-dropbear", "backend.url", _ROOT),
    Contact("FTP.", greeting(b"220 (vsFTPd 3.0.5)\r\n"), "220 (vsFTPd 3.0.5)", "backend.url", _ROOT),
    Contact("Redis.", greeting(b"-ERR wrong number of arguments for 'post' command\r\n", waits=True),
            "-ERR wrong number of arguments", "backend.url", _ROOT),
    Contact("MySQL.", greeting(b"J\x00\x00\x00\n8.0.35\x00\x0b\x00\x00\x00abcdefgh\x00\xff\xf7\xff\x02\x00"),
            "8.0.35", "backend.url", _ROOT),
    Contact("PostgreSQL says nothing.", greeting(b"", waits=True), "the connection ended", "backend.url", _ROOT),
    Contact("A JSON line.", greeting(_PARSE_ERROR + b"\n", waits=True), "without HTTP", "tcp://", _ROOT),
    Contact("memcached.", greeting(b"ERROR\r\n", waits=True), '"ERROR"', "backend.url", _ROOT),
    Contact("A language server, without a type.",
            greeting(b"Content-Length: %d\r\n\r\n%s" % (len(_PARSE_ERROR), _PARSE_ERROR), waits=True),
            "Content-Length", "cannot be shared", _ROOT),
    Contact("A debug adapter that talks first.",
            greeting(b"Content-Length: 42\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n"
                     b'{"jsonrpc":"2.0","method":"window/logMess"'),
            "Content-Length", "cannot be shared", _ROOT),
    Contact("gRPC that sends its settings.", greeting(b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00\x40\x00"),
            "HTTP/2", "HTTP/1.1", _ROOT),
    Contact("gRPC that goes away.", greeting(b"\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01",
                                             waits=True),
            "HTTP/2", "HTTP/1.1", _ROOT),
    Contact("It ends within its answer.", greeting(_CUT, waits=True), "ended before", "log", _ROOT),
    Contact("Half a status line.", greeting(b"HTTP/1.1 2", waits=True), "ended before", "log", _ROOT),
    Contact("A drip.", Raw(_drip), "does not answer in time", "backend.listing.timeout", _ROOT),
    Contact("Nothing comes.", Raw(_mute), "does not answer in time", "backend.listing.timeout", _ROOT),
)  # fmt: skip

TLS: Final = (
    Contact("TLS complains in TLS.", greeting(b"\x15\x03\x01\x00\x02\x02\x46", waits=True), "TLS", "https://<host>/",
            _ROOT),
    Contact("SSH, and the URL says https.", greeting(b"SSH-2.0-OpenSSH_9.2p1\r\n"), "SSH-2.0-OpenSSH_9.2p1",
            "backend.url", "https://<host>/"),
    Contact("A mail server, and the URL says https.", greeting(b"220 mail.example.com ESMTP\r\n"),
            "220 mail.example.com ESMTP", "backend.url", "https://<host>/"),
    Contact("No TLS comes.", Raw(_mute), "TLS", "http://", "https://<host>/"),
    Contact("The URL says https, the port http.", Http(listed()), "without TLS", "http://<host>/", "https://<host>/"),
    Contact("An appliance whose certificate expired.", Http(listed(), names=("nas.lan",), expired=True), "has expired",
            "backend.tls.fingerprint", "https://<host>/"),
    Contact("An authority's certificate expired.", Http(listed(), names=("127.0.0.1",), expired=True), "has expired",
            "enew", "https://<host>/", _TRUSTED),
    Contact("An appliance of another name.", Http(listed(), names=("nas.lan",)), "nas.lan", "backend.tls.fingerprint",
            "https://<host>/"),
    Contact("The pinned certificate is another.", Http(listed(), names=("nas.lan",)), "another than the pinned",
            "fingerprint", "https://<host>/", (f"backend.tls.fingerprint={'ab' * 32}",)),
    Contact("A certificate of the client is wanted.", Http(listed(), names=("127.0.0.1",), clients=True),
            "client certificate", "backend.tls.cert_file", "https://<host>/", _TRUSTED),
)  # fmt: skip

URLS: Final = (
    Contact("Two spaces after the URL.", Http(listed()), "openrpc", "", "http://<host>/  ", code=0),
    Contact("An address without a scheme.", Http(listed()), "http://<host>/rpc", "http://", "<host>/rpc", code=2),
    Contact("The shortest IPv6 address.", Http(listed()), "bracket", "http://[fe80::1]", "http://fe80::1/", code=2),
    Contact("An IPv6 address with a zone.", Http(listed()), "bracket", "http://[fe80::1%eth0]",
            "http://fe80::1%eth0/", code=2),
    Contact("A port that is too large.", always(""), "port", "65535", "http://127.0.0.1:80800/", code=2),
    Contact("A port that is no number.", always(""), "port", "65535", "http://127.0.0.1:http/", code=2),
    Contact("Quotes of a word processor.", always(""), "quot", "http", "“http://<host>/”", code=2),
    Contact("A misspelled scheme.", always(""), "http://", "https://", "htp://<host>/", code=2),
    Contact("One slash alone.", always(""), "http://", "host", "http:/<host>/", code=2),
    Contact("A secure WebSocket's URL.", Http(listed()), "without TLS", "http://", "wss://<host>/"),
    Contact("A token as the user.", Http(listed()), "user name or password", "mode: basic", "http://x-token@<host>/",
            code=2),
    Contact("A name that nobody knows.", always(""), "cannot be resolved", "name", "http://rpc.nowhere.invalid/"),
    Contact("A proxy's variable, and nobody listens.", always(""), "Nothing listens", "backend.proxy",
            "http://127.0.0.1:9/", environ={"ALL_PROXY": "http://10.0.0.9:3128"}),
)  # fmt: skip

ROWS: Final = (*SOCKETS, *TLS, *URLS)
