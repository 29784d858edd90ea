"""Define who calls (caller, principal, access token), and whose catalog a caller sees (view)."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, NoReturn

from msgspec import UNSET, Struct, field
from msgspec.structs import force_setattr

from gateway.errors import ToolFault
from gateway.model.listed import JsonObject
from gateway.model.tools import NameStyle, Tool
from gateway.networks import network_of


class View(NamedTuple):
    """Identify a catalog: the shared one, or one caller's. A backend may list by any of these fields, so callers that
    differ in one of them never share a catalog. ``language`` is for Accept-Language, "" where the caller names none.
    ``claims`` is a digest of the claims that the service is told."""

    issuer: str = ""
    subject: str = ""
    client: str = ""
    scopes: frozenset[str] = frozenset()
    language: str = ""
    claims: str = ""

    @property
    def is_shared(self) -> bool:
        return not self.subject


SHARED: Final = View()


class AccessToken:
    """Hold a caller's token so that it cannot leak by accident: ``repr`` and ``str`` hide it, and pickling raises."""

    __slots__ = ("_raw",)

    def __init__(self, raw: str) -> None:
        self._raw = raw

    def __repr__(self) -> str:
        return "<AccessToken>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccessToken) and other._raw == self._raw

    def __hash__(self) -> int:
        return hash(self._raw)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an access token stays in this process")

    def reveal(self) -> str:
        """Return the token itself. Only code that verifies it or sends it to the backend may call this."""
        return self._raw


@dataclass(frozen=True, slots=True)
class Principal:
    """Hold what a verified token says of its caller. ``(issuer, subject)`` is the identity, never the subject alone.

    ``scopes`` are all that the token grants, with those that others imply. ``expires`` is wall-clock seconds. ``key``
    is the identity as one text, which limits count by: it is made once for a token, and used several times in a call.
    ``claims`` are those that the service is told, by name. ``token`` is that of an issuer, None for an API
    key, which nobody else is ever shown.
    """

    issuer: str
    subject: str
    client: str
    scopes: frozenset[str]
    expires: float
    token: AccessToken | None
    claims: tuple[tuple[str, str], ...] = ()
    key: str = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", f"{self.issuer}\n{self.subject}")

    def end(self) -> None:
        """Let what shows who this is expire now, with the streams that it opened: it was revoked."""
        object.__setattr__(self, "expires", 0.0)


class Caller(Struct, frozen=True):
    """Hold who calls: the ``address`` that limits count by. ``principal`` is None for a caller without a token.

    ``view`` is whose catalog the caller sees. ``name_style`` is which names of tools it wants, None where it does not
    say. ``key`` is what limits count by: the identity, else the network of the address.
    """

    address: str = ""
    view: View = SHARED
    principal: Principal | None = None
    name_style: NameStyle | None = None
    key: str = ""

    def __post_init__(self) -> None:
        principal = self.principal
        force_setattr(self, "key", network_of(self.address) if principal is None else principal.key)

    @property
    def identity(self) -> tuple[str, str]:
        """Return issuer and subject: sessions, cursors and consents are bound to them, and outlive a token."""
        return (self.principal.issuer, self.principal.subject) if self.principal is not None else ("", "")

    @property
    def token(self) -> AccessToken | None:
        """Return the caller's token of an issuer, None where there is none."""
        return self.principal.token if self.principal is not None else None

    def token_still_valid(self, now: float) -> bool:
        """Return whether the token has not expired at ``now``, in wall-clock seconds. True without a token."""
        return self.principal is None or now < self.principal.expires


ANONYMOUS: Final = Caller()

NO_RESULT: Final = UNSET
"""The value of a call whose method declares no result."""


class CallExtras(Struct):
    """Hold what a 2026-07-28 client sends along with a call.

    ``responses`` answer an earlier :class:`InputRequest`; ``state`` is the state that came with it. ``capabilities``
    are the client's. A surface that cannot ask a person gives no extras.
    With ``optional`` a client that lacks a capability is served as on such a surface, instead of refused.
    """

    responses: JsonObject = field(default_factory=dict)
    state: str | None = None
    capabilities: JsonObject = field(default_factory=dict)
    optional: bool = False


@dataclass(frozen=True, slots=True)
class InputRequest:
    """Hold questions to the client before a call can continue (``inputRequests``), and the state to send back."""

    requests: JsonObject
    state: str | None = None


class Outcome(Struct):
    """Hold the outcome of a call: a value (JSON, or :data:`NO_RESULT`), a fault, or questions to the client. ``more``
    says what is left out of a value that was cut."""

    tool: Tool
    value: Any = None
    fault: ToolFault | None = None
    input_request: InputRequest | None = None
    more: str = ""
