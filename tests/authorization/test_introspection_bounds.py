"""How many tokens an issuer is asked about: anybody can make tokens up, and the issuer has others to serve."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from gateway.auth.asking import MAX_UNDER_WAY
from tests.authorization.issuer import ForgedIssuer
from tests.authorization.rows import accepts
from tests.authorization.stand import RESOURCE
from tests.authorization.test_review import asking
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


async def test_sixteen_tokens_are_asked_about_at_once_and_the_next_waits_for_its_turn() -> None:
    async with asking() as it:
        it.issuer.introspections |= {"known": sound(), "late": sound(sub="bob"), "gone": sound(sub="eve")}
        await accepts(it, "known")
        it.issuer.disturb("introspection", "hold")
        asked = it.issuer.count("introspection")
        waiting = [asyncio.create_task(it.client(f"junk-{n}").list("rest")) for n in range(MAX_UNDER_WAY)]
        await it.issuer.held("introspection", MAX_UNDER_WAY)
        late, gone = (asyncio.create_task(it.client(token).list("rest")) for token in ("late", "gone"))
        await accepts(it, "known")  # within its cache time nobody is asked about it
        gone.cancel()
        assert it.issuer.count("introspection") - asked == MAX_UNDER_WAY == 16
        it.issuer.restore()
        assert {answer.status for answer in await asyncio.gather(*waiting)} == {401}
        assert (await late).status == 200
        await accepts(it, "late")
        assert it.issuer.count("introspection") - asked <= MAX_UNDER_WAY + 2


async def test_who_gives_up_waiting_for_the_issuer_frees_no_place_before_it_has_answered() -> None:
    async with asking() as it:
        it.issuer.introspections["late"] = sound()
        it.issuer.disturb("introspection", "hold")
        waiting = [asyncio.create_task(it.client(f"junk-{n}").list("rest")) for n in range(MAX_UNDER_WAY)]
        await it.issuer.held("introspection", MAX_UNDER_WAY)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        refused = await it.client("late").list("rest")  # once it has waited for two seconds
        assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
        assert "WWW-Authenticate" not in refused.headers
        it.issuer.restore()
        await until(lambda: it.client("late").list("rest"), lambda answer: answer.status == 200)


async def test_tokens_of_another_issuer_and_keys_of_the_next_rules_wait_for_no_question() -> None:
    """A reload changes the rules while a token waits: its turn comes nevertheless, and nobody waits for it."""
    async with ForgedIssuer(RESOURCE) as signing, asking(members=f"}}, {{issuer: '{signing.issuer}'") as it:
        it.issuer.introspections["late"] = sound()
        it.issuer.disturb("introspection", "hold")
        waiting = [asyncio.create_task(it.client(f"junk-{n}").list("rest")) for n in range(MAX_UNDER_WAY)]
        await it.issuer.held("introspection", MAX_UNDER_WAY)
        await accepts(it, signing.sign())
        late = asyncio.create_task(it.client("late").list("rest"))
        await accepts(it, signing.sign(sub="bob"))  # so the other one waits by now
        old = it.gateway.settings
        rules = old.auth.model_copy(update={"scopes": old.auth.scopes.model_copy(update={"implies": {"a": ("b",)}})})
        await it.gateway.reload(old.model_copy(update={"auth": rules}))
        it.issuer.restore()
        assert {answer.status for answer in await asyncio.gather(*waiting)} == {401}
        assert (await late).status == 200
        await accepts(it, "late")
