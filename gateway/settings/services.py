"""What one fronted service is built from: its sections, and where it is mounted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from gateway.settings.auth import Auth, secure_url
from gateway.settings.backend import Backend
from gateway.settings.catalog import CatalogSettings
from gateway.settings.knobs import Section, is_loopback, knob
from gateway.settings.limits import Limits
from gateway.settings.mcp import Mcp
from gateway.settings.server import ServerSettings

NAME_PATTERN: Final = "[a-z][a-z0-9_]{0,31}"
INHERITED: Final = ("catalog", "auth", "limits", "mcp")
"""Sections whose values at the top level are defaults for every service."""
_PATHS: Final = ("mcp", "jsonrpc", "page", "static")
"""Words that begin a path, or will, without any service."""


def _check_name(name: str) -> str:
    if not re.fullmatch(NAME_PATTERN, name):
        raise ValueError(
            "is no name for a service, since it becomes a path and a part of variables' names: use a lower-case "
            "letter, then at most 31 lower-case letters, digits and underscores"
        )
    if name in _PATHS:
        raise ValueError(f"is a path of the gateway's own, as are {', '.join(_PATHS)}: give the service another name")
    return name


ServiceName = Annotated[str, AfterValidator(_check_name)]


class ServiceSections(Section):
    """One of several services."""

    backend: Backend = Field(description="The JSON-RPC service that is fronted.")
    catalog: CatalogSettings = knob(CatalogSettings, "Which methods become tools.")
    auth: Auth = knob(Auth, "Who may call.")
    limits: Limits = knob(Limits, "Who may do how much.")
    mcp: Mcp = knob(Mcp, "The Model Context Protocol.")


@dataclass(frozen=True)
class ServiceSettings:
    """All that one service is built from. ``name`` is "" for the only one, which is mounted at the root.

    Equal ones differ in nothing that a reload can change.
    """

    name: str
    server: ServerSettings = field(compare=False)
    backend: Backend
    catalog: CatalogSettings
    auth: Auth
    limits: Limits
    mcp: Mcp

    @property
    def mount(self) -> str:
        """What the paths of the service begin with: "" or ``/crm``."""
        return f"/{self.name}" if self.name else ""

    @property
    def origin(self) -> str:
        """The URL under which clients reach the gateway, without a trailing slash."""
        return self.server.origin

    @property
    def resource(self) -> str:
        """The identifier of the protected resource (RFC 9728): what tokens must be for."""
        return f"{self.origin}{self.mount}/mcp"

    @property
    def mount_id(self) -> str:
        """What signed texts and keys of the store are of: the resource. With ``auth.mode: off`` and without a
        public_url there is none, and replicas may listen on different ports: then the service behind, with the name,
        since two services may have one behind them."""
        if self.auth.mode != "off" or self.server.public_url:
            return self.resource
        return f"{self.name} {self.backend.url}".lstrip()

    def knob(self, path: str) -> str:
        """Return the whole path of a knob of this service: ``services.crm.auth.issuers`` for ``auth.issuers``."""
        return f"services.{self.name}.{path}" if self.name else path

    def faults(self) -> Iterator[str]:
        """Yield what in these sections and ``server`` does not go together, each with its knob."""
        if self.auth.mode == "off":
            yield from self._exposure_faults()
        else:
            yield from self._resource_faults()

    def _exposure_faults(self) -> Iterator[str]:
        if not (is_loopback(self.server.host) or self.auth.allow_unauthenticated):
            yield (
                f"{self.knob('auth.mode')}: is off, and server.host {self.server.host} is reachable by others: bind to "
                f"127.0.0.1, or set {self.knob('auth.allow_unauthenticated')}: true where something in front "
                "authenticates"
            )

    def _resource_faults(self) -> Iterator[str]:
        if not self.auth.issuers:
            yield (
                f"{self.knob('auth.issuers')}: must name at least one authorization server, "
                f"[{{issuer: https://login.example.com}}]; or say {self.knob('auth.mode')}: off, to serve without "
                "authentication"
            )
        url = self.server.public_url
        if url is None:
            if self.server.port == 0 or not is_loopback(self.server.host):
                path = "a service's path" if self.name else "/mcp"
                yield f"server.public_url: is required, since tokens must be for it: public_url + {path}"
            return
        try:
            secure_url(url)
        except ValueError as error:
            yield f"server.public_url: {error}"
        if urlsplit(url).query:
            yield "server.public_url: must not have a ?query"


def inherit(default: Any, own: Any) -> Any:
    """Return raw settings of one service over those of the top level: maps merge, everything else replaces."""
    if not isinstance(default, dict) or not isinstance(own, dict):
        return own
    return default | {key: inherit(default[key], value) if key in default else value for key, value in own.items()}
