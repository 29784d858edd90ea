"""TLS towards the service: nothing is sent before both sides are who they should be, and the log says what is wrong."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from structlog.testing import capture_logs

from gateway.config.source import ConfigError, load_settings
from gateway.http_client.lean import LeanTransport
from gateway.http_client.response import ConnectFailed
from gateway.http_client.session import Outbound
from gateway.http_client.tls import TlsFiles, fingerprint
from tests.each import each
from tests.fault.methods import ADD
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Surface, front
from tests.program import run, settings
from tests.tls import HOST, Authority

NOT_TRUSTED = "its TLS certificate is not trusted; if its CA is your own, name that in backend.tls.ca_file"
NOT_BY_OURS = "its TLS certificate is not trusted: no CA in backend.tls.ca_file has signed it"
OTHER_NAME = "its TLS certificate is for another name; the URL must have one that the certificate has"
OUT_OF_TIME = "its TLS certificate has expired, or is not valid yet"


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


@pytest.fixture
def theirs(tmp_path: Path) -> Authority:
    """An authority of somebody else."""
    return Authority(tmp_path, "theirs")


@dataclass(frozen=True)
class Case:
    """A service and a gateway that do not suit each other; ``reason`` is what the log says of it, where it can tell."""

    names: tuple[str, ...] = (HOST,)
    expired: bool = False
    trusts: str | None = "ours"
    wants_client: bool = False
    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    shows: str | None = None
    reason: str = field(default="")


CASES = {
    "no authority": Case(trusts=None, reason=NOT_TRUSTED),
    "another authority": Case(trusts="theirs", reason=NOT_BY_OURS),
    "another name": Case(names=("service.example.com",), reason=OTHER_NAME),
    "another address": Case(names=("127.0.0.2", "localhost"), reason=OTHER_NAME),
    "expired": Case(expired=True, reason=OUT_OF_TIME),
    "no client certificate": Case(wants_client=True),
    "no client certificate, TLS 1.2": Case(wants_client=True, version=ssl.TLSVersion.TLSv1_2),
    "another's client certificate": Case(wants_client=True, shows="theirs"),
    "another's client certificate, TLS 1.2": Case(wants_client=True, shows="theirs", version=ssl.TLSVersion.TLSv1_2),
}


@each("case", CASES)
async def test_nothing_is_sent_to_a_service_that_is_not_trusted_or_does_not_trust_us(
    ours: Authority, theirs: Authority, tmp_path: Path, case: Case
) -> None:
    authorities = {"ours": ours, "theirs": theirs}
    context = ours.server(
        *case.names, expired=case.expired, clients_of=ours if case.wants_client else None, version=case.version
    )
    knobs = [f"backend.tls.ca_file={authorities[case.trusts].file}"] if case.trusts else []
    if case.shows:
        pem = authorities[case.shows].client_pem()
        knobs += [f"backend.tls.cert_file={pem}", f"backend.tls.key_file={pem}"]
    async with ScriptedBackend([ADD], tls=context) as backend:
        saved = tmp_path / "methods.json"
        saved.write_text(json.dumps({"openrpc": "1.2.6", "methods": [ADD.listed()]}))
        named = ("backend.listing.dialect=static", f"backend.listing.file={saved}")
        with capture_logs() as lines:
            async with front(backend.url, *knobs, *named) as gateway:
                for surface in SURFACES:
                    called = await gateway.call(surface, "add", {"a": 1, "b": 2})
                    assert called.failed, called
            async with front(backend.url, *knobs, "backend.listing.dialect=openrpc"):
                pass
        assert backend.requests == []
        assert backend.faults == []
    reasons = [line["reason"] for line in lines if line["event"] == "backend call failed" and not line["again"]]
    assert len(reasons) == len(SURFACES)
    assert not case.reason or set(reasons) == {case.reason}
    (listing,) = [line["steps"] for line in lines if line["event"] == "listing failed"]
    assert all(case.reason in step for step in listing)


@each("surface", SURFACES)
@each("version", {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3})
async def test_where_both_sides_are_who_they_should_be_it_lists_and_calls(
    ours: Authority, surface: Surface, version: ssl.TLSVersion
) -> None:
    pem = ours.client_pem()
    shown = (f"backend.tls.cert_file={pem}", f"backend.tls.key_file={pem}")
    context = ours.server(HOST, clients_of=ours, version=version)
    async with (
        ScriptedBackend([ADD], tls=context) as backend,
        front(backend.url, f"backend.tls.ca_file={ours.file}", *shown) as gateway,
    ):
        assert list(await gateway.tools()) == ["add"]
        assert (await gateway.call(surface, "add", {"a": 1, "b": 2})).value == {"sum": 3}


@dataclass(frozen=True)
class Pinned:
    """A service's certificate, and the knobs that make it do."""

    names: tuple[str, ...]
    knobs: tuple[str, ...]
    expired: bool = False


PINNED: Final = {
    "another name that is named": Pinned(
        ("shop.internal",), ("backend.tls.server_name=shop.internal", "backend.tls.ca_file=@CA@")
    ),
    "a fingerprint": Pinned(("fortigate",), ("backend.tls.fingerprint=@PIN@",)),
    "a fingerprint of one that has expired": Pinned(("fortigate",), ("backend.tls.fingerprint=@PIN@",), expired=True),
}


@asynccontextmanager
async def connect_proxy() -> AsyncIterator[str]:
    """An HTTP proxy that opens tunnels (RFC 9110 §9.3.6), and its URL."""

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode().rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(pipe(reader, far_writer), pipe(far_reader, writer), return_exceptions=True)

    server = await asyncio.start_server(tunnel, HOST, 0)
    try:
        yield f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def pin_of(context: ssl.SSLContext) -> str:
    """Return the SHA-256 of the certificate that a server shows."""
    shown, wanted = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context()
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    ours, theirs = client.wrap_bio(shown, wanted), context.wrap_bio(wanted, shown, server_side=True)
    for _ in range(4):
        for side in (ours, theirs):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    certificate = ours.getpeercert(binary_form=True)
    assert certificate is not None
    return fingerprint(certificate)


@each("pinned", PINNED)
@each("proxied", {"direct": False, "through a proxy": True})
async def test_an_appliance_is_reached_by_the_name_or_the_fingerprint_of_its_certificate(
    ours: Authority, pinned: Pinned, proxied: bool
) -> None:
    context = ours.server(*pinned.names, expired=pinned.expired)
    knobs = [knob.replace("@CA@", str(ours.file)).replace("@PIN@", pin_of(context)) for knob in pinned.knobs]
    async with ScriptedBackend([ADD], tls=context) as backend, AsyncExitStack() as stack:
        if proxied:
            knobs.append(f"backend.proxy={await stack.enter_async_context(connect_proxy())}")
        gateway = await stack.enter_async_context(front(backend.url, *knobs))
        assert (await gateway.call("modern", "add", {"a": 1, "b": 2})).value == {"sum": 3}


@each("expired", [True, False])
async def test_check_remarks_that_a_pinned_certificate_has_expired(ours: Authority, expired: bool) -> None:
    context = ours.server("fortigate", expired=expired)
    async with ScriptedBackend([ADD], tls=context) as backend:
        ran = await run("check", *settings(backend.url, f"backend.tls.fingerprint={pin_of(context)}"))
    assert ran.code == 0
    assert ("backend.tls.fingerprint: this certificate has expired on 20" in ran.said) == expired


@each("proxied", {"direct": False, "through a proxy": True})
async def test_nothing_is_sent_to_a_server_with_another_fingerprint(ours: Authority, proxied: bool) -> None:
    pin = pin_of(ours.server("fortigate"))
    async with ScriptedBackend([ADD], tls=ours.server("fortigate")) as backend, AsyncExitStack() as stack:
        tls, proxy = TlsFiles(fingerprint=pin), None
        if proxied:
            proxy = await stack.enter_async_context(connect_proxy())
        outbound = Outbound(tls=tls, proxy=proxy) if proxied else LeanTransport(tls=tls)
        with pytest.raises(ConnectFailed, match=r"another than the pinned one; it has the fingerprint [0-9A-F:]{95}$"):
            await outbound.request("POST", backend.url, b"{}", {}, timeout=10, max_bytes=1000)
        await outbound.close()
        assert backend.requests == []


@each(
    ("knobs", "said"),
    [
        (("fingerprint=12:34",), "64 hexadecimal digits"),
        (("fingerprint=" + "a" * 64, "server_name=shop.internal"), "neither ca_file nor server_name"),
    ],
)
def test_a_fingerprint_that_cannot_be_one_is_a_fault(knobs: tuple[str, ...], said: str) -> None:
    tls = [f"backend.tls.{knob}" for knob in knobs]
    with pytest.raises(ConfigError, match=said):
        load_settings(None, ["backend.url=https://h/", "auth.mode=off", *tls], environ={})


# --- what the other side says in return -------------------------------------------------------------------------


async def post(url: str, tls: TlsFiles | None = None) -> None:
    outbound = Outbound(tls=tls)
    try:
        await outbound.request("POST", url, b"{}", {}, timeout=10, max_bytes=1000)
    finally:
        await outbound.close()


@contextmanager
def refusing(context: ssl.SSLContext) -> Iterator[str]:
    """A server that says in TLS why it does not go on, which asyncio's keeps to itself."""
    with closing(socket.create_server((HOST, 0))) as listener:
        listener.settimeout(10)

        def serve() -> None:
            with suppress(OSError):
                connection = context.wrap_socket(listener.accept()[0], server_side=True, do_handshake_on_connect=False)
                connection.settimeout(10)
                with suppress(ssl.SSLError):
                    connection.do_handshake()
                # What was sent meanwhile has to be read, or the end would be a reset that overtakes the reason.
                with socket.socket(fileno=connection.detach()) as rest:
                    rest.settimeout(10)
                    while rest.recv(65536):
                        pass

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"https://{HOST}:{listener.getsockname()[1]}/"
        finally:
            thread.join()


@each("version", {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3})
@each(
    ("shows", "remedy"),
    {
        "none": (False, "if a client certificate is wanted, name it in backend.tls.cert_file"),
        "another's": (True, "the certificate in backend.tls.cert_file is refused"),
    },
)
async def test_a_service_that_says_why_it_refuses_our_certificate_is_quoted_with_the_remedy(
    ours: Authority, theirs: Authority, version: ssl.TLSVersion, shows: bool, remedy: str
) -> None:
    pem = str(theirs.client_pem()) if shows else None
    files = TlsFiles(str(ours.file), pem, pem, "backend.tls.ca_file", "backend.tls.cert_file")
    said = rf"^TLS failed: .*alert.*; {remedy}$"
    context = ours.server(HOST, clients_of=ours, version=version)
    with refusing(context) as url, pytest.raises(ConnectFailed, match=said) as caught:
        await post(url, files)
    assert not caught.value.sent, "nobody has read it"
    assert HOST not in str(caught.value)


async def test_what_speaks_no_tls_is_said_so() -> None:
    async with ScriptedBackend() as backend:
        with pytest.raises(ConnectFailed, match=r"^TLS failed: wrong version number$"):
            await post(backend.url.replace("http:", "https:"))
