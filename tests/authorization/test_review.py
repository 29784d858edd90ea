"""What a review of the resource server found, and what holds since."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.auth.addresses import check_address
from gateway.auth.asking import MAX_UNDER_WAY
from gateway.auth.authenticator import Authenticator, PresentedToken
from gateway.auth.compact import InvalidToken
from gateway.auth.verifier import VerifiedToken
from gateway.config.source import ConfigError
from gateway.store.memory import MemoryStore
from tests.authorization.forge import dpop_proof
from tests.authorization.issuer import ForgedIssuer
from tests.authorization.keys import ec_key
from tests.authorization.rows import ARGUMENTS, accepts, refuses
from tests.authorization.stand import METADATA, PUBLIC, RESOURCE, Stand, settings, stand
from tests.authorization.test_rows_keys import readiness
from tests.authorization.token_endpoint import TokenEndpoint
from tests.each import each
from tests.fault.behaviours import Exchange, error
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE, until

SHARED = "backend.listing.identity=shared"
KEY = ec_key("client")
OTHER = "https://other.example.com"


@asynccontextmanager
async def asking(*knobs: str, members: str = "") -> AsyncIterator[Stand]:
    """A gateway that asks its one issuer about tokens."""
    async with ForgedIssuer(RESOURCE) as issuer:
        named = f"auth.issuers=[{{issuer: '{issuer.issuer}', introspection: {{client_id: gw}}{members}}}]"
        async with stand(SHARED, named, *knobs) as it:
            it.issuer = issuer
            yield it


@each("issuer", [[], {}, ["x"], 5, None])
async def test_an_issuer_that_is_no_string_is_refused_where_an_issuer_is_asked(issuer: Any) -> None:
    async with asking() as it:
        await refuses(it, it.issuer.sign(iss=issuer))


class Slow:
    """A verifier that refuses when it is told to."""

    def __init__(self) -> None:
        self.asked, self.told = asyncio.Event(), asyncio.Event()

    async def verify_token(self, raw: str) -> VerifiedToken:
        self.asked.set()
        await self.told.wait()
        raise InvalidToken("not known")


async def test_who_hangs_up_early_leaves_nothing_behind() -> None:
    verifier = Slow()
    stray: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: stray.append(context))
    authenticator = Authenticator(verifier)
    shown = PresentedToken(["Bearer opaque"], [], "POST", "/mcp", False, "192.0.2.1")
    asks = asyncio.create_task(authenticator.authenticate(shown))
    async with asyncio.timeout(PATIENCE):
        await verifier.asked.wait()
        asks.cancel()
        await asyncio.wait([asks])
        verifier.told.set()
        while len(asyncio.all_tasks()) > 1:
            await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})  # type: ignore[arg-type]
    gc.collect()
    assert stray == []


async def test_many_tokens_at_once_have_the_metadata_looked_up_once() -> None:
    async with asking() as it:
        answers = await asyncio.gather(*(it.client(f"opaque-{number}").list("rest") for number in range(MAX_UNDER_WAY)))
        assert {answer.status for answer in answers} == {401}
        assert it.issuer.count("metadata") == 1


async def test_many_tokens_while_the_metadata_fail_do_not_have_them_looked_up_again_and_again() -> None:
    async with asking() as it:
        it.issuer.disturb("metadata", "500")
        answers = await asyncio.gather(*(it.client(f"opaque-{number}").list("rest") for number in range(MAX_UNDER_WAY)))
        assert {answer.status for answer in answers} == {503}
        assert it.issuer.count("metadata") == len(it.issuer.metadata_places)
        it.issuer.restore()
        await until(lambda: it.client("opaque").list("rest"), lambda answer: answer.status == 401)


@each(
    "kind",
    [{"token_type": "refresh_token"}, {"token_use": "refresh_token"}, {"token_use": "id_token"}, {"token_use": "ID"}],
)
async def test_an_active_token_of_another_kind_is_no_access_token(kind: dict[str, str]) -> None:
    async with asking() as it:
        sound = {"active": True, "client_id": "client", "sub": "ann", "aud": RESOURCE, "exp": int(time.time()) + 60}
        it.issuer.introspections["access"] = sound | {"token_type": "Bearer", "token_use": "access_token"}
        it.issuer.introspections["other"] = sound | {"token_type": "Bearer"} | kind
        await accepts(it, "access")
        await refuses(it, "other")


async def test_a_refresh_token_of_a_client_that_may_call_is_no_access_token() -> None:
    """Without aud, and answered as node oidc-provider answers: the client alone says whom it is for."""
    async with asking(members=", clients: [client]") as it:
        told: dict[str, Any] = {"active": True, "client_id": "client", "sub": "ann", "iss": it.issuer.issuer}
        told["exp"] = int(time.time()) + 60
        it.issuer.introspections["access"] = told | {"token_type": "Bearer"}
        it.issuer.introspections["refresh"] = told
        await accepts(it, "access")
        await refuses(it, "refresh")


@pytest.fixture
async def bound() -> AsyncIterator[Stand]:
    async with stand(SHARED, "auth.dpop=require", "backend.credentials.mode=none", "auth.scopes={list: [x]}") as it:
        yield it


async def prove(it: Stand, **changes: Any) -> tuple[int, str]:
    token = it.issuer.sign(cnf={"jkt": KEY.thumbprint})
    proof = dpop_proof(KEY, "GET", f"{PUBLIC}/mcp/tools/list", token, **changes)
    shown = [("Authorization", f"DPoP {token}"), ("DPoP", proof)]
    answer = await it.client().send("GET", "/mcp/tools/list", None, shown)
    return answer.status, answer.headers.get("WWW-Authenticate", "")


@each("sign", [1, -1])
async def test_a_proof_of_a_time_beyond_all_numbers_is_refused(bound: Stand, sign: int) -> None:
    status, challenge = await prove(bound, iat=sign * 10**400)
    assert status == 401
    assert challenge.startswith('DPoP error="invalid_dpop_proof"')


async def test_where_proofs_are_required_a_missing_scope_is_asked_for_with_that_scheme(bound: Stand) -> None:
    status, challenge = await prove(bound)
    assert status == 403
    assert challenge == (
        'DPoP error="insufficient_scope", error_description="The token lacks a scope", scope="x", '
        f'resource_metadata="{METADATA}", algs="ES256 RS256 PS256 EdDSA"'
    )


async def test_ended_sessions_in_great_number_do_not_make_a_used_proof_good_again() -> None:
    store = MemoryStore(most=10)
    assert await store.add("dpop:used", 100)
    for number in range(50):
        assert await store.add(f"session-ended:{number}", 100)
    assert not await store.add("dpop:used", 100)


async def test_a_backend_that_quotes_the_token_in_place_of_a_listing_does_not_get_it_into_the_log() -> None:
    class Quotes:
        async def play(self, exchange: Exchange) -> None:
            await error(-1, f"who is {exchange.request.headers['Authorization']}?").play(exchange)

    async with stand() as it:
        it.listings.broken = Quotes()
        token = it.issuer.sign()
        with capture_logs() as lines:
            assert (await it.client(token).list("rest")).status == 503
        assert "who is Bearer [redacted]?" in repr(lines)
        assert token[:20] not in repr(lines)


async def test_one_issuer_of_several_that_cannot_be_reached_takes_no_replica_down() -> None:
    async with ForgedIssuer(RESOURCE) as good, ForgedIssuer(RESOURCE, path="/gone") as gone:
        gone.disturb("metadata", "500")
        async with stand(SHARED, f"auth.issuers=[{{issuer: '{good.issuer}'}}, {{issuer: '{gone.issuer}'}}]") as it:
            await accepts(it, good.sign())
            assert (await it.client(gone.sign()).list("rest")).status == 503
            assert (await readiness(it))[0] == 200


def test_tokens_of_several_issuers_are_not_shown_to_the_first_ones_token_endpoint_unasked() -> None:
    exchange = "backend.credentials={mode: token_exchange, client_id: gw, client_secret: sesame, audience: x%s}"
    both = "auth.issuers=[{issuer: 'https://a.example.com'}, {issuer: 'https://b.example.com'}]"
    with pytest.raises(ConfigError) as caught:
        settings("http://127.0.0.1:9/jsonrpc", [], both, exchange % "")
    assert [fault.partition(":")[0] for fault in caught.value.faults] == ["backend.credentials.token_endpoint"]
    named = exchange % ", token_endpoint: 'https://b.example.com/token'"
    assert settings("http://127.0.0.1:9/jsonrpc", [], both, named)


async def test_an_exchange_that_does_not_say_what_it_gives_gives_nothing(endpoint: TokenEndpoint) -> None:
    """issued_token_type is required (RFC 8693 §2.2.1)."""
    endpoint.answer = lambda form: (200, endpoint.grant(form, issued_token_type=None))
    place = f"client_id: gw, client_secret: sesame, audience: x, token_endpoint: '{endpoint.url}'"
    async with stand(SHARED, f"backend.credentials={{mode: token_exchange, {place}}}") as it:
        answer = await it.client(it.issuer.sign()).call("rest", "add", ARGUMENTS)
        assert (answer.status, answer.json["error"]["code"]) == (502, "backend_unavailable")
        assert it.shown("add") == []
        endpoint.answer = lambda form: (200, endpoint.grant(form))
        assert (await it.client(it.issuer.sign()).call("rest", "add", ARGUMENTS)).status == 200


def test_a_token_for_another_resource_alone_is_not_shown_to_the_backend() -> None:
    named = f"auth.issuers=[{{issuer: 'https://a.example.com', audiences: ['{RESOURCE}', '{OTHER}']}}]"
    with pytest.raises(ConfigError) as caught:
        settings("http://127.0.0.1:9/jsonrpc", [], named)
    assert [fault.partition(":")[0] for fault in caught.value.faults] == ["auth.issuers.audiences"]
    assert settings("http://127.0.0.1:9/jsonrpc", [], named, "backend.credentials.reject_extra_audiences=false")


@each("host", ["[::ffff:169.254.169.254]", "169.254.169.254.", "[::ffff:127.0.0.1]", "localhost."])
def test_an_issuers_metadata_do_not_lead_to_this_machine_however_it_is_written(host: str) -> None:
    with pytest.raises(ValueError, match="points at"):
        check_address(f"https://{host}/jwks", "https://login.example.com", "jwks_uri")


async def test_while_the_shared_store_is_away_a_proof_is_refused_with_503_and_no_challenge(tmp_path: Path) -> None:
    """A 401 would make clients throw their token away."""
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef")
    shared = (f"server.secret_file={secret}", "auth.dpop=require", "backend.credentials.mode=none")
    with RedisServer() as server:
        async with stand(SHARED, f"store.url={server.url}", *shared) as it:
            await until(lambda: prove(it), lambda answer: answer[0] == 200)  # a busy machine may make Redis slow
            server.kill()
            assert await prove(it) == (503, "")
