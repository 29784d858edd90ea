"""Define the settings of one service: its sections, and where it is mounted."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final
from urllib.parse import urlsplit

from pydantic import Field

from gateway.settings.auth import Auth, secure_url
from gateway.settings.backend import Backend
from gateway.settings.catalog import CatalogSettings
from gateway.settings.knobs import NAME_PATTERN, Section, checked, is_loopback, knob
from gateway.settings.mcp import Mcp
from gateway.settings.server import Limits, ServerSettings

INHERITED: Final = ("catalog", "auth", "limits", "mcp")
"""Sections whose values at the top level are defaults for every service."""
_PATHS: Final = ("mcp", "jsonrpc", "page", "static")
"""Paths of the gateway itself, in use or reserved, which no service may have as its name."""


ServiceName = Annotated[
    str,
    checked(
        re.compile(NAME_PATTERN).fullmatch,
        "is not a valid name of a service, which becomes a path and a part of environment variables: use a lower-case "
        "letter, then at most 31 lower-case letters, digits and underscores",
    ),
    checked(
        lambda name: name not in _PATHS,
        f"is a path of the gateway itself, as are {', '.join(_PATHS)}: give the service another name",
    ),
]


class ServiceSections(Section):
    """The sections of one of several services."""

    backend: Backend = Field(description="The JSON-RPC service behind the gateway.")
    catalog: CatalogSettings = knob(CatalogSettings, "Which methods become tools.")
    auth: Auth = knob(Auth, "Who may call.")
    limits: Limits = knob(Limits, "Who may do how much.")
    mcp: Mcp = knob(Mcp, "The Model Context Protocol.")


@dataclass(frozen=True, kw_only=True)
class ResourceSettings:
    """Hold the settings of one protected resource: of a service, or of a group of several. Equal ones need no other
    object after a reload. ``name`` is "" for the only service, mounted at the root."""

    section: ClassVar[str]
    """Section of the file whose members these settings are."""

    name: str
    server: ServerSettings = field(compare=False)
    catalog: CatalogSettings
    auth: Auth
    limits: Limits
    mcp: Mcp

    @property
    def services(self) -> tuple["ServiceSettings", ...]:
        """Return the services whose tools are here."""
        raise NotImplementedError

    @property
    def mount(self) -> str:
        """Return the prefix of the paths: "" or ``/crm``."""
        return f"/{self.name}" if self.name else ""

    @property
    def resource(self) -> str:
        """Return the identifier of the protected resource (RFC 9728), which tokens must have as their audience."""
        return f"{self.server.origin}{self.mount}/mcp"

    @property
    def mount_id(self) -> str:
        """Return what binds signed texts and keys of the store to this resource: its identifier. Without metadata and
        public_url, replicas may listen on different ports, so it is the name and the URLs of the backends."""
        if self.auth.traits.has_issuers or self.server.public_url:
            return self.resource
        return " ".join((self.name, *(service.backend.url for service in self.services))).lstrip()

    def knob(self, path: str) -> str:
        """Return the whole path of a knob of this resource: ``services.crm.auth.issuers`` for ``auth.issuers``."""
        return f"{self.section}.{self.name}.{path}" if self.name else path

    def faults(self) -> Iterator[str]:
        """Yield a text, beginning with the knob, for each conflict between these sections and ``server``."""
        if not (self.auth.traits.authenticates or is_loopback(self.server.host) or self.auth.allow_unauthenticated):
            yield (
                f"{self.knob('auth.mode')}: is off, and server.host {self.server.host} is reachable by others: bind to "
                f"127.0.0.1, or set {self.knob('auth.allow_unauthenticated')}: true where something in front "
                "authenticates"
            )
        if self.auth.traits.has_issuers:
            yield from self._resource_faults()
        elif self.auth.takes_keys and not self.auth.keys.trusted_network:
            yield from self._plain_http_faults()
        if self.server.page == "token" and not self.auth.traits.authenticates:
            yield f"server.page: is token, and nobody has one where {self.knob('auth.mode')} is off: set public or off"
        if self.mcp.server.card and self.server.public_url is None:
            yield f"server.public_url: is required, because {self.knob('mcp.server.card')}: true publishes it"

    def _resource_faults(self) -> Iterator[str]:
        if not self.auth.issuers:
            yield (
                f"{self.knob('auth.issuers')}: must name at least one authorization server, "
                f"[{{issuer: https://login.example.com}}]; or set {self.knob('auth.mode')}: off, to serve without "
                "authentication"
            )
        url = self.server.public_url
        if url is None:
            if self.server.port == 0 or not is_loopback(self.server.host):
                path = "a service's path" if self.name else "/mcp"
                yield f"server.public_url: is required, because tokens must have public_url + {path} as their audience"
            return
        try:
            secure_url(url)
        except ValueError as error:
            yield f"server.public_url: {error}"
        if urlsplit(url).query:
            yield "server.public_url: must not have a ?query"

    def _plain_http_faults(self) -> Iterator[str]:
        """Yield a fault where others could read API keys on their way."""
        server, url = self.server, self.server.public_url
        parts = urlsplit(url or server.origin)
        others = not is_loopback(parts.hostname or "") if url else not is_loopback(server.host)
        if others and parts.scheme != "https":
            yield (
                f"server.public_url: {'is' if url else 'is not set, and server.host is'} reachable over plain http, "
                "where others could read API keys: set the https URL of the proxy in front, or server.tls, or "
                f"{self.knob('auth.keys.trusted_network')}: true where the network itself encrypts"
            )


@dataclass(frozen=True, kw_only=True)
class ServiceSettings(ResourceSettings):
    """Hold the settings that one service is built from."""

    section = "services"
    backend: Backend

    @property
    def services(self) -> tuple["ServiceSettings", ...]:
        return (self,)

    @property
    def connections(self) -> int:
        """Return how many connections to the service this process may have: its part of ``backend.connections``."""
        return self.server.share(self.backend.connections)

    def faults(self) -> Iterator[str]:
        yield from super().faults()
        if self.server.share(self.server.max_buffered) < self.backend.max_response:
            workers = self.server.workers
            part = "is" if workers == 1 else f"is divided among {workers} workers, and a part is"
            yield (
                f"server.max_buffered: {part} less than {self.knob('backend.max_response')}, so the largest answer "
                "could not be held: raise it, or lower the other"
            )
        if self.backend.connections < self.server.workers:
            yield (
                f"server.workers: is more than {self.knob('backend.connections')}, which the workers divide "
                "among them: lower it, or raise the other"
            )


def inherit(default: Any, own: Any) -> Any:
    """Return the raw settings of one service with the defaults of the top level: maps merge, other values replace."""
    if not isinstance(default, dict) or not isinstance(own, dict):
        return own
    return default | {key: inherit(default[key], value) if key in default else value for key, value in own.items()}
