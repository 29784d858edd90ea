"""The files of server.tls: what is wrong with them, in words that name the knob, the file and the remedy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from gateway.aiohttp_app import aiohttp_app
from gateway.config.certificate import read_certificate
from gateway.config.source import ConfigError
from gateway.config.warnings import config_warnings
from gateway.settings.server import ListenerTls
from tests.configuring import BASE, URL, faults, file
from tests.each import each
from tests.protocol.conftest import settings


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def issued(authority: trustme.CA, folder: Path, days: float = 90) -> ListenerTls:
    end = datetime.now(UTC) + timedelta(days=days)
    leaf = authority.issue_cert("gw.example.com", not_before=end - timedelta(days=100), not_after=end)
    leaf.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    leaf.private_key_pem.write_to_path(folder / "key.pem")
    return ListenerTls(cert_file=str(folder / "cert.pem"), key_file=str(folder / "key.pem"))


def fault(files: ListenerTls) -> str:
    with pytest.raises(ConfigError) as caught:
        read_certificate(files)
    (text,) = caught.value.faults
    return text


def encrypted(key: Path) -> None:
    loaded = serialization.load_pem_private_key(key.read_bytes(), None)
    way = serialization.BestAvailableEncryption(b"secret")
    form = serialization.PrivateFormat.PKCS8
    key.write_bytes(loaded.private_bytes(serialization.Encoding.PEM, form, way))


def test_a_pair_is_read_with_the_end_of_its_certificate(authority: trustme.CA, tmp_path: Path) -> None:
    found = read_certificate(issued(authority, tmp_path, days=30))
    assert found is not None
    assert 29 < (found.end - datetime.now(UTC).timestamp()) / 86400 < 30.1
    assert read_certificate(ListenerTls()) is None


def test_the_earliest_end_of_the_chain_counts(authority: trustme.CA, tmp_path: Path) -> None:
    files = issued(authority, tmp_path, days=90)
    (tmp_path / "other").mkdir()
    issued(authority, tmp_path / "other", days=20)
    chain = (tmp_path / "cert.pem").read_bytes() + (tmp_path / "other" / "cert.pem").read_bytes()
    (tmp_path / "cert.pem").write_bytes(chain)
    found = read_certificate(files)
    assert found is not None
    assert (found.end - datetime.now(UTC).timestamp()) / 86400 < 20.1


@each("missing", ["cert", "key"])
def test_a_missing_file_is_named_with_its_knob(authority: trustme.CA, tmp_path: Path, missing: str) -> None:
    files = issued(authority, tmp_path)
    (tmp_path / f"{missing}.pem").unlink()
    start = f"server.tls.{missing}_file: {tmp_path}/{missing}.pem: no such file or directory; "
    assert fault(files) == f"{start}the gateway's user must be able to read it"


def test_a_file_that_cannot_be_read_is_named(authority: trustme.CA, tmp_path: Path) -> None:
    files = issued(authority, tmp_path)
    (tmp_path / "key.pem").unlink()
    (tmp_path / "key.pem").mkdir()  # root may read whatever has a mode
    assert fault(files).startswith(f"server.tls.key_file: {tmp_path}/key.pem: is a directory; the gateway's user must ")


def test_an_encrypted_key_is_named_and_nobody_is_asked_for_its_password(authority: trustme.CA, tmp_path: Path) -> None:
    files = issued(authority, tmp_path)
    encrypted(tmp_path / "key.pem")
    remedy = "is encrypted; decrypt it with: openssl pkey -in OLD -out NEW"
    assert fault(files) == f"server.tls.key_file: {tmp_path}/key.pem: {remedy}"


def test_a_key_of_another_certificate_is_named(authority: trustme.CA, tmp_path: Path) -> None:
    files = issued(authority, tmp_path)
    authority.issue_cert("other.example.com").private_key_pem.write_to_path(tmp_path / "key.pem")
    assert fault(files) == (
        f"server.tls.key_file: {tmp_path}/key.pem: is not the key of the first certificate in {tmp_path}/cert.pem; "
        "write both anew"
    )


def test_exchanged_files_are_said_to_be(authority: trustme.CA, tmp_path: Path) -> None:
    files = issued(authority, tmp_path)
    exchanged = ListenerTls(cert_file=files.key_file, key_file=files.cert_file)
    place = f"server.tls.cert_file: {tmp_path}/key.pem"
    assert fault(exchanged) == f"{place}: has no certificates in PEM; is it exchanged with key_file, or cut?"


@each("broken", ["cert", "key"])
def test_a_broken_file_is_a_fault(authority: trustme.CA, tmp_path: Path, broken: str) -> None:
    files = issued(authority, tmp_path)
    path = tmp_path / f"{broken}.pem"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "AAAA", lines[-1]]))
    remedy = "is it exchanged with key_file, or cut?" if broken == "cert" else "write both anew"
    assert fault(files).startswith(f"server.tls.{broken}_file: {path}: ")
    assert fault(files).endswith(remedy)


def test_one_file_without_the_other_is_a_fault(tmp_path: Path) -> None:
    (found,) = faults(file(tmp_path, f"{BASE}server: {{tls: {{cert_file: a.pem}}}}\n"))
    assert found == "server.tls: cert_file and key_file must be set together"


@each(("days", "words"), [(13.5, "ends on "), (-1, "ended on "), (15, None)])
def test_an_end_within_fourteen_days_is_remarked(
    authority: trustme.CA, tmp_path: Path, days: float, words: str | None
) -> None:
    files = issued(authority, tmp_path, days)
    knobs = (f"server.tls.cert_file={files.cert_file}", f"server.tls.key_file={files.key_file}")
    found = [one for one in config_warnings(settings(URL, *knobs)) if one.startswith("server.tls.cert_file: ")]
    assert [words in one for one in found] == ([True] if words else [])  # type: ignore[operator]


def test_within_aiohttp_the_knob_is_a_fault(authority: trustme.CA, tmp_path: Path) -> None:
    files = issued(authority, tmp_path)
    knobs = (f"server.tls.cert_file={files.cert_file}", f"server.tls.key_file={files.key_file}")
    with pytest.raises(ConfigError, match=r"^server\.tls: the port is aiohttp's: give it the certificate"):
        aiohttp_app(settings(URL, *knobs))


def test_the_address_of_a_gateway_with_a_certificate_is_https(authority: trustme.CA, tmp_path: Path) -> None:
    files = issued(authority, tmp_path)
    knobs = (f"server.tls.cert_file={files.cert_file}", f"server.tls.key_file={files.key_file}", "server.port=8443")
    (service,) = settings(URL, *knobs).by_mount.values()
    assert service.resource == "https://127.0.0.1:8443/mcp"
