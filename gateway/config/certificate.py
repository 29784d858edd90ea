"""Read certificate and key of the public port."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final, NamedTuple

from gateway.config.source import ConfigError
from gateway.http_client.tls import TlsFiles
from gateway.settings.server import ListenerTls

_PARTS: Final = {"cert_file": ("certificate", b"CERTIFICATE-----"), "key_file": ("key", b"PRIVATE KEY-----")}


class Certificate(NamedTuple):
    """Hold what the public port shows its clients. ``end`` is the Unix time from which on no client trusts it."""

    context: ssl.SSLContext
    file: str
    end: float


def read_certificate(files: ListenerTls) -> Certificate | None:
    """Return the certificate, None for a port without TLS. Raises :class:`ConfigError` with knob, file and remedy."""
    if files.cert_file is None or files.key_file is None:
        return None
    for knob, (part, mark) in _PARTS.items():
        file = getattr(files, knob)
        try:
            if mark not in Path(file).read_bytes():
                raise _fault(knob, file, f"has no {part} in PEM; are the files exchanged?")
        except OSError as error:
            words = (error.strerror or str(error)).lower()
            raise _fault(
                knob, file, f"{words}; it must be there, and the gateway's user must be able to read it"
            ) from None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])

    def refuse() -> str:  # else OpenSSL would ask on the terminal
        raise _fault("key_file", files.key_file, "is encrypted; decrypt it with: openssl pkey -in OLD -out NEW")

    try:
        context.load_cert_chain(files.cert_file, files.key_file, refuse)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            remedy = "it must be that of the first one there, which is the gateway's own"
            raise _fault("key_file", files.key_file, f"is not the key of {files.cert_file}; {remedy}") from None
        reason = (error.reason or "no reason given").replace("_", " ").lower()
        raise _fault(
            "cert_file", files.cert_file, f"unusable with {files.key_file}: {reason}; write both anew"
        ) from None
    end = TlsFiles(cert=files.cert_file).certificate_end()
    if end is None:
        raise _fault("cert_file", files.cert_file, "has a certificate that cannot be read; write it anew")
    return Certificate(context, files.cert_file, end)


def _fault(knob: str, file: str | None, reason: str) -> ConfigError:
    return ConfigError([f"server.tls.{knob}: {file}: {reason}"])
