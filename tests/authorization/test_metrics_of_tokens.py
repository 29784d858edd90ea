"""What ``/metrics`` says of tokens that are refused, of issuers' keys, and of the issuer that is asked about tokens."""

from __future__ import annotations

import time
from typing import Any

from structlog.testing import capture_logs

from tests.authorization.issuer import ForgedIssuer
from tests.authorization.stand import RESOURCE, Stand, stand
from tests.authorization.test_introspection_bounds import sound
from tests.authorization.test_review import asking
from tests.scrape import Scrape, scrape

REFUSED = "mcp_gateway_tokens_refused_total"


async def scraped(it: Stand) -> Scrape:
    return await scrape(it.session, it.gateway.admin_port)


async def test_a_refused_token_is_counted_by_why() -> None:
    async with stand() as it, ForgedIssuer(RESOURCE) as other:
        before = await scraped(it)
        with capture_logs() as logs:
            await it.of("ann").list("rest")
            await it.client().list("rest")  # no token: none is refused
            for _ in range(2):
                await it.client(it.issuer.sign(sub="ann", exp=int(time.time()) - 3600)).list("rest")
            await it.client(other.sign(sub="ann")).list("rest")
            await it.client("two words").list("rest")
        after = await scraped(it)
    reasons = ("expired", "invalid_token", "malformed", "invalid_proof")
    assert {reason: after.grown(before, REFUSED, reason=reason) for reason in reasons} == {
        "expired": 2, "invalid_token": 1, "malformed": 1, "invalid_proof": 0,
    }  # fmt: skip
    lines: list[Any] = [line for line in logs if line["event"] == "request"]
    assert [line["outcome"] for line in lines].count("unauthorized") == 4


async def test_an_issuer_s_keys_have_an_age() -> None:
    async with stand() as it:
        await it.of("ann").list("rest")
        found = await scraped(it)
        (age,) = found.lines("mcp_gateway_issuer_keys_age_seconds", issuer=it.issuer.issuer)
        (most,) = found.lines("mcp_gateway_issuer_keys_max_age_seconds", issuer=it.issuer.issuer)
    assert 0 <= age < most


async def test_each_question_to_an_issuer_about_a_token_is_timed() -> None:
    async with asking() as it:
        it.issuer.introspections["good"] = sound()
        before = await scraped(it)
        for token in ("good", "good", "bad"):
            await it.client(token).list("rest")
        after = await scraped(it)
    assert after.grown(before, "mcp_gateway_introspection_duration_seconds_count") == 2
    assert after.grown(before, "mcp_gateway_introspection_duration_seconds_sum") > 0
