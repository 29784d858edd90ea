"""Choose the transport of a service by the scheme of its URL."""

from collections.abc import Callable

from gateway.backend.http import HEADERS, HttpTransport
from gateway.backend.transport import OpenTransport
from gateway.http_client.choice import open_client
from gateway.http_client.tls import TlsFiles
from gateway.settings import ServiceSettings


def open_transport(
    settings: ServiceSettings, tls: TlsFiles, reserve: Callable[[int], bool], *, digest: bool
) -> OpenTransport:
    """Return the transport to a service, which opens no connection yet. ``reserve`` counts memory for what is read;
    with ``digest`` the HTTP client answers challenges."""
    return HttpTransport(open_client(settings, tls, HEADERS, reserve, digest=digest), settings.backend.url)
