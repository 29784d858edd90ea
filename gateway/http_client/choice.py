"""Define the interface of the HTTP clients towards a service, and choose among them."""

from collections.abc import Callable, Mapping
from typing import Protocol

from gateway.http_client.digest import HttpDigest, Lanes
from gateway.http_client.lean import LeanTransport
from gateway.http_client.response import Answer
from gateway.http_client.session import Outbound
from gateway.http_client.tls import TlsFiles
from gateway.settings import ServiceSettings


class HttpClient(Protocol):
    """Exchange requests over HTTP: :class:`LeanTransport`, :class:`Outbound` for proxies, :class:`Lanes` for Digest."""

    async def request(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], *, timeout: float, max_bytes: int
    ) -> Answer:
        """Send a request, ``timeout`` in seconds for all of it. Raises :class:`OutboundError`."""
        ...

    async def close(self) -> None: ...


def open_client(
    settings: ServiceSettings,
    tls: TlsFiles,
    headers: Mapping[str, str],
    reserve: Callable[[int], bool],
    *,
    digest: bool,
) -> HttpClient:
    """Return the client towards a backend, with ``digest`` of a lane for each connection, else without a bound."""
    backend = settings.backend
    fixed = {name: value.get_secret_value() for name, value in backend.headers.items()}
    headers = {**headers, **fixed, "Content-Type": backend.content_type}
    user, password = backend.credentials.user, backend.credentials.password
    if not digest or user is None or password is None:
        if backend.proxy is not None:
            return Outbound(connections=0, tls=tls, proxy=backend.proxy, headers=headers, reserve=reserve)
        return LeanTransport(tls=tls, headers=headers, reserve=reserve, socket=backend.socket)
    secret = password.get_secret_value()

    def open_lane() -> Outbound:
        lane = (HttpDigest(user, secret),)
        return Outbound(
            connections=1, tls=tls, proxy=backend.proxy, headers=headers, middlewares=lane, reserve=reserve,
            socket=backend.socket,
        )  # fmt: skip

    return Lanes(open_lane, settings.connections)
