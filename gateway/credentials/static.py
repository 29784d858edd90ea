"""One fixed header, for every caller alike."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.credentials.contract import Credential
from gateway.model import Caller


class StaticCredential(Credential):
    name = "static"
    shows = "one fixed header, for every caller alike"
    needs = (("value",),)
    refuses = ()

    async def headers(self, caller: Caller) -> Mapping[str, str]:
        value = self._settings.value
        assert value is not None  # noqa: S101, it is among the needs
        return {self._settings.header: value.get_secret_value()}
