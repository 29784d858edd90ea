"""Who asks, and what they may see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NoReturn

from gateway.model.tools import NameStyle


@dataclass(frozen=True, slots=True)
class View:
    """Whose catalog: the shared one, or one caller's. A backend may list by any of these four, so a catalog that
    one of them was listed is not shown to another."""

    issuer: str = ""
    subject: str = ""
    client: str = ""
    scopes: frozenset[str] = frozenset()

    @property
    def is_shared(self) -> bool:
        return not self.subject


SHARED: Final = View()


class AccessToken:
    """A caller's token behind a mask: neither ``repr`` nor ``str`` shows it, and it cannot be pickled by accident."""

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
        """The token itself: for whoever verifies or shows it, nobody else."""
        return self._raw


@dataclass(frozen=True, slots=True)
class Principal:
    """A verified caller. ``(issuer, subject)`` is the identity, never the subject alone.

    ``scopes`` are all that the token grants, those that others imply included; ``expires`` is wall-clock seconds.
    """

    issuer: str
    subject: str
    client: str
    scopes: frozenset[str]
    expires: float
    token: AccessToken


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the address that limits count by, the languages the caller prefers, and who it is.

    ``principal`` is None for a caller without a token; ``view`` is whose catalog the caller sees; ``name_style`` is
    which names of tools it wants to be shown, None where it does not say.
    """

    address: str = ""
    language: str | None = None
    view: View = SHARED
    principal: Principal | None = None
    name_style: NameStyle | None = None

    @property
    def identity(self) -> tuple[str, str]:
        """What a session, a cursor or a consent is bound to, across tokens."""
        return (self.principal.issuer, self.principal.subject) if self.principal is not None else ("", "")

    def token_still_valid(self, now: float) -> bool:
        """Tell whether the token has not expired at ``now``, in wall-clock seconds. No token does not expire."""
        return self.principal is None or now < self.principal.expires


ANONYMOUS: Final = Caller()
