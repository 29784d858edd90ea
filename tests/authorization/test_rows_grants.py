"""Rows J31 to J35 and J46 to J48 of docs/security.md: scopes, bound tokens, revocation, faults of our own, time, and
the document that says who issues tokens."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.auth.authenticator import Authenticator, PresentedToken
from gateway.auth.claims import issuer_policy
from gateway.auth.jwks import IssuerKeys
from gateway.auth.verifier import SignatureVerifier, VerifiedToken
from gateway.errors import AuthUnavailable, Unauthorized
from gateway.http_client.session import Outbound
from gateway.settings import Issuer
from tests.authorization.forge import OMIT, dpop_proof
from tests.authorization.issuer import ForgedIssuer
from tests.authorization.keys import Key, ec_key, octets
from tests.authorization.rows import ARGUMENTS, accepts, bearer, everywhere, refuses, untouched, warm
from tests.authorization.stand import METADATA, PUBLIC, RESOURCE, Stand, challenge_of, stand
from tests.each import each
from tests.protocol.talk import Answer

pytestmark = pytest.mark.usefixtures("both_servers")

SHARED = "backend.listing.identity=shared"
KEY = ec_key("client")


@pytest.fixture
async def it() -> AsyncIterator[Stand]:
    async with stand(SHARED) as it:
        await warm(it)
        yield it


async def test_J31_what_a_call_lacks_is_told_at_once_and_in_full() -> None:
    knobs = ("auth.scopes={list: [books.list], call: [books]}", "catalog.tools={add: {scopes: [sums, more]}}")
    async with stand(SHARED, *knobs) as it:
        for answer in (await everywhere(it, bearer(it.issuer.sign(scope="other"))))[:6]:
            assert answer.status == 403
            challenge = challenge_of(answer)
            wanted = "books.list" if "tools/list" in answer.body.decode() or answer.json.get("id") is None else ""
            assert challenge["error"] == "insufficient_scope"
            assert challenge["resource_metadata"] == METADATA
            assert challenge["scope"] in ("books.list", "books more sums"), wanted
        assert [sent.method for sent in it.backend.requests] == []


async def test_J32_a_broader_scope_stands_for_narrower_ones_through_any_number_of_steps() -> None:
    knobs = (
        "auth.scopes={list: [read], call: [write], implies: {admin: [write], write: [read], read: []}}",
        "catalog.tools={add: {scopes: [read]}}",
    )
    async with stand(SHARED, *knobs) as it:
        await accepts(it, it.issuer.sign(scope="admin"))
        await accepts(it, it.issuer.sign(scope="write"))
        assert (await it.client(it.issuer.sign(scope="read")).call("rest", "add", ARGUMENTS)).status == 403


async def test_J33_a_bound_token_is_refused_where_proofs_are_not_checked(it: Stand) -> None:
    await refuses(it, it.issuer.sign(cnf={"jkt": KEY.thumbprint}), fetches=0)
    await refuses(it, it.issuer.sign(cnf={"x5t#S256": "abc"}), fetches=0)
    await refuses(it, it.issuer.sign(cnf={}), fetches=0)
    await refuses(it, it.issuer.sign(cnf=None), fetches=0)


@pytest.fixture
async def bound() -> AsyncIterator[Stand]:
    async with stand(SHARED, "auth.dpop=accept", "backend.credentials.mode=none") as it:
        await accepts(it, it.issuer.sign(sub="warm"))
        yield it


async def prove(it: Stand, token: str, *proofs: str, scheme: str = "DPoP", path: str = "/mcp/tools/list") -> Answer:
    shown = [("Authorization", f"{scheme} {token}"), *(("DPoP", proof) for proof in proofs)]
    return await it.client().send("GET", path, None, shown)


def proof_of(token: str, key: Key = KEY, **changes: Any) -> str:
    return dpop_proof(key, "GET", f"{PUBLIC}/mcp/tools/list", token, **changes)


async def test_J34_a_bound_token_counts_with_a_proof_made_for_the_request(bound: Stand) -> None:
    token = bound.issuer.sign(cnf={"jkt": KEY.thumbprint})
    assert (await prove(bound, token, proof_of(token))).status == 200
    assert (await prove(bound, token, proof_of(token, htu=f"{PUBLIC}:443/mcp/tools/list?x=1#y"))).status == 200
    assert (await prove(bound, token, proof_of(token), path="/mcp/tools/list?cursor=")).status == 400  # the cursor's


async def test_J34_a_proof_is_good_once(bound: Stand) -> None:
    token = bound.issuer.sign(cnf={"jkt": KEY.thumbprint})
    proof = proof_of(token)
    assert (await prove(bound, token, proof)).status == 200
    await _refused_proof(await prove(bound, token, proof))


async def _refused_proof(answer: Answer) -> None:
    assert answer.status == 401
    challenge = answer.headers["WWW-Authenticate"]
    assert challenge.startswith('DPoP error="invalid_dpop_proof", error_description="')
    assert 'algs="ES256 RS256 PS256 EdDSA"' in challenge


@each(
    "changes",
    [
        {"htu": f"{PUBLIC}/mcp"}, {"htu": "https://evil.example/mcp/tools/list"}, {"htu": 5}, {"htm": "POST"},
        {"ath": "AAAA"}, {"ath": OMIT}, {"iat": time.time() - 3600}, {"iat": time.time() + 3600}, {"iat": "now"},
        {"iat": OMIT}, {"jti": OMIT}, {"jti": ""}, {"jti": "j" * 200},
        {"header": {"typ": "JWT"}}, {"header": {"alg": "HS256"}, "signed_by": octets()}, {"header": {"jwk": OMIT}},
        {"header": {"jwk": KEY.private_jwk}}, {"header": {"jwk": {"kty": "oct", "k": "AAAA"}}},
        {"signed_by": ec_key("other")}, {"key": ec_key("other")}, {"header": {"crit": ["x"]}},
    ],
)  # fmt: skip
async def test_J34_a_proof_for_something_else_proves_nothing(bound: Stand, changes: dict[str, Any]) -> None:
    token = bound.issuer.sign(cnf={"jkt": KEY.thumbprint})
    bound.backend.requests.clear()
    await _refused_proof(await prove(bound, token, proof_of(token, **changes)))
    untouched(bound)


async def test_J34_exactly_one_proof_is_shown(bound: Stand) -> None:
    token = bound.issuer.sign(cnf={"jkt": KEY.thumbprint})
    await _refused_proof(await prove(bound, token))
    await _refused_proof(await prove(bound, token, proof_of(token), proof_of(token)))
    await _refused_proof(await prove(bound, token, "x"))


async def test_J34_a_bound_token_is_no_bearer_token_and_a_bearer_token_no_bound_one(bound: Stand) -> None:
    token = bound.issuer.sign(cnf={"jkt": KEY.thumbprint})
    assert (await prove(bound, token, proof_of(token), scheme="Bearer")).status == 401
    unbound = bound.issuer.sign()
    assert (await prove(bound, unbound, proof_of(unbound))).status == 401
    assert (await prove(bound, unbound, scheme="Bearer")).status == 200


async def test_J34_where_proofs_are_required_a_bearer_token_does_not_do() -> None:
    async with stand(SHARED, "auth.dpop=require", "backend.credentials.mode=none") as it:
        token = it.issuer.sign(cnf={"jkt": KEY.thumbprint})
        assert (await prove(it, token, proof_of(token))).status == 200
        answer = await it.client(it.issuer.sign()).list("rest")
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"].startswith("DPoP ")


class Wall:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


class Watch:
    """Wall-clock and monotonic time of one gateway, which need not agree."""

    def __init__(self, issuer: ForgedIssuer, outbound: Outbound) -> None:
        self.wall, self.steady = Wall(), Wall()
        made = Issuer(issuer=issuer.issuer)
        self.policy = issuer_policy(made, RESOURCE, extra_audiences=False, implies={})
        self.keys = IssuerKeys(made, outbound, self.steady)
        verifier = SignatureVerifier([(self.policy, self.keys)], clock=self.wall)
        self.authenticator = Authenticator(verifier, clock=self.steady, wall=self.wall)

    async def admits(self, token: str) -> bool:
        shown = PresentedToken([f"Bearer {token}"], [], "POST", "/mcp", False, "127.0.0.1")
        try:
            return await self.authenticator.authenticate(shown) is not None
        except Unauthorized:
            return False


@pytest.fixture
async def watch() -> AsyncIterator[tuple[ForgedIssuer, Watch]]:
    outbound = Outbound()
    async with ForgedIssuer(RESOURCE) as issuer:
        yield issuer, Watch(issuer, outbound)
    await outbound.close()


@pytest.mark.own_server("it starts no gateway")
async def test_J35_a_token_is_believed_for_a_minute_at_most_after_its_key_vouched_for_it(
    watch: tuple[ForgedIssuer, Watch],
) -> None:
    issuer, gateway = watch
    token = issuer.sign(exp=gateway.wall.now + 3600)
    assert await gateway.admits(token)
    issuer.rotate()
    issuer.retire()
    await gateway.keys.refresh()
    assert not await gateway.admits(token)


@pytest.mark.own_server("it starts no gateway")
async def test_J46_a_fault_of_ours_lets_nobody_in() -> None:
    class Broken:
        async def verify_token(self, raw: str) -> VerifiedToken:
            raise RuntimeError("secret detail")

    authenticator = Authenticator(Broken())
    shown = PresentedToken(["Bearer abc"], [], "POST", "/mcp", False, "127.0.0.1")
    with pytest.raises(AuthUnavailable) as caught:
        await authenticator.authenticate(shown)
    assert "secret detail" not in caught.value.message


@pytest.mark.own_server("it starts no gateway")
@pytest.mark.parametrize("jump", [3600, -3600])
async def test_J47_a_clock_that_jumps_changes_what_the_claims_say_and_nothing_else(
    watch: tuple[ForgedIssuer, Watch], jump: float
) -> None:
    issuer, gateway = watch
    token = issuer.sign(exp=gateway.wall.now + 300)
    assert await gateway.admits(token)
    fetched = issuer.count()
    gateway.wall.now += jump
    if jump < 0:
        assert await gateway.admits(token), "what is known is kept by a clock that does not jump"
        gateway.steady.now += 61
    assert not await gateway.admits(token), (
        "a token ends by the time of the wall, and is looked at again after a minute"
    )
    assert issuer.count() == fetched, "what the issuer says is kept by a clock that does not jump"
    gateway.wall.now -= jump
    gateway.steady.now += 6
    assert await gateway.admits(token), "it was refused for seconds"


@pytest.mark.own_server("it starts no gateway")
async def test_J47_an_answer_is_kept_no_longer_than_its_token_lives(watch: tuple[ForgedIssuer, Watch]) -> None:
    issuer, gateway = watch
    token = issuer.sign(exp=gateway.wall.now + 10)
    assert await gateway.admits(token)
    gateway.wall.now += 41
    gateway.steady.now += 41
    assert not await gateway.admits(token)


@each(
    "headers",
    [
        {"Host": "evil.example"},
        {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "http"},
        {"Origin": "https://app.example"},
    ],
)
@each("path", ["", "/mcp"])
async def test_J48_who_issues_tokens_is_said_by_the_configuration_alone(
    it: Stand, headers: dict[str, str], path: str
) -> None:
    answer = await it.client().send("GET", f"/.well-known/oauth-protected-resource{path}", None, headers)
    assert answer.status == 200
    assert answer.json["resource"] == RESOURCE
    assert answer.json["authorization_servers"] == [it.issuer.issuer]
    assert b"evil" not in answer.body
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert answer.headers["Cache-Control"] == "public, max-age=3600"
    assert "WWW-Authenticate" not in answer.headers


async def test_the_document_may_be_asked_for_by_any_page_and_only_asked_for(it: Stand) -> None:
    place = "/.well-known/oauth-protected-resource/mcp"
    asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "GET"}
    preflight = await it.client().send("OPTIONS", place, None, asked)
    assert (preflight.status, preflight.headers["Access-Control-Allow-Origin"]) == (204, "*")
    assert (await it.client().send("POST", place, b"{}")).status == 405
    head = await it.client().send("HEAD", place)
    assert (head.status, head.body) == (200, b"")
