"""Answer the service's challenge with a user name and a password (HTTP Digest, RFC 7616), the same for every caller.

The answer depends on the challenge and on the connection, so the HTTP client gives it
(:mod:`gateway.http_client.digest`).
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.credentials.contract import CredentialModes, FixedCredential, colon_faults, parts_to_send
from gateway.credentials.grants import TokenClient
from gateway.settings import ServiceSettings


class DigestCredential(FixedCredential):
    name = "digest"
    shows = "an answer to the service's challenge (HTTP Digest, RFC 7616)"
    answers_challenges = True
    needs = (("user",), ("password",))
    refuses = ("login",)

    def __init__(self, tokens: TokenClient) -> None:
        super().__init__(tokens)
        given = self._given()
        self._parts = parts_to_send(self._settings.send, given, known_secrets=(str(given["password"]),))

    @classmethod
    def faults(cls, settings: ServiceSettings, modes: CredentialModes) -> Iterator[str]:
        if modes.calls is not modes.listing:
            where = settings.knob("backend.listing.credentials.mode")
            yield f"{where}: with {cls.name} for one of listing and calls, both need it; leave this at auto"
        yield from colon_faults(settings)
