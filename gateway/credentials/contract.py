"""Define a credential mode: a class that says which settings it needs, and whose objects return the headers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from gateway.credentials.grants import TokenClient
from gateway.model import Caller
from gateway.settings import Credentials, ServiceSettings


class Credential(ABC):
    """Authenticate requests to the backend in one mode. Without its credential a request is not sent: no fallback."""

    name: ClassVar[str]
    shows: ClassVar[str]
    """Description of what is sent to the backend, as a phrase without a full stop, for help texts and ``check``."""
    per_caller: ClassVar[bool] = False
    """True if it depends on the caller's token. With ``identity: auto``, each caller then has its own listing."""
    uses_callers_token: ClassVar[bool] = False
    """True if it is the caller's own token, so that the backend's refusal of it is passed on to the caller."""
    needs: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Groups of knobs in its section. Of each group at least one must be set, and not to an empty text."""
    refuses: ClassVar[tuple[str, ...]] = ("value",)
    """Knobs in its section that must not be set."""

    def __init__(self, tokens: TokenClient) -> None:
        """Keep the settings of the section, which ``tokens`` has, and ``tokens`` to request tokens with."""
        self._settings = tokens.settings
        self._tokens = tokens

    @classmethod
    def faults(cls, settings: ServiceSettings, modes: CredentialModes) -> Iterator[str]:
        """Yield what else in the service's settings does not allow this mode; each fault names a knob."""
        yield from ()

    @abstractmethod
    async def headers(self, caller: Caller) -> Mapping[str, str]:
        """Return the headers. Raises :class:`~gateway.errors.Unauthorized` where the mode needs a caller's valid token,
        :class:`~gateway.errors.BackendUnavailable` where the authorization server refuses the gateway,
        :class:`~gateway.errors.AuthUnavailable` where it does not answer."""

    def discard_token(self, caller: Caller) -> None:  # noqa: B027, most have nothing to forget
        """Forget the token that the backend refused for this caller. The next use gets a new one."""

    def secrets(self) -> tuple[str, ...]:
        """Return what must never appear in an answer or a log: the section's secrets, also without a scheme before."""
        both = (self._settings.client_secret, self._settings.value)
        texts = [secret.get_secret_value() for secret in both if secret is not None]
        return tuple(part for text in texts for part in (text, text.rpartition(" ")[2]))


@dataclass(frozen=True)
class CredentialModes:
    """Hold the modes of calls and of the listing, with ``auto`` resolved, and whether each caller has its own view.
    ``effective_listing`` is what the listing really uses: a shared one is never requested with a caller's token."""

    calls: type[Credential]
    listing: type[Credential]
    effective_listing: type[Credential]
    lists_per_caller: bool


def credential_sections(settings: ServiceSettings) -> tuple[tuple[str, Credentials], ...]:
    """Return the two sections with a credential and their paths; the one of calls comes first."""
    backend = settings.backend
    return (
        (settings.knob("backend.credentials"), backend.credentials),
        (settings.knob("backend.listing.credentials"), backend.listing.credentials.over(backend.credentials)),
    )
