"""What an operator should know of a configuration that works: said in the log at start, and by ``check``."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from gateway.settings import Settings, is_loopback


def remarks_on(settings: Settings) -> Iterator[str]:
    """A sentence for each, which begins with the knob."""
    url = settings.server.public_url
    if url is not None and not is_loopback(urlsplit(url).hostname or "") and not settings.server.trusted_proxies:
        yield (
            "server.trusted_proxies is empty, and public_url is no address of this machine: to limits and logs, all "
            "callers behind a proxy have the proxy's address; name the networks that proxies connect from"
        )
