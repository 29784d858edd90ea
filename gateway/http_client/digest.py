"""Answer the challenges of HTTP Digest (RFC 7616) in the HTTP client, over lanes of one connection each.

aiohttp computes the answers. A 401 with a challenge means that the service did not execute the request, so it is sent
again, once. monerod keeps the challenge with the connection, and refuses the answer on another one (34 % of calls, ten
at a time): so each lane has one connection, and its own state of Digest.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Final, cast

import aiohttp
from aiohttp.client_middleware_digest_auth import CHALLENGE_FIELDS, SUPPORTED_ALGORITHMS

from gateway.http_client.response import Answer
from gateway.http_client.session import Outbound

_MAX_CHALLENGE: Final = 64 * 1024
_CHUNK: Final = 16 * 1024
_NAME: Final = r"([!#$%&'*+.^_`|~0-9A-Za-z-]++)"
_PART: Final = re.compile(rf'{_NAME}[ \t]*+=[ \t]*+(?:"((?:[^"\\]|\\.)*+)"|{_NAME})|{_NAME}')
"""A parameter of a challenge, else a scheme. A token68 (RFC 9110 §11.2) passes for an unknown scheme."""


class HttpDigest(aiohttp.DigestAuthMiddleware):
    """Answer challenges, each read to its end, so that its connection is free for the answer."""

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        response: aiohttp.ClientResponse | None = None

        async def send(request: aiohttp.ClientRequest) -> aiohttp.ClientResponse:
            nonlocal response
            response = await handler(request)
            if response.status != 401:
                return response
            await _drain(response)
            return cast("aiohttp.ClientResponse", _with_one_challenge(response))

        await super().__call__(request, send)
        assert response is not None  # noqa: S101, it sends at least once
        return response


def _with_one_challenge(response: aiohttp.ClientResponse) -> SimpleNamespace:
    """Return a refusal with the first challenge that aiohttp can answer (RFC 7616 §3.7): it looks at one alone."""
    challenges = _challenges(", ".join(response.headers.getall("WWW-Authenticate", ())))
    headers = {}
    for scheme, challenge in challenges:
        if scheme == "digest" and _is_answerable(challenge):
            # Some services name auth-int and do not compute it.
            chosen = challenge | ({"qop": "auth"} if "auth" in _protections(challenge) else {})
            headers["www-authenticate"] = "Digest " + ", ".join(f'{name}="{one}"' for name, one in chosen.items())
            break
    return SimpleNamespace(status=response.status, headers=headers, url=response.url)


def _challenges(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield scheme and known parameters, in lower case, of the challenges in a header (RFC 9110 §11.6.1)."""
    scheme, parameters = "", dict[str, str]()
    for name, quoted, plain, next_scheme in _PART.findall(header):
        if next_scheme:
            yield scheme, parameters
            scheme, parameters = next_scheme.lower(), {}
        elif name.lower() in CHALLENGE_FIELDS:
            parameters[name.lower()] = quoted or plain
    yield scheme, parameters


def _is_answerable(challenge: Mapping[str, str]) -> bool:
    if "realm" not in challenge or not challenge.get("nonce"):
        return False
    protections = _protections(challenge)
    known = not protections or not protections.isdisjoint(("auth", "auth-int"))
    return known and challenge.get("algorithm", "MD5").upper() in SUPPORTED_ALGORITHMS


def _protections(challenge: Mapping[str, str]) -> set[str]:
    return {*filter(None, map(str.strip, challenge.get("qop", "").split(",")))}


async def _drain(response: aiohttp.ClientResponse) -> None:
    """Read an unneeded body. Raises :class:`aiohttp.ClientPayloadError` for one that is too long."""
    size = 0
    async for chunk in response.content.iter_chunked(_CHUNK):
        size += len(chunk)
        if size > _MAX_CHALLENGE:
            response.close()
            raise aiohttp.ClientPayloadError("the body of a challenge is too long")


class Lanes:
    """Hold lanes, of which each exchange has one for itself. ``open_lane`` makes one with a single connection. The
    queue in front bounds the exchanges at a time."""

    def __init__(self, open_lane: Callable[[], Outbound]) -> None:
        self._open_lane = open_lane
        self._lanes: list[Outbound] = []
        self._idle: list[Outbound] = []

    async def request(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], *, timeout: float, max_bytes: int
    ) -> Answer:
        if not self._idle:
            self._idle.append(self._open_lane())
            self._lanes.append(self._idle[-1])
        lane = self._idle.pop()  # the one used last: its challenge is fresh
        try:
            return await lane.request(method, url, body, headers, timeout=timeout, max_bytes=max_bytes)
        finally:
            self._idle.append(lane)

    async def close(self) -> None:
        for lane in self._lanes:
            await lane.close()
