"""Send a user name and a password (RFC 7617), the same for every caller."""

from __future__ import annotations

from gateway.backend.request_parts import RequestParts
from gateway.credentials.contract import Credential, basic_header, parts_to_send
from gateway.credentials.grants import TokenClient
from gateway.model import Caller


class BasicCredential(Credential):
    name = "basic"
    shows = "a user name and a password (RFC 7617), the same for every caller"
    needs = (("user",), ("password",))
    refuses = ("value", "login")

    def __init__(self, tokens: TokenClient) -> None:
        super().__init__(tokens)
        given = self._given()
        headers = basic_header(str(given["user"]), str(given["password"]))
        self._parts = parts_to_send(self._settings.send, given, headers=headers)

    async def request_parts(self, caller: Caller) -> RequestParts:
        return self._parts
