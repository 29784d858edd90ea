"""``check`` without a token, where callers list for themselves: before a real issuer and a real service."""

from __future__ import annotations

import json

from tests.authorization.servers import mock_server
from tests.each import each
from tests.program import run, settings
from tests.services.launch import drupal
from tests.services.process import free_port

PUBLIC = "https://gw.example.com"
REMARK = "no tools are shown: the service lists them only to callers with a token; give one with --token-file"
SAME = ("backend.credentials.mode=same_resource", f"backend.credentials.backend_audience={PUBLIC}/mcp")
EXCHANGE = (
    "backend.credentials.mode=token_exchange", "backend.credentials.client_id=gateway",
    "backend.credentials.client_secret=x", "backend.credentials.audience=https://service.example.com",
)  # fmt: skip


@each("knobs", {"same_resource": SAME, "token_exchange": EXCHANGE})
async def test_a_right_configuration_is_success_and_says_that_the_listing_needs_a_token(knobs: tuple[str, ...]) -> None:
    with mock_server() as issuer, drupal(jwks=issuer.jwks_uri, audience=f"{PUBLIC}/mcp") as service:
        callers = f"auth.issuers=[{{issuer: '{issuer.issuer}'}}]"
        made = settings(service.url, f"server.public_url={PUBLIC}", callers, *knobs)
        ran = await run("check", *made)
        assert ran.code == 0, ran.said
        assert f"  {REMARK}" in ran.out.splitlines()
        (found,) = json.loads((await run("check", "--json", *made)).out)["services"]
        assert (found["exit_code"], found["failure"]) == (0, None)
        assert REMARK in found["remarks"]


async def test_an_issuer_that_is_away_is_a_failure_all_the_same() -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    with mock_server() as issuer, drupal(jwks=issuer.jwks_uri, audience=f"{PUBLIC}/mcp") as service:
        callers = f"auth.issuers=[{{issuer: '{nobody}'}}]"
        ran = await run("check", *settings(service.url, f"server.public_url={PUBLIC}", callers, *SAME))
        assert ran.code == 3
        assert REMARK not in ran.said


async def test_without_a_token_the_other_commands_fail() -> None:
    with mock_server() as issuer, drupal(jwks=issuer.jwks_uri, audience=f"{PUBLIC}/mcp") as service:
        callers = f"auth.issuers=[{{issuer: '{issuer.issuer}'}}]"
        ran = await run("tools", *settings(service.url, f"server.public_url={PUBLIC}", callers, *SAME))
        assert ran.code == 3
        assert "Give one with --token-file." in ran.err
