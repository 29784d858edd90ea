"""Answer the challenges of HTTP Digest (RFC 7616) in the HTTP client.

aiohttp does the work. A request goes out without an answer first, or with one to the last challenge. A 401 with a
challenge means that the service did not execute it, so it is sent again, once, with the answer.
"""

from __future__ import annotations

from typing import Final

import aiohttp

_MAX_CHALLENGE: Final = 64 * 1024
_CHUNK: Final = 16 * 1024


class HttpDigest(aiohttp.DigestAuthMiddleware):
    """Answer challenges with a user name and a password. The body of a challenge is read to its end, so that its
    connection is free for the answer: some services keep a challenge with its connection."""

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        async def send(request: aiohttp.ClientRequest) -> aiohttp.ClientResponse:
            response = await handler(request)
            if response.status == 401:
                await _drain(response)
            return response

        return await super().__call__(request, send)


async def _drain(response: aiohttp.ClientResponse) -> None:
    """Read a body that nobody needs. Raises :class:`aiohttp.ClientPayloadError` for one that is too long."""
    size = 0
    async for chunk in response.content.iter_chunked(_CHUNK):
        size += len(chunk)
        if size > _MAX_CHALLENGE:
            response.close()
            raise aiohttp.ClientPayloadError("the body of a challenge is too long")
