"""Row J45 of docs/security.md: names in an issuer's metadata lead neither to this machine nor to link-local addresses.

All of it runs on this machine, so the issuer's own name resolves to it as well: that one is the operator's word.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs

from tests.authorization.issuer import ForgedIssuer, certificate
from tests.authorization.rows import ARGUMENTS, accepts, cannot_tell
from tests.authorization.stand import RESOURCE, Stand, stand
from tests.each import each
from tests.resolving import Names

IDP, KEYS = "idp.example.com", "keys.example.com"
SHARED = "backend.listing.identity=shared"
ASTRAY = ["127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1", "64:ff9b::7f00:1", "2002:7f00:1::"]

Standing: TypeAlias = Callable[..., AbstractAsyncContextManager[tuple[Stand, ForgedIssuer]]]


@pytest.fixture
async def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    names = Names(monkeypatch)
    names[IDP] = names[KEYS] = [["127.0.0.1"]]
    return names


@pytest.fixture
def standing(tmp_path: Path, names: Names) -> Standing:
    """A gateway whose issuer has ``host`` for its name, and what ``member`` of its metadata names at ``there``."""

    @asynccontextmanager
    async def standing(
        member: str, there: str, *knobs: str, host: str = IDP, of_issuer: str = ""
    ) -> AsyncIterator[tuple[Stand, ForgedIssuer]]:
        shown = certificate(tmp_path, IDP, KEYS, "127.0.0.1")
        async with ForgedIssuer(RESOURCE, host=host, tls=shown) as issuer:
            port = urlsplit(issuer.issuer).port
            issuer.metadata[member] = issuer.metadata[member].replace(f"{host}:{port}", there.format(port=port))
            said = f"issuer: '{issuer.issuer}', ca_file: '{shown.ca_file}'{of_issuer}"
            async with stand(SHARED, f"auth.issuers=[{{{said}}}]", *knobs) as it:
                yield it, issuer

    return standing


@each("address", ASTRAY)
async def test_J45_keys_are_not_fetched_from_a_name_that_leads_astray(
    standing: Standing, names: Names, address: str
) -> None:
    names[KEYS] = [[address]]
    with capture_logs() as lines:
        async with standing("jwks_uri", f"{KEYS}:{{port}}") as (it, issuer):
            await cannot_tell(it, issuer.sign())
            assert issuer.count("jwks") == 0
    (reason, *_) = [line["reason"] for line in lines if line["event"] == "keys of an issuer cannot be fetched"]
    assert f"https://{KEYS}" in reason
    assert ": its name points at " in reason
    assert reason.endswith("; if that is intended, name the address in the settings")


async def test_the_same_name_is_fine_once_the_operator_has_named_it(standing: Standing) -> None:
    async with standing("jwks_uri", f"{KEYS}:{{port}}") as (it, issuer):
        uri = issuer.metadata["jwks_uri"]
        ca_file = it.gateway.settings.auth.issuers[0].ca_file
        said = f"issuer: '{issuer.issuer}', ca_file: '{ca_file}', metadata: {{jwks_uri: '{uri}'}}"
        async with stand(SHARED, f"auth.issuers=[{{{said}}}]") as named:
            await accepts(named, issuer.sign())


async def test_an_issuer_that_resolves_to_this_machine_may_keep_its_keys_where_it_is(standing: Standing) -> None:
    async with standing("jwks_uri", f"{IDP}:{{port}}") as (it, issuer):
        await accepts(it, issuer.sign())


async def test_an_issuer_on_loopback_may_name_what_resolves_to_loopback(standing: Standing) -> None:
    async with standing("jwks_uri", f"{KEYS}:{{port}}", host="127.0.0.1") as (it, issuer):
        await accepts(it, issuer.sign())


async def test_tokens_are_not_shown_to_an_introspection_endpoint_that_leads_astray(standing: Standing) -> None:
    asked = ", introspection: {client_id: gw}"
    async with standing("introspection_endpoint", f"{KEYS}:{{port}}", of_issuer=asked) as (it, issuer):
        await cannot_tell(it, "opaque-token")
        assert issuer.count("introspection") == 0


async def test_the_gateways_secret_is_not_shown_to_a_token_endpoint_that_leads_astray(standing: Standing) -> None:
    own = "backend.credentials={mode: client_credentials, client_id: gw, client_secret: sesame}"
    knobs = (own, "backend.credentials.backend_audience=", "backend.listing.credentials.mode=none")
    async with standing("token_endpoint", f"{KEYS}:{{port}}", *knobs) as (it, issuer):
        answer = await it.client(issuer.sign()).call("rest", "add", ARGUMENTS)
        assert (answer.status, answer.json["error"]["code"]) == (503, "auth_unavailable")
        assert issuer.count("token") == 0
        assert it.shown("add") == []
