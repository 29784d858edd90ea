"""How the gateway introduces itself to clients (schema.ts ``Implementation``): in the operator's words, else in those
of the service's listing, else under its own name.

2024-11-05 and 2025-03-26 know ``name`` and ``version``, 2025-06-18 adds ``title``, 2025-11-25 and 2026-07-28 all of it.
``instructions`` are told by each revision, beside the implementation: in the result of ``initialize``, or of
``server/discover``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from gateway.model import ServiceInfo
from gateway.settings import Icon, McpServer

PLAIN: Final = ("name", "version")
TITLED: Final = ("name", "title", "version")
WHOLE: Final = ("name", "title", "version", "websiteUrl", "icons")
UNKNOWN: Final = ServiceInfo()
"""A service whose listing is not at hand."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What clients are told of the server. ``members`` are those of an ``Implementation``, without empty ones."""

    members: dict[str, Any]
    instructions: str = ""

    def implementation(self, known: Collection[str]) -> dict[str, Any]:
        """The members that a revision knows."""
        return {name: value for name, value in self.members.items() if name in known}


class Introduction:
    """``name`` and ``version`` are the gateway's own, for a service whose listing says nothing of itself."""

    def __init__(self, configured: McpServer, name: str, version: str) -> None:
        self._configured = configured
        self._name = name
        self._version = version

    def server_info(self, service: ServiceInfo) -> ServerInfo:
        """The introduction of a gateway before this service."""
        own = self._configured
        members = {
            "name": own.name or service.title or self._name,
            "title": service.title if own.title is None else own.title,
            "version": service.version or self._version,
            "websiteUrl": own.website_url or service.website,
            "icons": [_icon(icon) for icon in own.icons],
        }
        instructions = service.description if own.instructions is None else own.instructions
        return ServerInfo({name: value for name, value in members.items() if value}, instructions)


def _icon(icon: Icon) -> dict[str, Any]:
    members = {"src": icon.src, "mimeType": icon.mime_type, "sizes": list(icon.sizes), "theme": icon.theme}
    return {name: value for name, value in members.items() if value}
