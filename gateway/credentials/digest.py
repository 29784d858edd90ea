"""Answer the service's challenge with a user name and a password (HTTP Digest, RFC 7616), the same for every caller.

The answer depends on the challenge and on the connection, so the HTTP client gives it (:mod:`gateway.backend.lanes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gateway.backend.http_digest import HttpDigest
from gateway.backend.lanes import Lanes
from gateway.backend.lean import LeanTransport
from gateway.credentials.contract import Credential, CredentialModes, FixedCredential, colon_faults, parts_to_send
from gateway.credentials.grants import TokenClient
from gateway.outbound import Outbound
from gateway.settings import ServiceSettings
from gateway.tls import TlsFiles


class DigestCredential(FixedCredential):
    name = "digest"
    shows = "an answer to the service's challenge (HTTP Digest, RFC 7616)"
    needs = (("user",), ("password",))
    refuses = ("value", "login")

    def __init__(self, tokens: TokenClient) -> None:
        super().__init__(tokens)
        given = self._given()
        self._parts = parts_to_send(self._settings.send, given, known_secrets=(str(given["password"]),))

    @classmethod
    def faults(cls, settings: ServiceSettings, modes: CredentialModes) -> Iterator[str]:
        if modes.calls is not modes.listing:
            where = settings.knob("backend.listing.credentials.mode")
            yield f"{where}: with {cls.name} for one of listing and calls, both need it; leave this at auto"
        if settings.backend.transport == "lean":
            yield f"{settings.knob('backend.transport')}: lean cannot answer HTTP Digest; leave this at auto"
        yield from colon_faults(settings)


def backend_transport(
    settings: ServiceSettings,
    mode: type[Credential],
    tls: TlsFiles,
    headers: Mapping[str, str],
    reserve: Callable[[int], bool],
) -> LeanTransport | Outbound | Lanes:
    """Return the HTTP client towards the backend. With this mode it has a lane for each connection; in others the
    queue in front of it bounds the connections. ``reserve`` is as for :class:`~gateway.outbound.Outbound`."""
    backend = settings.backend
    user, password = backend.credentials.user, backend.credentials.password
    if mode is not DigestCredential or user is None or password is None:
        if backend.transport == "session" or backend.proxy is not None:
            return Outbound(connections=0, tls=tls, proxy=backend.proxy, headers=headers, reserve=reserve)
        return LeanTransport(tls=tls, headers=headers, reserve=reserve)
    secret = password.get_secret_value()

    def open_lane() -> Outbound:
        lane = (HttpDigest(user, secret),)
        return Outbound(connections=1, tls=tls, proxy=backend.proxy, headers=headers, middlewares=lane, reserve=reserve)

    return Lanes(open_lane, settings.connections)
