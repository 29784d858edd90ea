"""What the gateway shows the backend on behalf of a caller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gateway.model import Caller
from gateway.settings import Credentials


class Credential(Protocol):
    """Headers for one exchange with the backend. ``repr`` shows no secret."""

    async def headers(self, caller: Caller) -> Mapping[str, str]: ...

    def secrets(self) -> tuple[str, ...]:
        """Strings that must never appear in an answer or a log."""
        ...


class NoCredential:
    """Nothing: for services that know no users."""

    async def headers(self, caller: Caller) -> Mapping[str, str]:
        return {}

    def secrets(self) -> tuple[str, ...]:
        return ()


class StaticCredential:
    """One header, for every caller alike."""

    def __init__(self, header: str, value: str) -> None:
        self._headers = {header: value}

    def __repr__(self) -> str:
        return f"<StaticCredential {next(iter(self._headers))}>"

    async def headers(self, caller: Caller) -> Mapping[str, str]:
        return self._headers

    def secrets(self) -> tuple[str, ...]:
        (value,) = self._headers.values()
        return (value, value.rpartition(" ")[2])


def credential_of(settings: Credentials, fallback: Credential | None = None) -> Credential:
    """The credential that settings name; ``fallback`` is what ``auto`` stands for."""
    if settings.value is not None:
        return StaticCredential(settings.header, settings.value.get_secret_value())
    if settings.mode == "auto" and fallback is not None:
        return fallback
    return NoCredential()
