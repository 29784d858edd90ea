"""Send one fixed header, the same for every caller."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.credentials.contract import Credential
from gateway.model import Caller


class StaticCredential(Credential):
    name = "static"
    shows = "one fixed header, the same for every caller"
    needs = (("value",),)
    refuses = ()

    async def headers(self, caller: Caller) -> Mapping[str, str]:
        value = self._settings.value
        assert value is not None  # noqa: S101, needs has it
        return {self._settings.header: value.get_secret_value()}
