"""Define the settings of a group: several services at one address, which is a protected resource of its own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from gateway.settings.auth import Auth, Issuer
from gateway.settings.catalog import SEARCH, Search
from gateway.settings.knobs import Section, knob
from gateway.settings.mcp import Mcp
from gateway.settings.server import Limits
from gateway.settings.services import ResourceSettings, ServiceSettings
from gateway.text import did_you_mean

_ALL: Final = "*"
_ANONYMOUS: Final = ("none", "list", "open-tools")  # each lets in more than the one before


_Names = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda names: (names,) if isinstance(names, str) else names, str | tuple[str, ...]),
]


class GroupCatalog(Section):
    """How the tools of a group are offered. What they are, its services say."""

    search: Search = knob(SEARCH, "List two tools instead of all: as catalog.search, for all services together.")


class GroupSections(Section):
    """The sections of one group."""

    services: _Names = Field(description='Names of the services of the group, or "*" for all.')
    catalog: GroupCatalog = knob(GroupCatalog, "How the tools are offered.")
    auth: Auth = knob(Auth, "Who may call. It must let in nobody whom a service of the group refuses.")
    limits: Limits = knob(Limits, "Who may do how much, counted before the limits of the service.")
    mcp: Mcp = knob(Mcp, "The Model Context Protocol.")

    def faults(self, knob: str, known: Sequence[str]) -> Iterator[str]:
        """Yield a fault for each name that is none of the ``known`` services."""
        if not self.services:
            yield f'{knob}: must name at least one service, or be "*" for all'
        for name in self.services:
            if name not in (*known, _ALL):
                yield f"{knob}: {name} is none of the services {', '.join(known)}{did_you_mean(name, known)}"

    def members(self, services: Sequence[ServiceSettings]) -> tuple[ServiceSettings, ...]:
        """Return the services of the group, in their own order."""
        return tuple(one for one in services if _ALL in self.services or one.name in self.services)


@dataclass(frozen=True, kw_only=True)
class GroupSettings(ResourceSettings):
    """Hold the settings that one group is built from, with those of its services."""

    section = "groups"
    members: tuple[ServiceSettings, ...]

    @property
    def services(self) -> tuple[ServiceSettings, ...]:
        return self.members

    def faults(self) -> Iterator[str]:
        yield from super().faults()
        for member in self.members:
            # A service without authentication refuses nobody.
            for path, what in _refused(self.auth, member.auth) if member.auth.traits.authenticates else ():
                yield (
                    f"{self.knob(path)}: {what}, so the group would let in callers whom {member.name} refuses: set it "
                    f"as {member.knob(path)}, or leave {member.name} out of {self.knob('services')}"
                )


def _refused(ours: Auth, theirs: Auth) -> Iterator[tuple[str, str]]:
    """Yield the knob by which a group lets in callers whom a service refuses, and what it says."""
    if not ours.traits.authenticates:
        yield "auth.mode", "is off"
        return
    known = {issuer.issuer: issuer for issuer in theirs.active_issuers}
    for issuer in ours.active_issuers:
        if (other := known.get(issuer.issuer)) is None:
            yield "auth.issuers", f"{issuer.issuer} is none of the issuers of the service"
        elif not _accepts_less(issuer, other):
            yield "auth.issuers", f"{issuer.issuer} differs in more than its audiences"
    if ours.takes_keys and (not theirs.takes_keys or ours.keys.file != theirs.keys.file):
        yield "auth.keys.file", "is not the key file of the service"
    if _ANONYMOUS.index(ours.anonymous) > _ANONYMOUS.index(theirs.anonymous):
        yield "auth.anonymous", f"is {ours.anonymous}"
    if theirs.dpop not in ("accept", ours.dpop):
        yield "auth.dpop", f"is {ours.dpop}"
    if any(not {*narrow} <= {*theirs.scopes.implies.get(broad, ())} for broad, narrow in ours.scopes.implies.items()):
        yield "auth.scopes.implies", "gives scopes that it does not give at the service"


def _accepts_less(ours: Issuer, theirs: Issuer) -> bool:
    """Return whether each token of an issuer that the group accepts is good at the service, but for its audience."""
    if theirs.clients and not (ours.clients and {*ours.clients} <= {*theirs.clients}):
        return False
    own: dict[str, Any] = {"audiences": (), "clients": ()}
    return ours.model_copy(update=own) == theirs.model_copy(update=own)
