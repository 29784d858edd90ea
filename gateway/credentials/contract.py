"""What every credential keeps to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gateway.model import Caller


class Credential(Protocol):
    """Headers for one exchange with the backend. ``repr`` shows no secret.

    ``callers_own`` says that the caller's own token is shown, so that a backend's refusal of it is the caller's to
    mend. A credential never stands in for another: where it cannot be had, the exchange does not happen.
    """

    @property
    def callers_own(self) -> bool: ...

    async def headers(self, caller: Caller) -> Mapping[str, str]:
        """Raises :class:`~gateway.errors.Unauthorized` where it takes a caller with a token that still counts,
        :class:`~gateway.errors.BackendUnavailable` where the authorization server refuses the gateway,
        :class:`~gateway.errors.AuthUnavailable` where it does not answer."""
        ...

    def refused(self, caller: Caller) -> None:
        """The backend did not accept what it was shown for this caller: have it anew the next time. This time is over,
        nothing is sent twice."""
        ...

    def secrets(self) -> tuple[str, ...]:
        """Strings that must never appear in an answer or a log."""
        ...
