"""A stand-in for a Drupal site with simple_oauth 6.1 and simple_oauth_server_metadata: it logs people in, and lists
methods to their tokens.

async with DrupalSite("http://127.0.0.1:3030/callback", scopes=("content:read",)) as site:
    token = site.token("content:read")

Its oddities are those of docs/issuers/simple_oauth.md. Its metadata name it with or without the slash that its tokens
have at the end of ``iss``, and lack ``jwks_uri``. No client can register itself. Tokens have no ``kid``, ``typ`` JWT,
the client's id as ``aud``, a list as ``scope`` and a fraction as ``exp``. The token endpoint does not say which scopes
it granted, and the redirect URI gets no ``iss``. A scope lends a permission: methods that need another are not listed.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import aiohttp
from aiohttp import web

from tests.authorization.forge import OMIT, claims_of
from tests.authorization.issuer import ForgedIssuer
from tests.authorization.keys import b64, rsa_key
from tests.fault.behaviours import Body, Exchange, result
from tests.fault.methods import Rpc, openrpc

CONSUMER: Final = "mcp_client"
JWKS: Final = "/oauth/jwks"


class DrupalSite(ForgedIssuer):
    """``slash`` is what its metadata have at the end of its name, ``token_slash`` what its tokens have. ``redirects``
    are the redirect URIs of the consumer, ``scopes`` the scopes of the site."""

    def __init__(self, *redirects: str, scopes: tuple[str, ...], slash: str = "", token_slash: str = "/") -> None:
        super().__init__(keys=[rsa_key("")])
        self._redirects = redirects
        self._scopes = scopes
        self._slashes = slash, token_slash
        self._codes: dict[str, Mapping[str, str]] = {}
        self.base = ""

    async def __aenter__(self) -> DrupalSite:
        await super().__aenter__()
        self.base = self.issuer
        in_metadata, in_tokens = self._slashes
        self.issuer = self.base + in_tokens
        jwk = {name: value for name, value in self.keys[0].jwk.items() if name != "kid"}
        self.publish(jwk)
        self._paths["jwks"] = JWKS
        self.metadata = {
            "issuer": self.base + in_metadata,
            "authorization_endpoint": f"{self.base}/oauth/authorize",
            "token_endpoint": f"{self.base}/oauth/token",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "none"],
            "scopes_supported": list(self._scopes),
        }
        return self

    async def visit(self, url: str) -> Mapping[str, str]:
        """What the client's redirect URI is given after a person went to a URL of the site and agreed."""
        async with aiohttp.ClientSession() as browser, browser.get(url, allow_redirects=False) as response:
            assert response.status == 302, await response.text()
            return dict(parse_qsl(urlsplit(response.headers["Location"]).query))

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/oauth/authorize":
            return self._authorize(request.query)
        if request.path == "/oauth/token":
            return self._token({name: str(value) for name, value in (await request.post()).items()})
        return await super()._answer(request)

    def _authorize(self, asked: Mapping[str, str]) -> web.Response:
        if asked.get("client_id") != CONSUMER or asked.get("redirect_uri") not in self._redirects:
            return web.json_response({"error": "invalid_client"}, status=401)
        answer = {"state": asked.get("state", "")}
        if not set(asked.get("scope", "").split()) <= set(self._scopes):
            answer["error"] = "invalid_scope"
        else:
            answer["code"] = secrets.token_urlsafe()
            self._codes[answer["code"]] = dict(asked)
        return web.Response(status=302, headers={"Location": f"{asked['redirect_uri']}?{urlencode(answer)}"})

    def _token(self, form: Mapping[str, str]) -> web.Response:
        asked = self._codes.pop(form.get("code", ""), {})
        challenge = b64(sha256(form.get("code_verifier", "").encode()).digest())
        named = form.get("client_id"), form.get("redirect_uri")
        if challenge != asked.get("code_challenge") or named != (asked["client_id"], asked["redirect_uri"]):
            return web.json_response({"error": "invalid_grant"}, status=400)
        token = self.token(*asked.get("scope", "").split())
        return web.json_response({"token_type": "Bearer", "expires_in": 300, "access_token": token})

    def token(self, *scopes: str) -> str:
        """An access token of the user 7."""
        claims = {"aud": CONSUMER, "scope": list(scopes), "sub": "7", "exp": time.time() + 300.427109}
        return self.sign(header={"typ": "JWT", "kid": OMIT}, client_id=OMIT, **claims)


class Permitted:
    """What ``rpc.discover`` lists: each method to tokens that have the scope which lends its permission."""

    def __init__(self, *methods: tuple[Rpc, str]) -> None:
        self._methods = methods

    async def play(self, exchange: Exchange) -> None:
        token = exchange.request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not token:
            await Body(status=403, content_type=None).play(exchange)
            return
        scopes: Any = claims_of(token)["scope"]
        listed = [method.listed() for method, scope in self._methods if scope in scopes]
        await result(openrpc(()) | {"methods": listed}).play(exchange)
