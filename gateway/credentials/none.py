"""Send no credential: for services that know no users."""

from __future__ import annotations

from typing import Final

from gateway.backend.request_parts import RequestParts
from gateway.credentials.contract import Credential
from gateway.model import Caller

_NOTHING: Final = RequestParts()


class NoCredential(Credential):
    name = "none"
    shows = "no credential"

    async def request_parts(self, caller: Caller) -> RequestParts:
        return _NOTHING
