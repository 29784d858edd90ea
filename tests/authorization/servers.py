"""Real authorization servers, each a process on loopback: npm oidc-provider and npm oauth2-mock-server.

async with oidc_provider([Resource("http://127.0.0.1:8080/mcp", ("read", "write"))]) as server:
    issued = await server.client_credentials(resource="http://127.0.0.1:8080/mcp", scope="read")

``with`` works as well, for fixtures that outlive an event loop: no method keeps anything of the loop it ran in.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, ClassVar, Final, Literal
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import aiohttp

from tests.authorization.forge import dpop_proof
from tests.authorization.keys import Key, b64
from tests.authorization.process import TIMEOUT, AuthorizationServer, Refused
from tests.services.process import ServiceFailed
from tests.tls import Authority

LOOPBACK_REDIRECT: Final = "http://127.0.0.1/callback"
"""Of the public client; any port is good (RFC 8252 §7.3)."""
ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_MOST_REDIRECTS: Final = 10


@dataclass(frozen=True)
class Resource:
    """A protected resource that the server makes access tokens for; ``lifetime`` in seconds."""

    identifier: str
    scopes: tuple[str, ...]
    format: Literal["jwt", "opaque"] = "jwt"
    alg: Literal["RS256", "ES256"] = "RS256"
    lifetime: int = 3600


@dataclass(frozen=True)
class Client:
    """A client of the server; one without a secret is public."""

    id: str
    secret: str | None = None


@dataclass(frozen=True)
class Issued:
    """An answer of the token endpoint."""

    token: str
    type: str
    scope: str
    lifetime: int
    body: Mapping[str, Any]


class OidcProvider(AuthorizationServer):
    """npm oidc-provider 9. Its clients: ``machine`` (client credentials), ``public`` (authorization code with PKCE, no
    secret), ``resource_server`` (introspection of all tokens) and ``exchanger`` (token exchange, RFC 8693). Others
    register themselves (RFC 7591) at ``/reg``."""

    paths: ClassVar[Mapping[str, str]] = {
        "jwks": "/jwks",
        "metadata": "/.well-known/oauth-authorization-server",
        "openid": "/.well-known/openid-configuration",
        "token": "/token",
        "introspection": "/token/introspection",
        "revocation": "/token/revocation",
        "registration": "/reg",
        "authorization": "/auth",
    }

    def __init__(self, resources: Sequence[Resource], authority: Authority | None = None) -> None:
        self.machine = _confidential("machine")
        self.public = Client("public")
        self.resource_server = _confidential("resource-server")
        self.exchanger = _confidential("exchanger")
        clients = [
            _registered(self.machine, "client_credentials"),
            _registered(self.resource_server),
            _registered(self.exchanger, TOKEN_EXCHANGE),
            {
                "client_id": self.public.id,
                "token_endpoint_auth_method": "none",
                "application_type": "native",
                "grant_types": ["authorization_code", "refresh_token"],
                "redirect_uris": [LOOPBACK_REDIRECT],
            },
        ]
        options = {
            "clients": clients,
            "resourceServer": self.resource_server.id,
            "resources": [asdict(resource) for resource in resources],
        }
        super().__init__("oidc_provider", "oidc-provider", "oidc_provider.mjs", options, authority)

    async def client_credentials(
        self,
        *,
        resource: str | None = None,
        scope: str | None = None,
        client: Client | None = None,
        dpop: Key | None = None,
    ) -> Issued:
        """A token for ``client``, else for ``machine``; with ``dpop`` bound to that key. Raises :class:`Refused`."""
        form = {"grant_type": "client_credentials", "resource": resource, "scope": scope}
        return await self.token(form, client or self.machine, dpop=dpop)

    async def exchange(
        self,
        subject_token: str,
        *,
        resource: str | None = None,
        audience: str | None = None,
        scope: str | None = None,
        client: Client | None = None,
    ) -> Issued:
        """RFC 8693, see ``node/token_exchange.mjs`` for what it allows. Raises :class:`Refused`."""
        form = {
            "grant_type": TOKEN_EXCHANGE,
            "subject_token": subject_token,
            "subject_token_type": ACCESS_TOKEN,
            "resource": resource,
            "audience": audience,
            "scope": scope,
        }
        return await self.token(form, client or self.exchanger)

    async def authorization_code(
        self, *, resource: str, scope: str, person: str = "alice", dpop: Key | None = None
    ) -> Issued:
        """The whole flow of the public client, the person's browser included. Raises :class:`Refused`."""
        verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe()
        asked = {
            "client_id": self.public.id,
            "response_type": "code",
            "redirect_uri": LOOPBACK_REDIRECT,
            "code_challenge": b64(sha256(verifier.encode()).digest()),
            "code_challenge_method": "S256",
            "resource": resource,
            "scope": scope,
            "state": state,
            "login_hint": person,
        }
        answered = await self.visit(f"{self.base}/auth?{urlencode(asked)}")
        if "error" in answered:
            raise Refused(303, json.dumps(answered), self.output)
        assert answered["state"] == state
        assert answered["iss"] == self.issuer
        form = {
            "grant_type": "authorization_code",
            "code": answered["code"],
            "redirect_uri": LOOPBACK_REDIRECT,
            "code_verifier": verifier,
        }
        return await self.token(form, self.public, dpop=dpop)

    async def visit(self, url: str) -> dict[str, str]:
        """Goes where an authorization request (a URL of this server) leads, as a browser does, up to the client's
        redirect URI: what that is given (code, state, iss, or error). Nobody need listen there."""
        # The cookies of an address instead of a name are refused otherwise.
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(timeout=TIMEOUT, cookie_jar=jar) as browser:
            for _ in range(_MOST_REDIRECTS):
                async with browser.get(url, allow_redirects=False) as response:
                    if "Location" not in response.headers:
                        raise Refused(response.status, await response.text(), self.output)
                    url = urljoin(url, response.headers["Location"])
                if not url.startswith(f"{self.base}/"):
                    return dict(parse_qsl(urlsplit(url).query))
        raise ServiceFailed(f"{self.name} redirects without end, lastly to {url}")

    async def token(self, form: Mapping[str, str | None], client: Client, *, dpop: Key | None = None) -> Issued:
        """Ask the token endpoint; members that are None are left out. Raise :class:`Refused`."""
        url = self.base + self.paths["token"]
        headers = {} if dpop is None else {"DPoP": dpop_proof(dpop, "POST", url)}
        body = await self._post(url, form, client, headers)
        return Issued(body["access_token"], body["token_type"], body.get("scope", ""), body["expires_in"], body)

    async def introspect(self, token: str, client: Client | None = None) -> dict[str, Any]:
        """RFC 7662, as ``resource_server`` unless said otherwise. Tokens that are JWTs are refused."""
        url = self.base + self.paths["introspection"]
        answer: dict[str, Any] = await self._post(url, {"token": token}, client or self.resource_server)
        return answer

    async def revoke(self, token: str, client: Client | None = None) -> None:
        """RFC 7009, of an opaque token by the client that got it, ``machine`` unless said otherwise."""
        await self._post(self.base + self.paths["revocation"], {"token": token}, client or self.machine)

    async def register(self, **metadata: Any) -> dict[str, Any]:
        """Dynamic client registration (RFC 7591). Raises :class:`Refused`."""
        answer: dict[str, Any] = await self._json("POST", self.base + self.paths["registration"], json=metadata)
        return answer

    async def _post(
        self, url: str, form: Mapping[str, str | None], client: Client, headers: Mapping[str, str] | None = None
    ) -> Any:
        data = {name: value for name, value in form.items() if value is not None}
        sent = dict(headers or {})
        if client.secret is None:
            data["client_id"] = client.id
        else:
            sent["Authorization"] = aiohttp.encode_basic_auth(client.id, client.secret)
        return await self._json("POST", url, data=data, headers=sent)


class MockServer(AuthorizationServer):
    """npm oauth2-mock-server 8: signs whatever it is told. It has the metadata of OpenID Connect alone."""

    paths: ClassVar[Mapping[str, str]] = {
        "jwks": "/jwks",
        "metadata": "/.well-known/openid-configuration",
        "token": "/token",
        "introspection": "/introspect",
    }

    def __init__(self) -> None:
        super().__init__("mock_server", "oauth2-mock-server", "mock_server.mjs", {})

    async def mint(
        self,
        payload: Mapping[str, Any],
        header: Mapping[str, Any] | None = None,
        *,
        without: Sequence[str] = (),
        kid: str | None = None,
        key: Key | None = None,
    ) -> str:
        """A token with the server's usual header (typ JWT) and claims (iss, iat, nbf, exp), changed by ``header`` and
        ``payload``, less the claims ``without``; signed by the published ``kid``, or by ``key``, which is not
        published."""
        order = {"payload": payload, "header": header or {}, "without": list(without)}
        if kid is not None:
            order["kid"] = kid
        if key is not None:
            order["key"] = key.private_jwk
        minted = await self._order("POST", "/mint", order)
        return str(minted["token"])


def oidc_provider(resources: Sequence[Resource], authority: Authority | None = None) -> OidcProvider:
    """Return one, with ``authority`` over https. Raise :class:`ServiceMissing` where npm's packages are missing."""
    return OidcProvider(resources, authority)


def mock_server() -> MockServer:
    """Return one. Raise :class:`ServiceMissing` where npm's packages are missing."""
    return MockServer()


def _confidential(id: str) -> Client:
    return Client(id, secrets.token_urlsafe(32))


def _registered(client: Client, *grants: str) -> dict[str, Any]:
    return {
        "client_id": client.id,
        "client_secret": client.secret,
        "grant_types": list(grants),
        "redirect_uris": [],
        "response_types": [],
    }
