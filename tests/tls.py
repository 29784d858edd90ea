"""Certificates for servers and clients of a test, by authorities that nobody else trusts.

authority = Authority(tmp_path)
context = authority.server("127.0.0.1")             # for a server in this process
pem = authority.server_pem("127.0.0.1")             # for one in another
knobs = [f"backend.tls.ca_file={authority.file}"]
"""

from __future__ import annotations

import itertools
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

HOST = "127.0.0.1"

# A day that stays: pages show it, and tests compare them with what was said.
EXPIRED = datetime(2026, 1, 31, tzinfo=UTC)


class Authority:
    """An authority; its certificate (PEM) is in ``file``, and all else that it makes in the same ``directory``."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self.file = directory / f"{name}.pem"
        self._authority = trustme.CA(organization_name=name)
        self._authority.cert_pem.write_to_path(self.file)
        self._pems = (directory / f"{name}-{number}.pem" for number in itertools.count(1))

    def server(
        self,
        *names: str,
        expired: bool = False,
        clients_of: Authority | None = None,
        version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    ) -> ssl.SSLContext:
        """What a server of these names shows; with ``clients_of`` it wants a certificate of that authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.maximum_version = version
        self._issue(*names, expired=expired).configure_cert(context)
        if clients_of is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(clients_of.file)
        return context

    def server_pem(self, *names: str, expired: bool = False) -> Path:
        """Key and certificates in one file (PEM)."""
        return self._written(self._issue(*names, expired=expired))

    def client_pem(self) -> Path:
        """A client's key and certificates in one file (PEM)."""
        return self._written(self._issue("gateway.example.com"))

    def _issue(self, *names: str, expired: bool = False) -> trustme.LeafCert:
        end = EXPIRED if expired else datetime.now(UTC) + timedelta(days=1)
        return self._authority.issue_cert(*names or (HOST,), not_before=end - timedelta(days=30), not_after=end)

    def _written(self, leaf: trustme.LeafCert) -> Path:
        path = next(self._pems)
        leaf.private_key_and_cert_chain_pem.write_to_path(path)
        return path
