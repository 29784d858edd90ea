"""TLS towards an issuer: keys, introspection and tokens come over https from whom ``ca_file`` vouches for alone."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pytest_aiohttp.plugin import AiohttpServer
from structlog.testing import capture_logs

from tests.authorization.answers import Answer
from tests.authorization.issuer import Certificate, ForgedIssuer
from tests.authorization.rows import ARGUMENTS, accepts, cannot_tell
from tests.authorization.stand import RESOURCE, Stand, stand
from tests.authorization.test_rows_keys import readiness
from tests.authorization.token_endpoint import start_token_endpoint
from tests.each import each
from tests.tls import HOST, Authority

SHARED = "backend.listing.identity=shared"
OPAQUE = "opaque-token"
GRANT = b'{"access_token":"for-the-backend","token_type":"Bearer","expires_in":300}'
OWN = (
    "backend.credentials={mode: client_credentials, client_id: gw, client_secret: sesame%s}",
    "backend.listing.credentials.mode=none",
)
UNFIT = {
    "no authority": ("", "if its CA is your own, name that in auth.issuers.ca_file"),
    "another authority": ("theirs", "no CA in auth.issuers.ca_file has signed it"),
    "another name": ("ours", "for another name"),
    "expired": ("ours", "has expired"),
}


class Pki:
    """Two authorities, one of which vouches for the issuer."""

    def __init__(self, directory: Path) -> None:
        self.ours = Authority(directory, "ours")
        self.theirs = Authority(directory, "theirs")

    def shown(self, case: str = "") -> Certificate:
        """What the issuer shows in a case of :data:`UNFIT`."""
        name = "idp.example.com" if case == "another name" else HOST
        return Certificate(self.ours.server(name, expired=case == "expired"), self.ours.file)

    def trusted(self, case: str) -> str:
        """What the gateway trusts in a case, as members of ``auth.issuers``."""
        whom = UNFIT[case][0]
        return f", ca_file: '{getattr(self, whom).file}'" if whom else ""


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path)


@asynccontextmanager
async def before(issuer: ForgedIssuer, members: str, *knobs: str) -> AsyncIterator[Stand]:
    """A gateway that trusts this issuer, with ``members`` of its settings."""
    async with stand(SHARED, f"auth.issuers=[{{issuer: '{issuer.issuer}'{members}}}]", *knobs) as it:
        yield it


def known(issuer: ForgedIssuer) -> None:
    """The issuer knows the opaque token."""
    end = int(time.time()) + 300
    issuer.introspections[OPAQUE] = {
        "active": True, "sub": "ann", "aud": RESOURCE, "exp": end, "token_type": "Bearer",
    }  # fmt: skip


async def test_with_its_authority_named_an_issuers_keys_are_fetched(pki: Pki) -> None:
    async with ForgedIssuer(RESOURCE, tls=pki.shown()) as issuer:
        assert issuer.issuer.startswith("https://")
        async with before(issuer, f", ca_file: '{pki.ours.file}'") as it:
            await accepts(it, issuer.sign())
            assert (await readiness(it))[0] == 200
        assert (issuer.count("metadata"), issuer.count("jwks")) == (1, 1)


async def test_with_its_authority_named_an_issuer_is_asked_about_tokens(pki: Pki) -> None:
    async with ForgedIssuer(RESOURCE, tls=pki.shown()) as issuer:
        known(issuer)
        async with before(issuer, f", ca_file: '{pki.ours.file}', introspection: {{client_id: gw}}") as it:
            await accepts(it, OPAQUE)
        assert issuer.count("introspection") == 1


async def test_with_its_authority_named_an_issuer_gives_tokens_for_the_backend(pki: Pki) -> None:
    async with ForgedIssuer(RESOURCE, tls=pki.shown()) as issuer:
        issuer.disturb("token", Answer(body=GRANT))
        async with before(issuer, f", ca_file: '{pki.ours.file}'", OWN[0] % "", OWN[1]) as it:
            assert (await it.client(issuer.sign()).call("rest", "add", ARGUMENTS)).status == 200
            assert it.shown("add") == ["for-the-backend"]
        assert issuer.count("token") == 1


@each("case", [*UNFIT])
async def test_of_an_issuer_that_is_not_trusted_no_keys_are_taken_and_the_log_says_why(pki: Pki, case: str) -> None:
    async with ForgedIssuer(RESOURCE, tls=pki.shown(case)) as issuer:
        with capture_logs() as lines:
            async with before(issuer, pki.trusted(case)) as it:
                await cannot_tell(it, issuer.sign())
                assert await readiness(it) == (503, f"no keys of {issuer.issuer}\n")
        assert issuer.fetches == []
    reasons = [line["reason"] for line in lines if line["event"] == "keys of an issuer cannot be fetched"]
    assert reasons
    assert all(UNFIT[case][1] in reason for reason in reasons)


@each("case", [*UNFIT])
@each("named", {"named": True, "found": False})
async def test_no_token_is_shown_to_an_issuer_that_is_not_trusted(pki: Pki, case: str, named: bool) -> None:
    async with ForgedIssuer(RESOURCE, tls=pki.shown(case)) as issuer:
        known(issuer)
        endpoint = f", metadata: {{introspection_endpoint: '{issuer.url('introspection')}'}}" if named else ""
        with capture_logs() as lines:
            async with before(issuer, f"{pki.trusted(case)}, introspection: {{client_id: gw}}{endpoint}") as it:
                await cannot_tell(it, OPAQUE)
        assert issuer.fetches == []
    reasons = [line["reason"] for line in lines if line["event"] == "token cannot be verified"]
    assert reasons
    assert all(UNFIT[case][1] in reason for reason in reasons)


@each("case", [*UNFIT])
async def test_no_secret_is_shown_to_a_token_endpoint_that_is_not_trusted(
    pki: Pki, case: str, aiohttp_server: AiohttpServer
) -> None:
    """The issuer itself is sound, and speaks http; the endpoint is elsewhere, and so is what vouches for it."""
    endpoint = await start_token_endpoint(aiohttp_server, pki.shown(case).context)
    async with ForgedIssuer(RESOURCE) as issuer:
        own = OWN[0] % f", token_endpoint: '{endpoint.url}'"
        with capture_logs() as lines:
            async with before(issuer, pki.trusted(case), own, OWN[1]) as it:
                answer = await it.client(issuer.sign()).call("rest", "add", ARGUMENTS)
                assert (answer.status, answer.json["error"]["code"]) == (503, "auth_unavailable")
                assert it.shown("add") == []
        assert endpoint.forms == []
    (reason,) = [line["reason"] for line in lines if line["event"] == "the token endpoint does not answer"]
    assert UNFIT[case][1] in reason
