"""Introduce services to programs that look for some: a card for each, and a catalog of the cards (SEP-2127, a draft).

Both are public. They have what is configured and the version of the listing that all callers share; never a tool.
"""

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from gateway import jsonrpc
from gateway.mcp import legacy, modern
from gateway.mcp.operations import Operations, ServerInfo

CARD: Final = "/mcp/server-card"
CATALOG: Final = "/.well-known/ai-catalog.json"
CARD_TYPE: Final = "application/mcp-server-card+json"
CATALOG_TYPE: Final = "application/ai-catalog+json"
_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
_MEMBERS: Final = ("version", "title", "websiteUrl", "icons")
_OTHER: Final = re.compile(r"[^a-zA-Z0-9._-]+")
_MAX: Final = 100  # characters of a description
_VERSIONS: Final = (*modern.VERSIONS, *legacy.VERSIONS)


class ServerCard:
    """Say in public what a service is. ``resource`` is the URL of its MCP endpoint, ``mount`` its prefix."""

    def __init__(self, resource: str, mount: str, operations: Operations) -> None:
        self._resource = resource
        self._mount = mount
        self._operations = operations

    def body(self) -> bytes:
        info = self._operations.public_info()
        known, (domain, name) = info.members, self._names(info)
        card = {
            "$schema": _SCHEMA,
            "name": f"{'.'.join(reversed(domain.split('.')))}/{name}",
            "description": (known.get("description") or known.get("title") or f"Tools at {self._resource}")[:_MAX],
            **info.implementation(_MEMBERS),
            "remotes": [{"type": "streamable-http", "url": self._resource, "supportedProtocolVersions": _VERSIONS}],
        }
        return jsonrpc.encode(card)

    def entry(self) -> dict[str, str]:
        """Return the card's entry in a catalog."""
        domain, name = self._names(self._operations.public_info())
        return {"identifier": f"urn:air:{domain}:mcp:{name}", "type": CARD_TYPE, "url": f"{self._resource}/server-card"}

    def _names(self, info: ServerInfo) -> tuple[str, str]:
        """Return the domain, and a name that no other service of the gateway has."""
        domain = urlsplit(self._resource).hostname or ""
        return _OTHER.sub("-", domain), self._mount[1:] or _OTHER.sub("-", info.members["name"])


def catalog(cards: Iterable[ServerCard]) -> bytes:
    return jsonrpc.encode({"specVersion": "1.0", "entries": [card.entry() for card in cards]})
