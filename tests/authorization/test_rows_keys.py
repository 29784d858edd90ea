"""Rows J36 to J45 of docs/security.md: keys that are floods' targets, gone, slow, absurd, rotated, or weak."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.authorization.answers import Answer as Disturbing
from tests.authorization.issuer import ForgedIssuer
from tests.authorization.keys import (
    Key,
    b64,
    ec_key,
    ed_key,
    exponent_one_signature,
    octets,
    roca_key,
    rsa_key,
    three_primes,
)
from tests.authorization.rows import accepts, bearer, cannot_tell, everywhere, refuses, warm
from tests.authorization.stand import RESOURCE, Stand, stand
from tests.services.process import free_port
from tests.waiting import PATIENCE, until

SHARED = "backend.listing.identity=shared"


@pytest.fixture
async def it() -> AsyncIterator[Stand]:
    async with stand(SHARED) as it:
        await warm(it)
        yield it


async def flood(it: Stand, count: int) -> set[int]:
    """The statuses that tokens with random kids get, many at a time."""
    stranger = ec_key("stranger")
    client = it.client()
    statuses: set[int] = set()
    for start in range(0, count, 50):
        tokens = [it.issuer.sign(key=stranger, header={"kid": f"random-{start + n}"}) for n in range(50)]
        answers = await asyncio.gather(
            *(client.send("GET", "/mcp/tools/list", None, bearer(token)) for token in tokens)
        )
        statuses |= {answer.status for answer in answers}
    return statuses


async def readiness(it: Stand) -> tuple[int, str]:
    async with it.session.get(f"http://127.0.0.1:{it.gateway.admin_port}/readyz") as response:
        return response.status, await response.text()


async def test_J36_a_flood_of_unknown_kids_costs_the_issuer_one_fetch(it: Stand) -> None:
    before = it.issuer.count("jwks")
    assert await flood(it, 1000) == {401}
    assert it.issuer.count("jwks") - before == 1
    await accepts(it, it.issuer.sign(sub="honest"))


async def test_J36_a_flood_of_bad_tokens_takes_nothing_from_others_at_the_same_address(it: Stand) -> None:
    """Behind one ingress everybody has its address, and some client there always comes with an old token."""
    strangers = {"bad signature": {"key": ec_key("k1")}, "expired": {"exp": 0}}
    for number in range(400):
        for kind, flaw in strangers.items():
            answer = await it.client(it.issuer.sign(sub=f"{kind} {number}", **flaw)).list("rest")
            assert answer.status == 401
        if number % 40 == 0:
            await accepts(it, it.issuer.sign(sub=f"honest {number}"))


async def test_J37_a_flood_while_the_keys_fail_takes_nothing_from_honest_callers(it: Stand) -> None:
    it.issuer.disturb("jwks", "500")
    before = it.issuer.count("jwks")
    assert await flood(it, 200) == {401}
    assert it.issuer.count("jwks") - before == 1
    await accepts(it, it.issuer.sign(sub="honest"))


async def test_J38_without_keys_the_gateway_is_alive_not_ready_and_recovers_by_itself() -> None:
    async with ForgedIssuer(RESOURCE) as issuer:
        issuer.disturb("jwks", "500")
        async with stand(SHARED, f"auth.issuers=[{{issuer: '{issuer.issuer}'}}]") as it:
            await cannot_tell(it, issuer.sign())
            assert await readiness(it) == (503, f"no keys of {issuer.issuer}\n")
            async with it.session.get(f"http://127.0.0.1:{it.gateway.admin_port}/livez") as response:
                assert response.status == 200
            issuer.restore()
            await until(lambda: readiness(it), lambda answer: answer[0] == 200)
            await accepts(it, issuer.sign())


async def test_J38_an_issuer_that_cannot_be_reached_is_nobodys_fault_but_its_own() -> None:
    gone = f"http://127.0.0.1:{free_port()}"
    async with stand(SHARED, f"auth.issuers=[{{issuer: '{gone}'}}]") as it:
        await cannot_tell(it, it.issuer.sign(iss=gone))


async def test_J39_known_keys_serve_while_the_issuer_is_down(it: Stand) -> None:
    for how in ("500", "reset"):
        it.issuer.disturb("jwks", how)
        await next(iter(it.gateway.services[""].auth.issuers.keys.values())).refresh()
        await accepts(it, it.issuer.sign(sub=how))


async def test_J40_slow_keys_hold_up_nobody_else(it: Stand) -> None:
    it.issuer.disturb("jwks", "hold")
    unknown = it.issuer.sign(key=ec_key("new"))
    slow = asyncio.create_task(it.client(unknown).list("rest"))
    await it.issuer.held("jwks")
    await accepts(it, it.issuer.sign(sub="honest"))
    async with it.session.get(f"http://127.0.0.1:{it.gateway.admin_port}/livez") as response:
        assert response.status == 200
    assert not slow.done(), "the others had to wait"
    async with asyncio.timeout(PATIENCE):
        assert (await slow).status == 401
    it.issuer.restore()


_ABSURD: list[Any] = [
    "html", "list", "keys-object", "empty", "huge", "bomb", "cut", "redirect", "reset",
    Disturbing(302, {"Location": "file:///etc/passwd"}),
    Disturbing(302, {"Location": "http://169.254.169.254/latest"}),
]  # fmt: skip


@pytest.mark.parametrize("how", _ABSURD, ids=str)
async def test_J41_absurd_keys_replace_nothing_and_redirects_are_not_followed(it: Stand, how: Any) -> None:
    it.issuer.disturb("jwks", how)
    before = it.issuer.count()
    await refuses(it, it.issuer.sign(key=ec_key("unknown")))
    assert it.issuer.count() - before <= 2  # a connection that breaks before the answer is made anew, once
    await accepts(it, it.issuer.sign(sub="honest"))


async def test_J41_one_bad_key_takes_no_good_one_down() -> None:
    async with ForgedIssuer(RESOURCE) as issuer:
        issuer.publish({"kty": "EC"}, {"kty": "nonsense"}, *issuer.keys)  # type: ignore[arg-type]
        async with stand(SHARED, f"auth.issuers=[{{issuer: '{issuer.issuer}'}}]") as it:
            await accepts(it, issuer.sign())


async def test_J42_keys_rotate_without_a_single_refusal(it: Stand) -> None:
    keys = next(iter(it.gateway.services[""].auth.issuers.keys.values()))
    old = it.issuer.keys[0]
    before = it.issuer.count("jwks")
    it.issuer.rotate()
    await accepts(it, it.issuer.sign(sub="new"))  # on first use
    await accepts(it, it.issuer.sign(sub="old", key=old))
    assert it.issuer.count("jwks") - before == 1
    remembered = it.issuer.sign(sub="remembered", key=old)
    await accepts(it, remembered)
    it.issuer.retire()
    await keys.refresh()
    await accepts(it, it.issuer.sign(sub="newer"))
    await refuses(it, it.issuer.sign(sub="older", key=old))
    await refuses(it, remembered)  # what its key vouched for went with it


def weak(kid: str) -> tuple[Any, Key]:
    """What is published, and the key that signs."""
    match kid:
        case "rsa-1024":
            key = rsa_key(kid, bits=1024)
        case "roca":
            key = roca_key(kid)
        case "symmetric":
            key = octets(kid=kid)
        case "curve":
            key = ec_key(kid, "ES256K")
        case _:
            key = ec_key(kid)
            return {**key.jwk, **_SPOILED[kid]}, key
    return key.jwk, key


_SPOILED: dict[str, dict[str, Any]] = {
    "encryption": {"use": "enc"},
    "operations": {"key_ops": ["encrypt"]},
    "off the curve": {"y": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
}


@pytest.mark.parametrize("kid", ["rsa-1024", "roca", "curve", "off the curve"])
async def test_J43_weak_keys_vouch_for_nothing(it: Stand, kid: str) -> None:
    published, key = weak(kid)
    it.issuer.publish(*it.issuer.keys, published)
    alg = "ES256" if kid == "curve" else key.alg
    await refuses(it, it.issuer.sign(key=key, header={"alg": alg}, alg=alg), fetches=1)
    await accepts(it, it.issuer.sign(sub="honest"))


async def test_J43_an_rsa_key_whose_exponent_is_one_vouches_for_everything_and_so_for_nothing(it: Stand) -> None:
    key = rsa_key("one")
    it.issuer.publish(*it.issuer.keys, {**key.jwk, "e": "AQ"})
    unsigned = it.issuer.sign(key=key)
    signed, _, _ = unsigned.rpartition(".")
    await refuses(it, f"{signed}.{b64(exponent_one_signature(signed.encode()))}", fetches=1)


@pytest.mark.parametrize("point", [b"\x01" + bytes(31), b"\xee" + b"\xff" * 30 + b"\x7f"], ids=["canonical", "not"])
async def test_J43_a_point_of_small_order_vouches_for_everything_and_so_for_nothing(it: Stand, point: bytes) -> None:
    """The neutral element: its own bytes and a zero are a signature of anything, made without a secret."""
    key = ed_key("small")
    it.issuer.publish(*it.issuer.keys, {**key.jwk, "x": b64(point)})
    signed, _, _ = it.issuer.sign(key=key).rpartition(".")
    signature = b"\x01" + bytes(63)
    await refuses(it, f"{signed}.{b64(signature)}", fetches=1)


async def test_J43_an_rsa_modulus_with_a_small_factor_vouches_for_nothing(it: Stand) -> None:
    key = rsa_key("three")
    signed, _, _ = it.issuer.sign(key=key).rpartition(".")
    modulus, signature = three_primes(key, signed.encode())
    it.issuer.publish(*it.issuer.keys, {**key.jwk, "n": modulus})
    await refuses(it, f"{signed}.{b64(signature)}", fetches=1)


@pytest.mark.parametrize(("kid", "fetches"), [("encryption", 1), ("operations", 1), ("symmetric", 0)])
async def test_J44_keys_for_something_else_vouch_for_nothing(it: Stand, kid: str, fetches: int) -> None:
    published, key = weak(kid)
    it.issuer.publish(*it.issuer.keys, published)
    await refuses(it, it.issuer.sign(key=key), fetches=fetches)


async def test_J44_a_private_key_that_was_published_vouches_for_nothing(it: Stand) -> None:
    key = ec_key("private")
    it.issuer.publish(*it.issuer.keys, key.private_jwk)
    await refuses(it, it.issuer.sign(key=key), fetches=1)


async def test_J44_so_does_a_key_of_which_one_prime_was_published(it: Stand) -> None:
    key = rsa_key("half")
    it.issuer.publish(*it.issuer.keys, {**key.jwk, "p": key.private_jwk["p"]})
    await refuses(it, it.issuer.sign(key=key), fetches=1)


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "https://other.example.com"},
        {"jwks_uri": "http://login.example.com/jwks"},
        {"jwks_uri": "http://169.254.169.254/jwks"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": None},
    ],
)
async def test_J45_metadata_that_lead_elsewhere_give_no_keys(changes: dict[str, Any]) -> None:
    async with ForgedIssuer(RESOURCE) as issuer:
        issuer.metadata.update(changes)
        async with stand(SHARED, f"auth.issuers=[{{issuer: '{issuer.issuer}'}}]") as it:
            for answer in await everywhere(it, bearer(issuer.sign())):
                assert answer.status == 503
            assert issuer.count("jwks") == 0
            assert (await readiness(it))[0] == 503
