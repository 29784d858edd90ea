"""Describe the server to clients (schema.ts ``Implementation``): from the settings, else from the service's listing,
else with the gateway's own name.

2024-11-05 and 2025-03-26 know ``name`` and ``version``, 2025-06-18 adds ``title``, 2025-11-25 and 2026-07-28 the rest.
``instructions`` stand beside the implementation in each revision: in the result of ``initialize``, or of
``server/discover``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from gateway.model import ServiceInfo
from gateway.settings.mcp import Icon, McpServer

PLAIN: Final = ("name", "version")
TITLED: Final = ("name", "title", "version")
WHOLE: Final = ("name", "title", "version", "websiteUrl", "icons")
UNKNOWN: Final = ServiceInfo()
"""A service whose listing is not cached."""
CAPABILITIES: Final = {"tools": {"listChanged": True}}
"""The gateway's, in both eras."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The server's description for clients. ``members`` are those of an ``Implementation``, without empty ones."""

    members: dict[str, Any]
    instructions: str = ""

    def implementation(self, known: Collection[str]) -> dict[str, Any]:
        """Return the members that are in ``known``, which a revision lists."""
        return {name: value for name, value in self.members.items() if name in known}


class Introduction:
    """Build the server's description from the settings and a listing. ``name`` and ``version`` are the gateway's own,
    the fallback for a listing without them."""

    def __init__(self, configured: McpServer, name: str, version: str) -> None:
        self._configured = configured
        self._name = name
        self._version = version

    def server_info(self, service: ServiceInfo) -> ServerInfo:
        """Return the description of the server for this service."""
        own, about = self._configured, self._configured.about
        members = {
            "name": own.name or service.title or self._name,
            "title": service.title if about.title is None else about.title,
            "version": service.version or self._version,
            "websiteUrl": about.website_url or service.website,
            "icons": [_icon(icon) for icon in about.icons],
        }
        instructions = service.description if own.instructions is None else own.instructions
        return ServerInfo({name: value for name, value in members.items() if value}, instructions)


def _icon(icon: Icon) -> dict[str, Any]:
    members = {"src": icon.src, "mimeType": icon.mime_type, "sizes": list(icon.sizes), "theme": icon.theme}
    return {name: value for name, value in members.items() if value}
