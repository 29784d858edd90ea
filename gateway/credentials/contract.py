"""What every credential mode is: a class that says when it fits the settings, and whose objects bring the headers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from gateway.credentials.grants import TokenClient
from gateway.model import Caller
from gateway.settings import Credentials, ServiceSettings


class Credential(ABC):
    """Headers for one exchange with the backend.

    A credential never stands in for another: where it cannot be had, the exchange does not happen.
    """

    name: ClassVar[str]
    shows: ClassVar[str]
    """What the backend gets, for people; without a full stop."""
    per_caller: ClassVar[bool] = False
    """Whether it is had of the caller's token. With ``identity: auto`` each caller then has a listing of its own."""
    uses_callers_token: ClassVar[bool] = False
    """Whether it is the caller's own token, so that a backend's refusal of it is the caller's to mend."""
    needs: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Of each group of knobs in its section, at least one must be set, and not to an empty text."""
    refuses: ClassVar[tuple[str, ...]] = ("value",)
    """Knobs of its section that must not be set."""

    def __init__(self, tokens: TokenClient) -> None:
        """``tokens`` has the section's settings, and is where its tokens are had."""
        self._settings = tokens.settings
        self._tokens = tokens

    @classmethod
    def faults(cls, settings: ServiceSettings, modes: CredentialModes) -> Iterator[str]:
        """What else of the service's settings stands against it; each names a knob."""
        yield from ()

    @abstractmethod
    async def headers(self, caller: Caller) -> Mapping[str, str]:
        """Raises :class:`~gateway.errors.Unauthorized` where it takes a caller with a token that still counts,
        :class:`~gateway.errors.BackendUnavailable` where the authorization server refuses the gateway,
        :class:`~gateway.errors.AuthUnavailable` where it does not answer."""

    def discard_token(self, caller: Caller) -> None:  # noqa: B027, most have nothing to forget
        """The backend did not accept what it was shown for this caller: have it anew the next time. This time is over,
        nothing is sent twice."""

    def secrets(self) -> tuple[str, ...]:
        """Strings that must never appear in an answer or a log: those of its section, also without a scheme before."""
        both = (self._settings.client_secret, self._settings.value)
        texts = [secret.get_secret_value() for secret in both if secret is not None]
        return tuple(part for text in texts for part in (text, text.rpartition(" ")[2]))


@dataclass(frozen=True)
class CredentialModes:
    """The modes of calls and of the listing, with ``auto`` resolved, and whether each caller has a view of its own.

    ``effective_listing`` is what the listing is asked with in fact: one for everybody is not asked for with anybody's
    token.
    """

    calls: type[Credential]
    listing: type[Credential]
    effective_listing: type[Credential]
    lists_per_caller: bool


def credential_sections(settings: ServiceSettings) -> tuple[tuple[str, Credentials], ...]:
    """The two sections with a credential, that of the calls first, each with its path."""
    backend = settings.backend
    return (
        (settings.knob("backend.credentials"), backend.credentials),
        (settings.knob("backend.listing.credentials"), backend.listing.credentials.over(backend.credentials)),
    )
