"""Send what the settings say, the same for every caller: headers, or a key elsewhere in the request."""

from __future__ import annotations

from gateway.credentials.contract import FixedCredential, parts_to_send
from gateway.credentials.grants import TokenClient


class StaticCredential(FixedCredential):
    name = "static"
    shows = "fixed headers or keys, the same for every caller"
    sends_own_secret = True
    needs = (("send",),)
    refuses = ("login",)

    def __init__(self, tokens: TokenClient) -> None:
        super().__init__(tokens)
        self._parts = parts_to_send(self._settings.send, self._given())
