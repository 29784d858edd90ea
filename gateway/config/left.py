"""Name the knobs that left, each with what to write instead."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from gateway.settings.paths import Key

LEFT: Final = {
    "auth.issuers.*.introspection.endpoint": "write it into metadata (metadata: {introspection_endpoint: https://…})",
    "auth.issuers.*.jwks_uri": "write it into metadata (metadata: {jwks_uri: https://…})",
    "backend.credentials.header": "write it into send (send: {headers: {X-Api-Key: …}})",
    "backend.credentials.value": "write it into send (send: {headers: {Authorization: Bearer …}})",
    "backend.listing.credentials.value": "write it into send (send: {headers: {Authorization: Bearer …}})",
    "backend.params.always": "set backend.version to 2.0-with-params",
    "backend.params.prefix": "write it into backend.credentials (mode: static, send: {params: [token:…]})",
    "backend.transport": "the gateway chooses, by whether backend.proxy or HTTP Digest is set",
    "catalog.max_tools": "it is 5000; narrow catalog.include where the service lists more",
    "catalog.notify_interval": "it is mcp.heartbeat, and 10 s at most",
    "catalog.tools.*.content": "write mcp: [blocks] where it was blocks",
    "catalog.tools.*.input_required": "write mcp: [input_required] where it was true",
    "catalog.tools.*.requires": "write the names of the capabilities into mcp (mcp: [sampling])",
    "limits.client": "limits.invocation bounds each caller, and backend.connections all of them",
    "mcp.server.icons": "write it into about (mcp.server.about.icons)",
    "mcp.server.title": "write it into about (mcp.server.about.title)",
    "mcp.server.website_url": "write it into about (mcp.server.about.website_url)",
    "store.username": "write it into store.url (redis://user@host)",
    "telemetry.log.format": "it is text on a terminal, and JSON elsewhere",
}
"""What to do instead of each knob. ``*`` is any key, also one with dots."""


def successor(path: Sequence[Key]) -> str | None:
    """Return the fault of a knob that left, None for any other path. A service has the knobs of the top level."""
    own = ".".join(map(str, path[2:] if tuple(path[:1]) == ("services",) else path)).lower()
    return next((f"left in this release; {now}" for knob, now in LEFT.items() if fnmatchcase(own, knob)), None)
