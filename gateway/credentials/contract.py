"""Define a credential mode: a class that says which settings it needs, and whose objects return what is sent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gateway.backend.redaction import is_credential_header, looks_secret, secrets_in_headers
from gateway.backend.refusals import CredentialTries
from gateway.backend.request_parts import RequestParts
from gateway.credentials.grants import TokenClient
from gateway.errors import GatewayError
from gateway.model import Caller
from gateway.settings import Credentials, Send, ServiceSettings
from gateway.settings.knobs import texts_in
from gateway.settings.sending import fill, names_in


class Credential(ABC):
    """Authenticate requests to the backend in one mode. Without its credential a request is not sent: no fallback."""

    name: ClassVar[str]
    shows: ClassVar[str]
    """Description of what is sent to the backend, as a phrase without a full stop, for help texts and ``check``."""
    per_caller: ClassVar[bool] = False
    """True if it depends on the caller's token. With ``identity: auto``, each caller then has its own listing."""
    uses_callers_token: ClassVar[bool] = False
    """True if it is the caller's own token, so that the backend's refusal of it is passed on to the caller."""
    sends_own_secret: ClassVar[bool] = False
    """True if who reads a request on its way could use what the gateway put into it."""
    answers_challenges: ClassVar[bool] = False
    """True if the HTTP client answers challenges of the service with the user and the password."""
    needs: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Groups of knobs in its section. Of each group at least one must be set, and not to an empty text."""
    parts: RequestParts | None = None
    """Parts of each request, where they are the same for all callers. Then nothing has to be asked."""
    counts_refusals: ClassVar[bool] = False
    """True if each request carries what a user could be locked out for."""
    tries: CredentialTries | None = None
    """Count of its refusals, where each request carries it; a login counts its own."""
    refuses: ClassVar[tuple[str, ...]] = ("user", "password", "login", "send")
    """Knobs in its section that must not be set."""

    def __init__(self, tokens: TokenClient) -> None:
        """Keep the settings of the section, which ``tokens`` has, and ``tokens`` to request tokens with."""
        self._settings = tokens.settings
        self._tokens = tokens
        self.tries = tokens.tries if self.counts_refusals else None

    @classmethod
    def faults(cls, settings: ServiceSettings, modes: CredentialModes) -> Iterator[str]:
        """Yield what else in the service's settings does not allow this mode; each fault names a knob."""
        yield from ()

    @abstractmethod
    async def request_parts(self, caller: Caller) -> RequestParts:
        """Return what a request of this caller carries. Raises ``Unauthorized`` where the mode needs a caller's valid
        token, ``BackendUnavailable`` where the gateway is refused, ``AuthUnavailable`` where no issuer answers."""

    def discard_token(self, caller: Caller) -> None:  # noqa: B027, most have nothing to forget
        """Forget the token that the backend refused for this caller. The next use gets a new one."""

    async def renew(self, caller: Caller, refused: RequestParts) -> RequestParts | None:
        """Return other parts than the refused ones, None where there are none: a caller's token cannot be renewed."""
        if self.uses_callers_token:
            return None
        try:
            parts = await self.request_parts(caller)
            if parts == refused:
                self.discard_token(caller)
                parts = await self.request_parts(caller)
        except GatewayError:
            return None  # the refusal is what the caller has to know
        return None if parts == refused else parts

    def secrets(self) -> tuple[str, ...]:
        """Return what must never appear in an answer or a log: the section's secrets, also without a scheme before."""
        known, password = self._settings.client_secret, self._settings.password
        given = [] if password is None else [password.get_secret_value()]
        sent = (self._settings.send or Send()).revealed()
        fixed = {name: value for name, value in sent["headers"].items() if not any(names_in(value))}
        given += (*texts_in(sent), *secrets_in_headers(fixed))
        given += () if self._settings.login is None else texts_in(self._settings.login.params)
        keys = {name: value for name, value in fixed.items() if is_credential_header(name)}
        certain = (*([] if known is None else [known.get_secret_value()]), *keys.values(), *secrets_in_headers(keys))
        return (*certain, *filter(looks_secret, given))

    def _given(self) -> dict[str, str | int]:
        """Return the values that every template may use."""
        user, password = self._settings.user, self._settings.password
        given: dict[str, str | int] = {} if user is None else {"user": user}
        return given if password is None else given | {"password": password.get_secret_value()}


def parts_to_send(send: Send | None, values: Mapping[str, str | int], **more: Any) -> RequestParts:
    """Return what ``send`` says, with its templates filled, and ``more`` fields. Raises :class:`KeyError`."""
    filled = fill((send or Send()).revealed(), values)
    return RequestParts(
        headers=more.pop("headers", {}) | {name: str(value) for name, value in filled["headers"].items()},
        query={name: str(value) for name, value in filled["query"].items()},
        message=filled["message"],
        params=tuple(filled["params"]),
        arguments=filled["arguments"],
        **more,
    )


@dataclass(frozen=True)
class CredentialModes:
    """Hold the modes, ``auto`` resolved. The listing uses ``effective_listing``: no shared one has a caller's token."""

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
