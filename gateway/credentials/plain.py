"""Credentials that are at hand: nothing, one fixed header, or the caller's own token."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.errors import Unauthorized
from gateway.model import Caller

NEEDS_TOKEN = "This needs an access token"  # noqa: S105, a sentence


class NoCredential:
    """Nothing: for services that know no users."""

    callers_own = False

    async def headers(self, caller: Caller) -> Mapping[str, str]:
        return {}

    def refused(self, caller: Caller) -> None:
        pass

    def secrets(self) -> tuple[str, ...]:
        return ()


class StaticCredential:
    """One header, for every caller alike."""

    callers_own = False

    def __init__(self, header: str, value: str) -> None:
        self._headers = {header: value}

    def __repr__(self) -> str:
        return f"<StaticCredential {next(iter(self._headers))}>"

    async def headers(self, caller: Caller) -> Mapping[str, str]:
        return self._headers

    def refused(self, caller: Caller) -> None:
        pass

    def secrets(self) -> tuple[str, ...]:
        (value,) = self._headers.values()
        return (value, value.rpartition(" ")[2])


class SameResource:
    """The caller's own token, for a backend that is one protected resource with the gateway.

    The conditions under which that is legitimate are checked at start, see :mod:`gateway.auth.conditions`. A caller
    without a token, where such are let in, is shown as one: with nothing.
    """

    callers_own = True

    async def headers(self, caller: Caller) -> Mapping[str, str]:
        if caller.principal is None:
            return {}
        return {"Authorization": f"Bearer {caller.principal.token.reveal()}"}

    def refused(self, caller: Caller) -> None:
        pass

    def secrets(self) -> tuple[str, ...]:
        return ()


def principal_token(caller: Caller) -> str:
    """The caller's token. Raises :class:`Unauthorized` for a caller without one."""
    if caller.principal is None:
        raise Unauthorized(NEEDS_TOKEN)
    return caller.principal.token.reveal()
