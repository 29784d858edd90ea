"""An issuer within this process, which signs and publishes whatever a test says and remembers who asked.

async with ForgedIssuer(resource) as issuer:
    good = issuer.sign()
    old = issuer.sign(exp=0)
    issuer.disturb("jwks", "500")
    assert issuer.count("jwks") == 1

As it comes, it is a sound one: an access token of RFC 9068 for the resource, an ES256 key, metadata of RFC 8414.
"""

from __future__ import annotations

import asyncio
import ssl
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import parse_qsl

from aiohttp import web
from multidict import CIMultiDictProxy

from tests.authorization import forge
from tests.authorization.answers import MOVED, Answer, Disturbance, answer_of
from tests.authorization.forge import Part
from tests.authorization.keys import Key, ec_key
from tests.tls import Authority
from tests.waiting import PATIENCE

RESOURCE: Final = "http://127.0.0.1:8080/mcp"
LIFETIME: Final = 300
"""Seconds that a token is good for, unless a test says otherwise."""
_CHUNK: Final = b" " * 65536


@dataclass(frozen=True)
class Fetch:
    """A request as the issuer got it; ``path`` is without its query."""

    method: str
    path: str
    headers: CIMultiDictProxy[str]
    body: bytes


@dataclass(frozen=True)
class Certificate:
    """What an https issuer shows, and the file (PEM) with the authority that vouches for it."""

    context: ssl.SSLContext
    ca_file: Path


def certificate(directory: Path, *names: str, expired: bool = False) -> Certificate:
    """For hosts by name or address, by an authority of its own, whose file goes into ``directory``."""
    authority = Authority(directory)
    return Certificate(authority.server(*names, expired=expired), authority.file)


class ForgedIssuer:
    """``path`` makes it one of several tenants, ``host`` is its name, which has to resolve to 127.0.0.1; ``keys`` are
    those it begins with, of which the first signs.

    ``metadata``, ``jwks`` and ``introspections`` (token → answer, else inactive) are served as they are at the moment,
    so change them at will. ``metadata_places`` are the well-known paths that answer, all unless changed.
    """

    def __init__(
        self,
        resource: str = RESOURCE,
        *,
        scope: str = "",
        path: str = "",
        host: str = "127.0.0.1",
        keys: Sequence[Key] = (),
        clock: Callable[[], float] = time.time,
        tls: Certificate | None = None,
    ) -> None:
        self.resource = resource
        self.scope = scope
        self.keys = list(keys) or [ec_key("k1")]
        self.jwks: dict[str, Any] = {}
        self.publish(*self.keys)
        self.metadata: dict[str, Any] = {}
        self.introspections: dict[str, Mapping[str, Any]] = {}
        self.fetches: list[Fetch] = []
        self.issuer = ""
        self.metadata_places = list(
            dict.fromkeys(
                (
                    f"/.well-known/oauth-authorization-server{path}",
                    f"/.well-known/openid-configuration{path}",
                    f"{path}/.well-known/openid-configuration",
                )
            )
        )
        self._path = path
        self._host = host
        self._clock = clock
        self._tls = tls
        self._paths = {
            "jwks": f"{path}/jwks",
            "metadata": self.metadata_places[0],
            "introspection": f"{path}/introspection",
            "token": f"{path}/token",
        }
        self._disturbances: dict[str, Disturbance] = {}
        self._undisturbed = asyncio.Event()
        self._hold_changed = asyncio.Condition()
        self._held: list[str] = []
        self._runner: web.ServerRunner | None = None

    # Tokens

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Return the claims of a sound token, with ``changes``; :data:`forge.OMIT` leaves one out."""
        now = int(self._clock())
        usual = {
            "iss": self.issuer,
            "sub": "alice",
            "aud": self.resource,
            "exp": now + LIFETIME,
            "iat": now,
            "jti": uuid.uuid4().hex,
            "client_id": "client",
        }
        return forge.over(usual | ({"scope": self.scope} if self.scope else {}), changes)

    def header(self, key: Key | None = None, **changes: Any) -> dict[str, Any]:
        """Return the header of a sound token signed by ``key``."""
        key = key or self.keys[0]
        return forge.over({"typ": "at+jwt", "alg": key.alg, "kid": key.kid}, changes)

    def sign(
        self,
        claims: Part | None = None,
        *,
        header: Part | None = None,
        key: Key | None = None,
        alg: str | None = None,
        **changes: Any,
    ) -> str:
        """A token that is sound but for what is said. ``header`` as a mapping changes the usual one, as bytes is all of
        it; ``claims`` replaces the usual ones, ``changes`` alter them; ``alg`` signs so whatever the header says."""
        key = key or self.keys[0]
        if not isinstance(header, bytes):
            header = self.header(key, **(header or {}))
        return forge.compact(header, self.claims(**changes) if claims is None else claims, key, alg=alg)

    # Keys

    def publish(self, *keys: Key | Mapping[str, Any]) -> None:
        """Make these, and no others, the key set; a mapping is a JWK as it is."""
        self.jwks["keys"] = [key.jwk if isinstance(key, Key) else dict(key) for key in keys]

    def rotate(self) -> Key:
        """A new key signs and is published beside the ones before."""
        key = ec_key(f"k{len(self.keys) + 1}")
        self.keys.insert(0, key)
        self.publish(*self.keys)
        return key

    def retire(self) -> None:
        """Only the key that signs stays published."""
        del self.keys[1:]
        self.publish(*self.keys)

    # Requests

    @property
    def jwks_uri(self) -> str:
        return self.url("jwks")

    def url(self, document: str) -> str:
        return self.issuer.removesuffix(self._path) + self._at(document)

    def count(self, document: str | None = None) -> int:
        """How many requests came: for ``jwks``, ``metadata`` (at any of its places), ``introspection``, ``token``, or a
        path; for anything at all when none is named."""
        if document is None:
            return len(self.fetches)
        paths = self.metadata_places if document == "metadata" else [self._at(document)]
        return sum(fetch.path in paths for fetch in self.fetches)

    def disturb(self, document: str, how: Disturbance) -> None:
        """From now on, and until :meth:`restore`."""
        self._undisturbed.clear()
        paths = self.metadata_places if document == "metadata" else [self._at(document)]
        self._disturbances.update(dict.fromkeys(paths, how))

    def restore(self) -> None:
        """Ends all disturbances; requests that were held get the genuine document."""
        self._disturbances.clear()
        self._undisturbed.set()

    async def held(self, document: str, count: int = 1) -> None:
        """Return once so many requests for the document are held. Raise :class:`TimeoutError`."""
        path = self._at(document)
        async with asyncio.timeout(PATIENCE), self._hold_changed:
            await self._hold_changed.wait_for(lambda: self._held.count(path) >= count)

    # Serving

    async def __aenter__(self) -> Self:
        self._runner = web.ServerRunner(web.Server(self._answer), shutdown_timeout=0.1)
        await self._runner.setup()
        context = self._tls.context if self._tls else None
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        _, port = self._runner.addresses[0][:2]
        self.issuer = f"{'https' if self._tls else 'http'}://{self._host}:{port}{self._path}"
        self.metadata.update(
            issuer=self.issuer,
            jwks_uri=self.jwks_uri,
            introspection_endpoint=self.url("introspection"),
            token_endpoint=self.url("token"),
            authorization_endpoint=f"{self.issuer}/authorize",
            response_types_supported=["code"],
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self.restore()
        if self._runner is not None:
            await self._runner.cleanup()

    def _at(self, document: str) -> str:
        return document if document.startswith("/") else self._paths[document]

    def _genuine(self, path: str, body: bytes = b"") -> bytes | None:
        """The document at a path, or None for none."""
        if path in self.metadata_places:
            return forge.encoded(self.metadata)
        if path == self._paths["jwks"]:
            return forge.encoded(self.jwks)
        if path == self._paths["introspection"]:
            token = dict(parse_qsl(body.decode())).get("token", "")
            return forge.encoded(self.introspections.get(token, {"active": False}))
        return None

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        self.fetches.append(Fetch(request.method, request.path, request.headers, body))
        how = self._disturbances.get(request.path)
        if how == "reset":
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        if how == "hold":
            await self._hold(request.path)
            how = None
        genuine = self._genuine(request.path.removeprefix(MOVED), body)
        if how is None:
            if genuine is None:
                return web.json_response({"error": "not_found"}, status=404)
            return web.Response(body=genuine, content_type="application/json")
        answer = how if isinstance(how, Answer) else answer_of(how, genuine or b"", request.path)
        return await _play(answer, request)

    async def _hold(self, path: str) -> None:
        async with self._hold_changed:
            self._held.append(path)
            self._hold_changed.notify_all()
        try:
            await self._undisturbed.wait()
        finally:
            self._held.remove(path)

    def __repr__(self) -> str:
        return f"<ForgedIssuer {self.issuer or 'not started'}>"


async def _play(answer: Answer, request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, headers=answer.headers)
    if answer.cut:
        response.content_length = answer.padding + len(answer.body) + 1
    # Whoever has heard enough goes.
    with suppress(ConnectionError):
        await response.prepare(request)
        for start in range(0, answer.padding, len(_CHUNK)):
            await response.write(_CHUNK[: answer.padding - start])
        await response.write(answer.body)
        if answer.cut and request.transport is not None:
            request.transport.close()
        else:
            await response.write_eof()
    return response
