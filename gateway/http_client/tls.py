"""TLS towards other servers: which files it takes, and why it failed, in words that name the knob and no host."""

import asyncio
import hashlib
import re
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from gateway.http_client.response import ConnectFailed

# Codes of X509_verify_cert_error_string(3).
_OUT_OF_TIME: Final = (9, 10)
_OTHER_NAME: Final = (62, 64)
# Alerts of a server that wants another client certificate than the one it got (RFC 8446 §6.2, RFC 5246 §7.2.2).
CERTIFICATE_ALERT: Final = re.compile("ALERT_.*CERTIFICATE|ALERT_UNKNOWN_CA|ALERT_HANDSHAKE_FAILURE")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Name PEM files, else the system's CAs count, without a client certificate. Errors mention the knobs."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    ca_knob: str = "ca_file"
    cert_knob: str | None = None
    server_name: str | None = None
    fingerprint: str | None = None

    @property
    def is_default(self) -> bool:
        """Return whether no knob is set, so that all connections may share one context."""
        return self.ca is None and self.cert is None and self.fingerprint is None

    def check_pinned(self, connection: asyncio.BaseTransport) -> None:
        """Raise :class:`ConnectFailed`, before anything is sent, where the other side is not the pinned one."""
        tls = connection.get_extra_info("ssl_object")
        if self.fingerprint is None or tls is None:
            return
        shown = fingerprint(tls.getpeercert(binary_form=True))
        if shown.replace(":", "").lower() != self.fingerprint.replace(":", "").lower():
            raise ConnectFailed(f"its TLS certificate is another than the pinned one; it has the fingerprint {shown}")

    def certificate_end(self) -> float | None:
        """Return the Unix time at which the client certificate ends, None without a readable one."""
        if self.cert is None:
            return None
        try:
            found = x509.load_pem_x509_certificates(Path(self.cert).read_bytes())
        except (OSError, ValueError):
            return None
        return min(one.not_valid_after_utc.timestamp() for one in found)

    def context(self) -> ssl.SSLContext:
        """Return the TLS context. Raises :class:`OSError`, with the knob and the file, where one cannot be used."""
        place = f"{self.ca_knob}: {self.ca}"
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert:
                place = f"{self.cert_knob}: {self.cert} with key_file {self.key}"
                context.load_cert_chain(self.cert, self.key)
            if self.fingerprint:  # check_pinned then decides
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        except OSError as error:
            wrong = "not the PEM file that belongs here; are files exchanged?"
            reason = wrong if isinstance(error, ssl.SSLError) else error.strerror or str(error)
            raise OSError(error.errno, reason, place) from error
        return context


def read_certificate(der: bytes) -> tuple[list[str], str, str]:
    """Return at most eight names of a certificate (DER; its SANs, else its common name), its SHA-256, and "expired on
    2026-01-31" once it has. Raises :class:`ValueError`."""
    found = x509.load_der_x509_certificate(der)
    try:
        alternatives = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        addresses = map(str, alternatives.get_values_for_type(x509.IPAddress))
        names = [*alternatives.get_values_for_type(x509.DNSName), *addresses]
    except (x509.ExtensionNotFound, ValueError):
        names = [str(one.value) for one in found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    end = found.not_valid_after_utc
    return names[:8], fingerprint(der), f"expired on {end:%Y-%m-%d}" if end < datetime.now(UTC) else ""


def fingerprint(certificate: bytes) -> str:
    """Return the SHA-256 of a certificate (DER), as people compare it."""
    return hashlib.sha256(certificate).digest().hex(":").upper()


def certificate_reason(error: Exception, tls: TlsFiles) -> str:
    """Return why a certificate is refused, without the host, which OpenSSL's message names."""
    code = getattr(error, "verify_code", None)
    if code in _OTHER_NAME:
        return "its TLS certificate is for another name; the URL must have one that the certificate has"
    if code in _OUT_OF_TIME:
        return "its TLS certificate has expired, or is not valid yet"
    if tls.ca is None:
        return f"its TLS certificate is not trusted; if its CA is your own, name that in {tls.ca_knob}"
    return f"its TLS certificate is not trusted: no CA in {tls.ca_knob} has signed it"


def tls_reason(error: OSError, tls: TlsFiles) -> str:
    code = str(getattr(error, "reason", None) or "no reason given")
    reason = "TLS failed: " + code.replace("_", " ").lower()
    if tls.cert_knob is None or not CERTIFICATE_ALERT.search(code):
        return reason
    if tls.cert is None:
        return f"{reason}; if a client certificate is wanted, name it in {tls.cert_knob}"
    return f"{reason}; the certificate in {tls.cert_knob} is refused"
