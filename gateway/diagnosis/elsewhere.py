"""Ask other addresses of a service that gave no listing. No question carries a credential."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from gateway import jsonrpc
from gateway.http_client.response import Answer, ConnectFailed, OutboundError
from gateway.http_client.transport import Transport
from gateway.jsonrpc.response import parse_decoded_response

_PATHS: Final = ("/jsonrpc", "/rpc", "/api/jsonrpc", "/api")
_PATIENCE: Final = 3.0
_MAX_BYTES: Final = 1024**2
_ID: Final = "where"


class Elsewhere:
    """Ask through ``outbound``, whose TLS and proxy are those of the backend. ``paths`` are the usual ones."""

    paths: Final = _PATHS

    def __init__(self, outbound: Transport) -> None:
        self._outbound = outbound

    async def speaks(self, url: str) -> bool:
        """Tell whether a server of this scheme is at an address. One whose certificate is not trusted is."""
        try:
            await self._ask(url)
        except ConnectFailed as error:
            return "certificate" in str(error)
        except OutboundError:
            return False
        return True

    async def find_endpoint(self, url: str) -> str | None:
        """Return the address of the first JSON-RPC endpoint at a usual path, with or without a slash at its end."""
        parts = urlsplit(url)
        own = parts.path.rstrip("/")
        paths = [form for path in (own, *_PATHS) for form in (path, f"{path}/") if form and form != parts.path]
        asked = [urlunsplit((parts.scheme, parts.netloc, path, "", "")) for path in dict.fromkeys(paths)]
        found = await asyncio.gather(*map(self._is_endpoint, asked))
        return next((url for url, is_one in zip(asked, found, strict=True) if is_one), None)

    async def _is_endpoint(self, url: str) -> bool:
        try:
            value = jsonrpc.decode((await self._ask(url)).body.strip())
            parse_decoded_response(value, _ID)
        except (OutboundError, ValueError):
            return False
        # Other services answer {"error": "not found"}, without these members.
        return "jsonrpc" in value or "id" in value

    async def _ask(self, url: str) -> Answer:
        question = jsonrpc.request_bytes(_ID, "rpc.discover", None)
        return await self._outbound.request("POST", url, question, {}, timeout=_PATIENCE, max_bytes=_MAX_BYTES)
