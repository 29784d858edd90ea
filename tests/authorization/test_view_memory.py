"""What a caller costs while it is known: its token, its principal, its view."""

from __future__ import annotations

import gc
import logging
import tracemalloc
from collections.abc import Iterator
from typing import Final

import pytest
import structlog

from gateway.auth.authenticator import Authenticator, Presented
from gateway.auth.claims import policy_of
from gateway.auth.jwks import IssuerKeys
from gateway.auth.verifier import SignatureVerifier
from gateway.catalog.build import Builder
from gateway.catalog.discovery import Discovery
from gateway.catalog.validation import Validators
from gateway.model import Caller, Listing, Method, View
from gateway.outbound import Outbound
from gateway.settings import CatalogSettings, Issuer, Params
from tests.authorization.issuer import ForgedIssuer

CALLERS: Final = 10_000
MOST: Final = 2048
"""Bytes for each, the raw token included."""


@pytest.fixture(autouse=True)
def in_silence() -> Iterator[None]:
    """Ten thousand lines of log would take longer than all the rest."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    yield
    structlog.configure(**before)


async def list_all(caller: Caller) -> Listing:
    """Each caller's listing is made anew, as it comes off the wire."""
    assert caller.principal is not None
    return Listing("static", tuple(Method(name, "static") for name in ("add", "echo")))


@pytest.mark.timeout(180)
async def test_ten_thousand_callers_cost_two_kilobytes_each() -> None:
    async with ForgedIssuer() as issuer:
        outbound = Outbound()
        settings = Issuer(issuer=issuer.issuer)
        policy = policy_of(settings, issuer.resource, extra_audiences=False, implies={})
        verifier = SignatureVerifier([(policy, IssuerKeys(settings, outbound))], keep=3600)
        authenticator = Authenticator(verifier)
        knobs = CatalogSettings(ttl=3600)
        discovery = Discovery(list_all, Builder(Params(), Validators()), lambda: knobs, callers_own=True)

        async def comes(number: int, authorization: bytes) -> None:
            shown = Presented((authorization.decode(),), (), "POST", "/mcp", False, "127.0.0.1")
            principal = await authenticator.authenticate(shown)
            assert principal is not None
            assert principal.subject == f"user-{number}"
            view = View(principal.issuer, principal.subject, principal.client, principal.scopes)
            assert len((await discovery.catalog(Caller("127.0.0.1", None, view, principal))).tools) == 2

        sent = [
            f"Bearer {issuer.sign(sub=f'user-{number}', scope='tools:list tools:call')}".encode()
            for number in range(CALLERS + 100)
        ]
        for number in range(100):
            await comes(number, sent[number])
        gc.collect()
        tracemalloc.start()
        for number in range(100, CALLERS + 100):
            await comes(number, sent[number])
        gc.collect()
        grown, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        await outbound.close()
    assert grown / CALLERS <= MOST
