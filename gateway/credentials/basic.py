"""Send a user name and a password (RFC 7617), the same for every caller."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.credentials.contract import CredentialModes, FixedCredential, basic_header, colon_faults, parts_to_send
from gateway.credentials.grants import TokenClient
from gateway.settings import ServiceSettings


class BasicCredential(FixedCredential):
    name = "basic"
    shows = "a user name and a password (RFC 7617), the same for every caller"
    sends_own_secret = True
    needs = (("user",), ("password",))
    refuses = ("login",)

    def __init__(self, tokens: TokenClient) -> None:
        super().__init__(tokens)
        given = self._given()
        headers = basic_header(str(given["user"]), str(given["password"]))
        self._parts = parts_to_send(self._settings.send, given, headers=headers)

    @classmethod
    def faults(cls, settings: ServiceSettings, modes: CredentialModes) -> Iterator[str]:
        yield from colon_faults(settings)
