"""An introspection endpoint that fails says nothing of the token, even where what it says is JSON (RFC 7662 §2.3)."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from tests.authorization.answers import Answer
from tests.authorization.issuer import ForgedIssuer
from tests.authorization.rows import accepts, cannot_tell, refuses
from tests.authorization.stand import RESOURCE, Stand, stand

GOOD, UNKNOWN = "opaque-and-good", "opaque-and-unknown"
INACTIVE = {"active": False}


class Asking(NamedTuple):
    """A gateway that asks its issuer about each token, every time."""

    it: Stand
    issuer: ForgedIssuer


@pytest.fixture
async def asking() -> AsyncIterator[Asking]:
    async with ForgedIssuer(RESOURCE) as issuer:
        end = int(time.time()) + 300
        issuer.introspections[GOOD] = {
            "active": True, "sub": "ann", "aud": RESOURCE, "exp": end, "token_type": "Bearer",
        }  # fmt: skip
        said = f"issuer: '{issuer.issuer}', introspection: {{cache: 0s}}"
        async with stand("backend.listing.identity=shared", f"auth.issuers=[{{{said}}}]") as it:
            yield Asking(it, issuer)


@pytest.mark.parametrize("status", [400, 401, 403, 500, 201, 302])
@pytest.mark.parametrize("body", [INACTIVE, {"error": "invalid_client"}, {"active": True}, [], None])
async def test_a_failure_in_json_is_503_and_not_every_callers_401(asking: Asking, status: int, body: Any) -> None:
    it, issuer = asking
    headers = {"Content-Type": "application/json"}
    issuer.disturb("introspection", Answer(status, headers, json.dumps(body).encode()))
    await cannot_tell(it, GOOD)
    issuer.restore()
    await accepts(it, GOOD)


async def test_a_token_that_the_issuer_does_not_know_is_401(asking: Asking) -> None:
    await refuses(asking.it, UNKNOWN)
