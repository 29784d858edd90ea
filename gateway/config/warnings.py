"""Warnings about a valid configuration that may be a mistake, for the log at start and for ``check``."""

import os
import stat
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import structlog

from gateway.config.certificate import read_certificate
from gateway.credentials import credential_modes
from gateway.settings import Settings, is_loopback

_SAFER: Final = {"http": "https", "ws": "wss", "tcp": "tls"}
"""Schemes without TLS, and those with."""
_SOON: Final = 14 * 24 * 3600  # seconds

log = structlog.get_logger()


def config_warnings(settings: Settings) -> Iterator[str]:
    """Yield a sentence for each, which begins with the knob. Raises :class:`gateway.config.source.ConfigError`."""
    url = settings.server.public_url
    if url is not None and not is_loopback(urlsplit(url).hostname or "") and not settings.server.trusted_proxies:
        yield (
            "server.trusted_proxies is empty, and public_url is not an address of this machine: behind a proxy, limits "
            "and logs see all callers with the proxy's address; name the networks that proxies connect from"
        )
    file = settings.server.secret_file
    if file is not None and _others_may_read(file):
        yield (
            f"server.secret_file: every user of this machine may read {file}, and with it forge cursors and sessions: "
            "chmod o-r, or in Kubernetes defaultMode: 0440 where the Secret is mounted"
        )
    certificate = read_certificate(settings.server.tls)
    if certificate is not None and certificate.end - time.time() < _SOON:
        word, day = "ends" if certificate.end > time.time() else "ended", datetime.fromtimestamp(certificate.end, UTC)
        yield (
            f"server.tls.cert_file: {certificate.file} {word} on {day:%Y-%m-%d}: "
            "renew it; the new one is used as soon as certificate and key are written"
        )
    for service in settings.by_mount.values():
        backend, modes = service.backend, credential_modes(service)
        urls = map(urlsplit, (backend.url, backend.listing.url or ""))
        far = [url for url in urls if url.scheme in _SAFER and not is_loopback(url.hostname or "")]
        sends = modes.calls.sends_own_secret or modes.listing.sends_own_secret
        if far and sends and not backend.credentials.trusted_network:
            host, scheme = far[0].hostname, far[0].scheme
            yield (
                f"{service.knob('backend.credentials')}: a secret of the gateway's own goes to {host} over {scheme}: "
                f"use {_SAFER[scheme]}, or set trusted_network: true there where the network itself encrypts"
            )


def log_config_warnings(settings: Settings) -> None:
    for warning in config_warnings(settings):
        log.warning("remark on the configuration", remark=warning)


def _others_may_read(file: str) -> bool:
    """Return whether users beside owner and group, which Kubernetes gives a mounted Secret to, may read it."""
    try:
        return os.name == "posix" and bool(Path(file).stat().st_mode & stat.S_IROTH)
    except OSError:
        return False  # reading the secrets fails with the reason
