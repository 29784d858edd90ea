"""Send no credential: for services that know no users."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.credentials.contract import Credential
from gateway.model import Caller


class NoCredential(Credential):
    name = "none"
    shows = "no credential"

    async def headers(self, caller: Caller) -> Mapping[str, str]:
        return {}
