"""Mistakes with OAuth: issuers, tokens, scopes, what the service is sent, and what a client's requests are told.

The issuer is one of our own, which signs whatever a row says. The gateway's resource is ``https://gw.example.com/mcp``.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.authorization import forge
from tests.authorization.forge import OMIT
from tests.authorization.issuer import ForgedIssuer
from tests.authorization.keys import ec_key, octets, rsa_key
from tests.authorization.token_endpoint import start_token_endpoint
from tests.mistakes.commands import Command, run_all
from tests.mistakes.mistake import Addresses, Mistake, Told
from tests.program import serving
from tests.troubleshooting.places import Places, started

RESOURCE: Final = "https://gw.example.com/mcp"
BACKEND: Final = "https://backend.example.com"
_FAR: Final = 3600


@dataclass(frozen=True)
class World(Addresses):
    """Hold what the rows need: the places, the issuer, one whose keys are away, and the tokens by name."""

    places: Places
    issuer: ForgedIssuer
    broken: ForgedIssuer
    tokens: Mapping[str, str]
    token_endpoint: str

    def names(self) -> dict[str, str]:
        return {
            "<issuer>": self.issuer.issuer,
            "<origin>": self.issuer.issuer.removesuffix("/realms/shop"),
            "<broken>": self.broken.issuer,
            "<login>": self.places.url("login", "/signin"),
            "<closed>": self.places.url("closed", ""),
            "<token>": self.token_endpoint,
            "<service>": self.places.urls["service"],
            "<dir>": str(self.places.directory),
        }


@dataclass(frozen=True)
class Checked:
    """Hold one mistake that a command tells: ``check`` with a token by name, where there is one."""

    mistake: Mistake
    knobs: tuple[str, ...] = ()
    token: str = ""
    public: str = "https://gw.example.com"
    credentials: str = "none"
    command: tuple[str, ...] = ("check",)

    def make(self, world: World) -> Command:
        """Return the command line."""
        ground = (
            "backend.url=<service>",
            *((f"server.public_url={self.public}",) if self.public else ()),
            *((f"backend.credentials.mode={self.credentials}",) if self.credentials else ()),
            *(() if any("auth.issuers" in knob for knob in self.knobs) else ("auth.issuers=[{issuer: '<issuer>'}]",)),
        )
        options = [part for knob in (*ground, *self.knobs) for part in ("--set", world.filled(knob))]
        token = ("--token-file", world.places.file(f"{self.token}.token")) if self.token else ()
        return Command((*self.command, *options, *token))


@dataclass(frozen=True)
class Asked:
    """Hold one mistake that a running gateway tells: a request to it. ``headers`` may name a token, as in {good}."""

    mistake: Mistake
    headers: tuple[tuple[str, str], ...] = ()
    query: str = ""


CHECKED: Final = (
    # Issuers
    Checked(Mistake("The issuer lacks the slash at the end that its tokens have.",
                    "<issuer>/", "Add the issuer to auth.issuers", 1), token="slash"),
    Checked(Mistake("The issuer's address says http, far from here.", "auth.issuers.0.issuer",
                    "must be https", 2), ("auth.issuers=[{issuer: 'http://login.example.com'}]",)),
    Checked(Mistake("The issuer is a realm that is not there.", "<origin>/realms/nobody", "auth.issuers.0.issuer", 1),
            ("auth.issuers=[{issuer: '<origin>/realms/nobody'}]",)),
    Checked(Mistake("The issuer is the address of its keys.", "<issuer>/jwks", "auth.issuers.0.issuer", 1),
            ("auth.issuers=[{issuer: '<issuer>/jwks'}]",)),
    Checked(Mistake("The issuer is the address of its metadata.", ".well-known", "auth.issuers.0.issuer", 1),
            ("auth.issuers=[{issuer: '<issuer>/.well-known/openid-configuration'}]",)),
    Checked(Mistake("The issuer is the address of its login page.", "<login>", "auth.issuers.0.issuer", 1),
            ("auth.issuers=[{issuer: '<login>'}]",)),
    Checked(Mistake("The issuer's keys cannot be had.", "<broken>/jwks: HTTP 500", "look into its log", 1),
            ("auth.issuers=[{issuer: '<broken>'}]",)),
    Checked(Mistake("jwks_uri is the address of the issuer itself.", "HTTP 404", "auth.issuers.0.metadata.jwks_uri", 1),
            ("auth.issuers=[{issuer: '<issuer>', metadata: {jwks_uri: '<issuer>'}}]",)),
    Checked(Mistake("The name of a preset is misspelled.", "preset", "did you mean keycloak?", 2),
            ("auth.issuers=[{issuer: '<issuer>', preset: keyclok}]",)),
    Checked(Mistake("The preset needs client ids, and none are named.", "cognito", "clients must list the client ids",
            2),
            ("auth.issuers=[{issuer: '<issuer>', preset: cognito}]",)),
    # Our own address
    Checked(Mistake("public_url has the path /mcp.", "server.public_url", "https://gw.example.com", 2),
            public="https://gw.example.com/mcp"),
    Checked(Mistake("public_url is missing, behind a proxy.", "http://127.0.0.1:8080/mcp", "server.public_url", 1),
            token="good", public=""),
    Checked(Mistake("public_url is of loopback, behind a proxy.", "http://localhost:8080/mcp", "server.public_url", 1),
            token="good", public="http://localhost:8080"),
    Checked(Mistake("audiences has the service's.", BACKEND, "auth.issuers.0.audiences", 1),
            (f"auth.issuers=[{{issuer: '<issuer>', audiences: ['{BACKEND}']}}]",), token="good"),
    # Tokens
    Checked(Mistake("The clock of the issuer or ours is wrong: the token is not valid yet.", "nbf is in the future",
            "clock", 1),
            token="early"),
    Checked(Mistake("The token is of another realm.", "<origin>/realms/other", "auth.issuers", 1), token="foreign"),
    Checked(Mistake("The token has no audience.", "aud", f"Get a token whose aud is {RESOURCE}", 1),
            token="no-audience"),
    Checked(Mistake("The token is signed with a shared secret.", "HS256", "ES256", 1), token="hs256"),
    Checked(Mistake("The token is not signed.", "not signed", "sign", 1), token="unsigned"),
    Checked(Mistake("The token is encrypted.", "encrypted", "signed", 1), token="encrypted"),
    Checked(Mistake("The token is opaque.", "opaque", "auth.issuers.0.introspection", 1), token="opaque"),
    Checked(Mistake("It is an ID token.", "ID token", "access token", 1), token="id"),
    Checked(Mistake("The token is pasted with quotes.", "quot", "leave them out", 2), token="quoted"),
    Checked(Mistake("The token is pasted with a line break.", "line", "one line", 2), token="broken"),
    Checked(Mistake("Half of the token is copied.", "parts", "whole", 1), token="half"),
    Checked(Mistake("The whole answer of the issuer is pasted.", "JSON", "access_token", 2), token="answer"),
    Checked(Mistake("The issuer has rotated its keys since.", "key", "Get a new token", 1), token="rotated"),
    Checked(Mistake("The token is bound to a key.", "cnf", "auth.dpop", 1), token="bound"),
    Checked(Mistake("The token is of a client that is not among ours.", "client", "auth.issuers.0.clients", 1),
            ("auth.issuers=[{issuer: '<issuer>', clients: [mcp-client]}]",), token="good"),
    Checked(Mistake("The token lacks a scope.", "books:read", "Get a token with", 1),
            ("auth.scopes.list=[books:read]",), token="no-scope"),
    Checked(Mistake("A scope in auth.scopes is misspelled.", "book:read", "auth.scopes.list", 1),
            ("auth.scopes.list=[book:read]",), token="good"),
    # What the service is sent
    Checked(Mistake("same_resource, and the service wants another audience.", BACKEND, "token_exchange", 2),
            (f"backend.credentials.backend_audience={BACKEND}",), credentials="same_resource"),
    Checked(Mistake("Nobody said what the service is sent.", "backend.credentials", "backend_audience", 2),
            credentials=""),
    Checked(Mistake("token_exchange without the client's secret.", "token_exchange",
                    "needs client_secret", 2),
            ("backend.credentials.client_id=gateway", f"backend.credentials.audience={BACKEND}"),
            credentials="token_exchange"),
    Checked(Mistake("client_credentials with a wrong secret.", "invalid_client",
            "Correct backend.credentials, whose mode is client_credentials", 3),
            ("backend.credentials.client_id=gateway", "backend.credentials.client_secret=wrong",
             "backend.credentials.token_endpoint=<token>"),
            credentials="client_credentials"),
    Checked(Mistake("The token endpoint is not there.", "not_found",
            "Correct backend.credentials, whose mode is client_credentials", 3),
            ("backend.credentials.client_id=gateway", "backend.credentials.client_secret=right",
             "backend.credentials.token_endpoint=<origin>/oauth/token"), credentials="client_credentials"),
    Checked(Mistake("static without a value.", "static", "needs send", 2), credentials="static"),
    Checked(Mistake("A value, and a mode that does not send it.", "mode: none takes no send", "mode: static", 2),
            ("backend.credentials.send={headers: {Authorization: Bearer some-token}}",), credentials="none"),
    # Logins of clients
    Checked(Mistake("No client can register itself, and none has an id.", "register", "--client-id", 0),
            command=("connect", "--client", "cursor", "--http")),
)  # fmt: skip

LISTED: Final = "/mcp/tools/list"
ASKED: Final = (
    Asked(Mistake("A request has no token.", "Bearer", "resource_metadata=", 401)),
    Asked(Mistake("The token is in the query.", "URL", "Authorization", 400), query="access_token={good}"),
    Asked(Mistake("The token is in a cookie.", "access token", "Authorization", 401),
          (("Cookie", "access_token={good}"),)),
    Asked(Mistake("A user and a password are sent.", "access token", "Bearer", 401), (("Authorization",
            "Basic YTpi"),)),
    Asked(Mistake("The word Bearer is missing.", "Authorization", "Bearer", 401), (("Authorization", "{good}"),)),
    Asked(Mistake("The word Bearer is there twice.", "Bearer", "Bearer and one token", 400),
          (("Authorization", "Bearer Bearer {good}"),)),
    Asked(Mistake("The token is sent within quotes.", "Authorization", "without quotes", 400), (("Authorization",
            'Bearer "{good}"'),)),
    Asked(Mistake("The header is there twice.", "Authorization", "send one", 400),
          (("Authorization", "Bearer {good}"), ("Authorization", "Bearer {good}"))),
    Asked(Mistake("The token has expired.", "expired", "resource_metadata=", 401), (("Authorization",
            "Bearer {over}"),)),
    Asked(Mistake("The token is for the service behind.", "not valid here", "", 401),
          (("Authorization", "Bearer {for-backend}"),)),
    Asked(Mistake("The token is opaque, and the issuer's are signed.", "not valid here", "resource_metadata=", 401),
          (("Authorization", "Bearer {opaque}"),)),
    Asked(Mistake("The token lacks the scope.", "insufficient_scope", 'scope="books:read"', 403),
          (("Authorization", "Bearer {no-scope}"),)),
    Asked(Mistake("The proxy in front passes a name that nobody configured.", "This host",
            "server.allowed_hosts",
                  421), (("Host", "shop.example.org"), ("Authorization", "Bearer {good}"))),
)  # fmt: skip


async def tell() -> dict[str, Told]:
    """Make all the mistakes once, and return what each is told."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        places = stack.enter_context(started(directory))
        issuer = await stack.enter_async_context(ForgedIssuer(RESOURCE, scope="books:read", path="/realms/shop"))
        broken = await stack.enter_async_context(ForgedIssuer(RESOURCE))
        broken.disturb("jwks", "500")

        async def serve(application: web.Application, **options: Any) -> TestServer:
            server = TestServer(application)
            await server.start_server(**options)
            stack.push_async_callback(server.close)
            return server

        endpoint = await start_token_endpoint(serve)
        endpoint.answer = lambda _: (401, {"error": "invalid_client"})
        world = World(places, issuer, broken, _tokens(issuer), endpoint.url)
        for name, token in world.tokens.items():
            (directory / f"{name}.token").write_text(token)
        told = await run_all({row.mistake.name: row.make(world) for row in CHECKED})
        told |= await _ask(world)
        return {name: Told(one.code, world.named(one.text)) for name, one in told.items()}


def _tokens(issuer: ForgedIssuer) -> dict[str, str]:
    now, good = int(time.time()), issuer.sign()
    answer = {"access_token": good, "token_type": "Bearer", "expires_in": 300}
    id_token: dict[str, Any] = {
        "aud": "mcp-client", "nonce": "n-0S6_WzA2Mj", "at_hash": "77QmUPtjPfzWtF2AnpK9RQ", "auth_time": now,
        "scope": OMIT, "client_id": OMIT,
    }  # fmt: skip
    return {
        "good": good,
        "early": issuer.sign(iat=now + _FAR, nbf=now + _FAR, exp=now + 2 * _FAR),
        "over": issuer.sign(iat=1_600_000_000, exp=1_600_000_300),
        "slash": issuer.sign(iss=f"{issuer.issuer}/"),
        "foreign": issuer.sign(iss=issuer.issuer.replace("shop", "other")),
        "no-audience": issuer.sign(aud=OMIT),
        "for-backend": issuer.sign(aud=BACKEND),
        "hs256": forge.compact({"alg": "HS256", "typ": "at+jwt", "kid": "oct"}, issuer.claims(), octets()),
        "unsigned": forge.unsecured(issuer.claims()),
        "encrypted": forge.encrypted(issuer.claims(), rsa_key()),
        "opaque": "2YotnFZFEjr1zCsicMWpAA",
        "id": issuer.sign(header={"typ": "JWT"}, **id_token),
        "quoted": f'"{good}"\n',
        "broken": f"{good[:60]}\n{good[60:]}\n",
        "half": good[:120],
        "answer": json.dumps(answer, indent=2),
        "rotated": issuer.sign(key=ec_key("k0")),
        "bound": issuer.sign(cnf={"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}),
        "no-scope": issuer.sign(scope=OMIT),
    }


async def _ask(world: World) -> dict[str, Told]:
    """Send the requests to a gateway, and return status, challenge and body of each answer."""
    knobs = ("server.public_url=https://gw.example.com", f"auth.issuers=[{{issuer: '{world.issuer.issuer}'}}]",
             "auth.scopes.list=[books:read]", "backend.credentials.mode=none")  # fmt: skip
    told: dict[str, Told] = {}
    async with serving(world.places.urls["service"], *knobs) as (program, front), aiohttp.ClientSession() as session:
        for row in ASKED:
            headers = [(name, _with_token(value, world.tokens)) for name, value in row.headers]
            url = f"{front.base}{LISTED}?{_with_token(row.query, world.tokens)}"
            async with session.get(url, headers=headers) as answer:
                challenge = answer.headers.get("WWW-Authenticate", "")
                told[row.mistake.name] = Told(answer.status, f"{challenge}\n{await answer.text()}")
        del program
    return told


def _with_token(text: str, tokens: Mapping[str, str]) -> str:
    for name, token in tokens.items():
        text = text.replace(f"{{{name}}}", token)
    return text


ROWS: Final[tuple[Mistake, ...]] = tuple(row.mistake for row in (*CHECKED, *ASKED))
