"""How many tokens an issuer is asked about: anybody can make tokens up, and the issuer has others to serve."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from gateway.auth.claims import issuer_policy
from gateway.auth.compact import InvalidToken, Undecidable
from gateway.auth.issuers import MAX_PER_SECOND, MAX_UNDER_WAY, IntrospectionVerifier
from gateway.auth.jwks import IssuerKeys
from gateway.http_client.session import Outbound
from gateway.settings import Issuer
from tests.authorization.issuer import ForgedIssuer
from tests.authorization.rows import accepts, cannot_tell
from tests.authorization.stand import RESOURCE
from tests.authorization.test_review import asking
from tests.manual_clock import ManualClock
from tests.waiting import until


def sound(**members: Any) -> dict[str, Any]:
    """What the issuer says of a good token."""
    return {
        "active": True,
        "client_id": "client",
        "sub": "ann",
        "aud": RESOURCE,
        "exp": int(time.time()) + 60,
    } | members


async def test_sixteen_tokens_are_asked_about_at_once_and_others_may_come_again() -> None:
    async with asking() as it:
        it.issuer.introspections |= {"known": sound(), "late": sound(sub="bob")}
        await accepts(it, "known")
        it.issuer.disturb("introspection", "hold")
        asked = it.issuer.count("introspection")
        waiting = [asyncio.create_task(it.client(f"junk-{n}").list("rest")) for n in range(MAX_UNDER_WAY)]
        await it.issuer.held("introspection", MAX_UNDER_WAY)
        await cannot_tell(it, "late")
        await accepts(it, "known")  # within its cache time nobody is asked about it
        assert it.issuer.count("introspection") - asked == MAX_UNDER_WAY == 16
        it.issuer.restore()
        assert {answer.status for answer in await asyncio.gather(*waiting)} == {401}
        await accepts(it, "late")


async def test_who_gives_up_waiting_for_the_issuer_frees_no_place_before_it_has_answered() -> None:
    async with asking() as it:
        it.issuer.introspections["late"] = sound()
        it.issuer.disturb("introspection", "hold")
        waiting = [asyncio.create_task(it.client(f"junk-{n}").list("rest")) for n in range(MAX_UNDER_WAY)]
        await it.issuer.held("introspection", MAX_UNDER_WAY)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        await cannot_tell(it, "late")
        it.issuer.restore()
        await until(lambda: it.client("late").list("rest"), lambda answer: answer.status == 200)


async def test_fifty_tokens_are_asked_about_in_any_second() -> None:
    clock = ManualClock()
    async with ForgedIssuer(RESOURCE) as issuer:
        settings, outbound = Issuer(issuer=issuer.issuer, introspection={"client_id": "gw"}), Outbound()
        policy = issuer_policy(settings, RESOURCE, extra_audiences=False, implies={})
        verifier = IntrospectionVerifier(policy, IssuerKeys(settings, outbound), monotonic=clock)

        async def asks(count: int) -> None:
            before = issuer.count("introspection")
            for number in range(count):
                with pytest.raises(InvalidToken):
                    await verifier.verify_token(f"junk-{number}")
            for _ in range(3):
                with pytest.raises(Undecidable, match="too many") as caught:
                    await verifier.verify_token("late")
                assert caught.value.retry_after == 1
            assert issuer.count("introspection") - before == count

        for start in range(MAX_PER_SECOND):  # spread over half a second
            clock.now = 1000 + start / 100
            with pytest.raises(InvalidToken):
                await verifier.verify_token(f"first-{start}")
        assert MAX_PER_SECOND == 50
        await asks(0)
        clock.now = 1001  # one of them is a second ago
        await asks(1)
        clock.now = 1001.2
        await asks(20)
        clock.now = 1010
        await asks(50)
        await outbound.close()
