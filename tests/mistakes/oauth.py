"""Mistakes with OAuth: issuers, tokens, scopes, what the service is sent, and what a client's requests are told.

The issuer is one of our own, which signs whatever a row says. The gateway's resource is ``https://gw.example.com/mcp``.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec import field

from tests.authorization import forge
from tests.authorization.forge import OMIT
from tests.authorization.issuer import ForgedIssuer
from tests.authorization.keys import ec_key, octets, rsa_key
from tests.authorization.token_endpoint import start_token_endpoint
from tests.mistakes.mistake import Mistake, Told, filled
from tests.mistakes.reading import read_rows
from tests.mistakes.row import Row
from tests.mistakes.telling import tell
from tests.program import serving
from tests.troubleshooting.places import started

RESOURCE: Final = "https://gw.example.com/mcp"
BACKEND: Final = "https://backend.example.com"
_FAR: Final = 3600


class Asked(Mistake, frozen=True, kw_only=True):
    """Hold one mistake that a running gateway tells: a request to it. ``headers`` are pairs of name and value."""

    headers: list[tuple[str, str]] = field(default_factory=list)
    query: str = ""


CHECKED: Final = read_rows(Path(__file__).with_name("oauth.yaml"), Row)
ASKED: Final = read_rows(Path(__file__).with_name("oauth_requests.yaml"), Asked)
ROWS: Final[tuple[Mistake, ...]] = (*CHECKED, *ASKED)


async def tell_all() -> dict[str, Told]:
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
        tokens = _tokens(issuer)
        for name, token in tokens.items():
            (directory / f"{name}.token").write_text(token)
        names = {
            **places.names(),
            "<issuer>": issuer.issuer,
            "<origin>": issuer.issuer.removesuffix("/realms/shop"),
            "<broken>": broken.issuer,
            "<token>": endpoint.url,
        }
        return await tell(CHECKED, names) | await _ask(places.urls["service"], issuer.issuer, tokens)


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


async def _ask(service: str, issuer: str, tokens: Mapping[str, str]) -> dict[str, Told]:
    """Send the requests to a gateway, and return status, challenge and body of each answer."""
    knobs = ("server.public_url=https://gw.example.com", f"auth.issuers=[{{issuer: '{issuer}'}}]",
             "auth.scopes.list=[books:read]", "backend.credentials.mode=none")  # fmt: skip
    names = {f"<{name}>": token for name, token in tokens.items()}
    told: dict[str, Told] = {}
    async with serving(service, *knobs) as (_, front), aiohttp.ClientSession() as session:
        for row in ASKED:
            headers = [(name, filled(value, names)) for name, value in row.headers]
            url = f"{front.base}/mcp/tools/list?{filled(row.query, names)}"
            async with session.get(url, headers=headers) as answer:
                challenge = answer.headers.get("WWW-Authenticate", "")
                told[row.name] = Told(answer.status, f"{challenge}\n{await answer.text()}")
    return told
