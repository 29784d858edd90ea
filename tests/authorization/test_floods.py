"""A flood of bad tokens takes nothing from honest callers. How long those wait meanwhile is a row of ``make bench``."""

from __future__ import annotations

import asyncio

import pytest

from tests.authorization.floods import KINDS, Kind, flood
from tests.authorization.rows import ARGUMENTS
from tests.authorization.stand import RESOURCE
from tests.authorization.test_canaries import watched

TOKENS = 200


@pytest.mark.parametrize("kind", KINDS)
async def test_honest_callers_are_served_and_the_keys_fetched_once_whatever_comes_beside_them(kind: Kind) -> None:
    knobs = (f"backend.credentials.backend_audience={RESOURCE}", "backend.listing.identity=shared")
    async with watched(*knobs) as it:
        issuer = it.stand.issuer
        honest = it.stand.client(issuer.sign(sub="honest"))
        assert (await honest.call("jsonrpc", "add", ARGUMENTS)).status == 200
        fetched = issuer.count("jwks")
        attack = asyncio.create_task(flood(it, kind(issuer, TOKENS), asyncio.Event()))
        while not attack.done():
            assert (await honest.call("jsonrpc", "add", ARGUMENTS)).status == 200
        assert await attack <= {401}
        assert issuer.count("jwks") - fetched <= 1
