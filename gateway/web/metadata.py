"""``/.well-known/oauth-protected-resource``: who issues tokens for this gateway (RFC 9728 §3).

The document is public and comes from the configuration alone, so that neither Host nor Origin matters: any page may
read it, under any name. There is none with ``auth.mode: off``.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from gateway.web.context import CONTEXT
from gateway.web.replies import JSON

_HEADERS: Final = {"Cache-Control": "public, max-age=3600", "Access-Control-Allow-Origin": "*"}
_PREFLIGHT: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET",
    "Access-Control-Allow-Headers": "MCP-Protocol-Version",
    "Access-Control-Max-Age": "600",
}


def metadata_response(request: web.Request) -> web.Response | None:
    """The document, or the answer to a preflight for it; None for another path or another method."""
    metadata = request.app[CONTEXT].metadata
    if metadata is None or request.path not in metadata.paths:
        return None
    if request.method == "OPTIONS":
        return web.Response(status=204, headers=_PREFLIGHT)
    if request.method not in ("GET", "HEAD"):
        return web.Response(status=405, headers={"Allow": "GET, HEAD, OPTIONS"})
    return web.Response(body=metadata.body, content_type=JSON, headers=_HEADERS)
