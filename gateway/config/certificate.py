"""Read certificate and key of the public port."""

import ssl
from pathlib import Path
from typing import NamedTuple

from gateway.config.source import ConfigError
from gateway.http_client.tls import TlsFiles
from gateway.settings.server import ListenerTls


class Certificate(NamedTuple):
    """Hold what the public port shows its clients. ``end`` is the Unix time from which on no client trusts it."""

    context: ssl.SSLContext
    file: str
    end: float


def read_certificate(files: ListenerTls) -> Certificate | None:
    """Return the certificate, None for a port without TLS. Raises :class:`ConfigError` with knob, file and remedy."""
    cert, key = files.cert_file, files.key_file
    if cert is None or key is None:
        return None
    knob, file = "cert_file", cert
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])

    def refuse() -> str:  # else OpenSSL would ask on the terminal
        raise ValueError("is encrypted; decrypt it with: openssl pkey -in OLD -out NEW")

    try:
        Path(cert).read_bytes()  # OpenSSL does not say which of the two it cannot read
        if (end := TlsFiles(cert=cert).certificate_end()) is None:
            raise ValueError("has no certificates in PEM; is it exchanged with key_file, or cut?")
        knob, file = "key_file", key
        Path(key).read_bytes()
        context.load_cert_chain(cert, key, refuse)
    except ssl.SSLError as error:
        is_other = error.reason == "KEY_VALUES_MISMATCH"
        words = "is not the key of the first certificate in" if is_other else "is no key in PEM that fits"
        raise ConfigError([f"server.tls.{knob}: {file}: {words} {cert}; write both anew"]) from None
    except OSError as error:
        words = f"{(error.strerror or str(error)).lower()}; the gateway's user must be able to read it"
        raise ConfigError([f"server.tls.{knob}: {file}: {words}"]) from None
    except ValueError as error:
        raise ConfigError([f"server.tls.{knob}: {file}: {error}"]) from None
    return Certificate(context, cert, end)
