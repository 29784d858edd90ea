"""Rows J01 to J30 of docs/security.md: requests without a token, and tokens that do not count."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.authorization import forge
from tests.authorization.forge import OMIT
from tests.authorization.issuer import ForgedIssuer
from tests.authorization.keys import b64, ec_key, octets, rsa_key
from tests.authorization.rows import accepts, bearer, everywhere, invites, refuses, rejects, warm
from tests.authorization.stand import RESOURCE, Stand, stand
from tests.each import each


@pytest.fixture
async def it() -> AsyncIterator[Stand]:
    async with stand("backend.listing.identity=shared") as it:
        await warm(it)
        yield it


async def test_J01_a_request_without_a_token_is_told_where_to_get_one(it: Stand) -> None:
    await invites(it)


@each("value", ["Basic YWxpY2U6c2VjcmV0", "Token abc", "DPoP abc", "bearerabc"])
async def test_J02_another_scheme_is_no_token(it: Stand, value: str) -> None:
    await invites(it, [("Authorization", value)])


@each("value", ["Bearer", "Bearer ", "Bearer  \tabc", "Bearer a, Bearer b", "Bearer a b", "Bearer =", "Bearer é"])
async def test_J03_what_no_token_looks_like_is_malformed(it: Stand, value: str) -> None:
    await rejects(it, [("Authorization", value)])


async def test_J04_two_authorization_headers_are_malformed_even_if_equal(it: Stand) -> None:
    good = it.issuer.sign()
    await rejects(it, [*bearer(good), *bearer(good)])
    await rejects(it, [*bearer(good), *bearer(it.issuer.sign())])


async def test_J05_a_token_in_the_query_is_malformed_and_in_no_log(
    it: Stand, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    good = it.issuer.sign()
    known = it.issuer.sign(sub="known")
    await accepts(it, known)
    for name in ("access_token", "access%5Ftoken"):
        await rejects(it, [], f"?{name}={good}")
        await rejects(it, bearer(known), f"?{name}={good}")
        await rejects(it, bearer(known), f"?{name}={known}")
        await rejects(it, bearer(good), f"?{name}={good}")
    written = capsys.readouterr()
    assert good not in written.out + written.err + caplog.text


@pytest.mark.parametrize("alg", ["none", "NoNe", "", ["ES256"], 256, None, {}])
async def test_J06_no_algorithm_is_no_signature(it: Stand, alg: Any) -> None:
    claims = it.issuer.claims()
    await refuses(it, forge.compact({"typ": "at+jwt", "kid": "k1", "alg": alg}, claims, it.issuer.keys[0], alg="ES256"))
    await refuses(it, forge.compact({"typ": "at+jwt", "kid": "k1"}, claims, it.issuer.keys[0]))


async def test_J06_an_unsigned_token_has_no_third_segment(it: Stand) -> None:
    await refuses(it, forge.unsecured(it.issuer.claims()))


async def test_J07_a_public_key_is_no_shared_secret(it: Stand) -> None:
    rsa, secret = rsa_key("r1"), octets(kid="s1")
    it.issuer.publish(it.issuer.keys[0], rsa, secret)
    await refuses(it, forge.confused(it.issuer.claims(), rsa))
    await refuses(it, it.issuer.sign(key=secret))


async def test_J08_a_key_is_for_the_one_algorithm_that_it_names(it: Stand) -> None:
    rsa = rsa_key("r1", "RS256")
    it.issuer.publish(it.issuer.keys[0], rsa)
    await accepts(it, it.issuer.sign(key=rsa))
    for alg in ("RS512", "PS256"):
        await refuses(it, it.issuer.sign(key=rsa, header={"alg": alg}, alg=alg))


async def test_J09_broken_elliptic_signatures_verify_nothing(it: Stand) -> None:
    issuer = it.issuer
    await refuses(it, forge.psychic(issuer.claims(), issuer.keys[0]), fetches=0)
    await refuses(it, forge.psychic(issuer.claims(), issuer.keys[0], 2**256 - 1), fetches=0)
    other = ec_key("p384", "ES384")
    issuer.publish(*issuer.keys, other)
    await refuses(it, issuer.sign(key=other, header={"alg": "ES256"}, alg="ES256"))
    await refuses(it, forge.changed(issuer.sign(), 2, lambda signature: signature[:-4]))


@pytest.mark.parametrize(
    "kid", ["../../etc/passwd", "' OR 1=1 --", "https://evil.example/key", "k" * 3000, 5, None, {}, [], "", "k1\u0000"]
)
async def test_J10_a_kid_is_only_a_name(it: Stand, kid: Any) -> None:
    before = it.issuer.count()
    await refuses(it, it.issuer.sign(header={"kid": kid}))
    await refuses(it, it.issuer.sign(header={"kid": kid}))
    assert it.issuer.count() - before <= 1


async def test_J11_keys_that_a_token_brings_along_are_not_looked_at(it: Stand) -> None:
    mine = ec_key("mine")
    async with ForgedIssuer(RESOURCE, keys=[mine]) as evil:
        for header in (
            {"jku": evil.jwks_uri, "kid": "mine"},
            {"x5u": evil.jwks_uri, "kid": "k1"},
            {"jwk": mine.jwk, "kid": "k1"},
            {"jwk": mine.jwk, "kid": OMIT},
            {"x5c": ["MIIB"], "kid": "k1"},
        ):
            await refuses(it, it.issuer.sign(key=mine, header=header))
        assert evil.count() == 0


@each("header", [{"crit": ["exp"]}, {"crit": []}, {"crit": ["b64"], "b64": True}, {"b64": False}, {"crit": "exp"}])
async def test_J12_critical_extensions_are_not_understood(it: Stand, header: dict[str, Any]) -> None:
    await refuses(it, it.issuer.sign(header=header), fetches=0)


async def test_J13_compressed_and_encrypted_tokens_are_not_read(it: Stand) -> None:
    rsa = rsa_key("r1")
    it.issuer.publish(*it.issuer.keys, rsa)
    await refuses(it, it.issuer.sign(header={"zip": "DEF"}), fetches=0)
    await refuses(it, forge.encrypted(it.issuer.claims(), rsa), fetches=0)


@each("typ", ["JWT", OMIT, "dpop+jwt", "logout+jwt", "at+jwt+x", 5, None, ""])
async def test_J14_a_token_of_another_type_is_refused(it: Stand, typ: Any) -> None:
    await refuses(it, it.issuer.sign(header={"typ": typ}), fetches=0)


@each("typ", ["at+jwt", "AT+JWT", "application/at+jwt", "Application/AT+jwt"])
async def test_J15_the_type_of_access_tokens_has_several_spellings(it: Stand, typ: str) -> None:
    await accepts(it, it.issuer.sign(header={"typ": typ}))


@each("said", ["at+jwt", "AT+JWT", "application/at+jwt", "Application/AT+jwt"])
async def test_J15_so_it_has_in_the_settings(said: str) -> None:
    async with ForgedIssuer(RESOURCE) as issuer:
        knob = f"auth.issuers=[{{issuer: '{issuer.issuer}', preset: keycloak, token_types: ['{said}']}}]"
        async with stand("backend.listing.identity=shared", knob) as it:
            for typ in ("at+jwt", "AT+JWT", "application/at+jwt"):
                await accepts(it, issuer.sign(header={"typ": typ}, azp="client"))
            for typ in ("JWT", "application/jwt", "application/application/at+jwt", "jwt+at"):
                await refuses(it, issuer.sign(header={"typ": typ}, azp="client", typ="Bearer"), fetches=0)


async def test_J16_an_id_token_is_refused_where_typ_jwt_is_accepted() -> None:
    async with ForgedIssuer(RESOURCE) as issuer:
        knob = f"auth.issuers=[{{issuer: '{issuer.issuer}', token_types: [at+jwt, JWT]}}]"
        async with stand("backend.listing.identity=shared", knob) as it:
            header = {"typ": "JWT"}
            await accepts(it, issuer.sign(header=header))
            for claims in ({"nonce": "n"}, {"at_hash": "h"}, {"c_hash": "h"}, {"client_id": OMIT}):
                await refuses(it, issuer.sign(header=header, **claims))


async def test_J17_a_token_counts_until_its_end_and_the_leeway(it: Stand) -> None:
    now = time.time()
    await accepts(it, it.issuer.sign(exp=now - 20, iat=now - 100))
    await refuses(it, it.issuer.sign(exp=now - 31, iat=now - 100), description="The access token has expired")


@each("claim", ["nbf", "iat"])
async def test_J18_a_token_from_the_future_does_not_count_yet(it: Stand, claim: str) -> None:
    now = time.time()
    await accepts(it, it.issuer.sign(**{claim: now + 20}))
    await refuses(it, it.issuer.sign(**{claim: now + 60}))


@each("exp", ["1995000000", True, None, float("inf"), float("nan"), -1, 10**30, [], OMIT])
async def test_J19_an_end_that_is_no_time_is_refused(it: Stand, exp: Any) -> None:
    await refuses(it, it.issuer.sign(exp=exp))


async def test_J19_a_number_beyond_all_floats_is_refused(it: Stand) -> None:
    pairs = [*it.issuer.claims(exp=OMIT).items()]
    await refuses(it, it.issuer.sign(forge.members(*pairs)[:-1] + b',"exp":1e400}'))


async def test_J20_a_token_for_ten_years_is_refused(it: Stand) -> None:
    await refuses(it, it.issuer.sign(exp=time.time() + 10 * 365 * 86400))


@each(
    "aud",
    [OMIT, [], {}, None, 5, "", [RESOURCE, 5], RESOURCE[:-1], RESOURCE + "/", RESOURCE.replace("gw", "GW"),
     "https://other.example.com/mcp", [["a"]], RESOURCE + " "],
)  # fmt: skip
async def test_J21_a_token_for_somebody_else_is_refused(it: Stand, aud: Any) -> None:
    await refuses(it, it.issuer.sign(aud=aud))


async def test_J22_a_token_for_others_too_does_not_go_to_the_backend(it: Stand) -> None:
    await accepts(it, it.issuer.sign(aud=[RESOURCE]))
    await refuses(it, it.issuer.sign(aud=["https://other.example.com", RESOURCE]))


async def test_J22_a_token_for_others_too_counts_where_it_stays_here() -> None:
    async with stand("backend.credentials.mode=none") as it:
        await accepts(it, it.issuer.sign(aud=["https://other.example.com", RESOURCE]))


async def test_J23_an_issuer_is_known_by_its_exact_name(it: Stand) -> None:
    name = it.issuer.issuer
    for iss in (name + "/", name.replace("127.0.0.1", "localhost"), [name], OMIT, None, name + "/tenant", name.upper(),
                name.replace("1", "\u0661")):  # fmt: skip
        await refuses(it, it.issuer.sign(iss=iss), fetches=0)


async def test_J24_a_key_counts_for_its_own_issuer_alone() -> None:
    async with ForgedIssuer(RESOURCE, keys=[ec_key("k1")]) as first, ForgedIssuer(RESOURCE) as second:
        listed = ", ".join(f"{{issuer: '{one.issuer}'}}" for one in (first, second))
        async with stand(f"auth.issuers=[{listed}]", "backend.listing.identity=shared") as it:
            await accepts(it, first.sign())
            await accepts(it, second.sign())
            await refuses(it, second.sign(iss=first.issuer))
            await refuses(it, first.sign(iss=second.issuer))


async def test_J25_an_issuer_that_is_not_configured_is_not_asked(it: Stand) -> None:
    async with ForgedIssuer(RESOURCE) as stranger:
        before = it.issuer.count()
        await refuses(it, stranger.sign())
        assert stranger.count() == 0
        assert it.issuer.count() == before


@each("sub", [OMIT, 5, "", None, [], "s" * 1000, "a\nb", "a\u202eb", "a\u0000", "\u200b"])
async def test_J26_a_subject_is_a_short_printable_name(it: Stand, sub: Any) -> None:
    await refuses(it, it.issuer.sign(sub=sub))


async def test_J27_a_member_that_is_there_twice_has_no_value(it: Stand) -> None:
    issuer = it.issuer
    await refuses(it, issuer.sign(forge.twice(issuer.claims(), "aud", "https://other.example.com")), fetches=0)
    await refuses(it, issuer.sign(header=forge.twice(issuer.header(), "alg", "none")), fetches=0)


@each(
    "claims",
    {
        "BOM": b"\xef\xbb\xbf{}",
        "not UTF-8": b'{"sub":"\xff"}',
        "surrogate": b'{"sub":"\\ud800"}',
        "array": b"[]",
        "text": b'"text"',
        "null": b"null",
        "cut": b"{",
        "empty": b"",
        "deep": b'{"a":' * 2000 + b"1" + b"}" * 2000,
    },
)
async def test_J28_claims_are_one_sound_json_object(it: Stand, claims: bytes) -> None:
    if len(claims) > 4000:
        claims = claims[:2000] + b"1" + b"}" * 400  # within the size of a header field
    await refuses(it, it.issuer.sign(claims), fetches=0)
    await refuses(it, forge.compact(claims, it.issuer.claims(), it.issuer.keys[0]), fetches=0)


async def test_J29_a_token_has_one_spelling(it: Stand) -> None:
    good = it.issuer.sign(sub="ann")
    await accepts(it, good)
    head, claims, signature = good.split(".")
    for spelled in (
        f"{head}.{claims}.{signature}=",
        f"{head}.{claims}.{signature}==",
        f"{head}.{claims}",
        f"{good}.{b64(b'x')}",
        f"{head}.{claims}.",
    ):
        await refuses(it, spelled, fetches=0)
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    stray = last[last.index(signature[-1]) ^ 1]
    await refuses(it, f"{head}.{claims}.{signature[:-1]}{stray}", fetches=0)


@each("claim", ["iss", "sub", "aud", "exp", "iat", "jti", "client_id"])
async def test_a_required_claim_that_is_null_is_missing(it: Stand, claim: str) -> None:
    await refuses(it, it.issuer.sign(**{claim: None}))


@each("jti", ["", 5, True, ["j"], {}])
async def test_a_jti_is_a_string_of_at_least_one_character(it: Stand, jti: object) -> None:
    await refuses(it, it.issuer.sign(jti=jti))


async def test_J30_an_overlong_token_is_not_read(it: Stand) -> None:
    for size in (9_000, 1_000_000):
        for answer in await everywhere(it, bearer("a" * size)):
            assert answer.status == 400
    assert it.backend.requests == []
