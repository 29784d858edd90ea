"""Choose the HTTP client towards a service."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from gateway.http_client.digest import HttpDigest, Lanes
from gateway.http_client.lean import LeanTransport
from gateway.http_client.session import Outbound
from gateway.http_client.tls import TlsFiles
from gateway.settings import ServiceSettings

HttpClient: TypeAlias = LeanTransport | Outbound | Lanes
"""Client for HTTP: the second one with proxies, the third one with HTTP Digest. Its ``request`` has a ``timeout`` in
seconds for all of it, and raises :class:`OutboundError`."""


def open_client(
    settings: ServiceSettings,
    tls: TlsFiles,
    headers: Mapping[str, str],
    reserve: Callable[[int], bool],
    *,
    digest: bool,
) -> HttpClient:
    """Return the client towards a backend, with ``digest`` one that answers challenges."""
    backend = settings.backend
    fixed = {name: value.get_secret_value() for name, value in backend.headers.items()}
    headers = {**headers, **fixed, "Content-Type": backend.content_type}
    user, password = backend.credentials.user, backend.credentials.password
    make = partial(Outbound, tls=tls, proxy=backend.proxy, headers=headers, reserve=reserve, socket=backend.socket)
    if digest and user is not None and password is not None:
        secret = password.get_secret_value()
        return Lanes(lambda: make(connections=1, middlewares=(HttpDigest(user, secret),)))
    if backend.proxy is not None:
        return make(connections=0)
    return LeanTransport(tls=tls, headers=headers, reserve=reserve, socket=backend.socket)
