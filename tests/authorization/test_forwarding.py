"""What the backend is shown of a caller, and that nobody else is shown anything (docs/security.md, F2, F4, F5, F7)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Final

import pytest
from aiohttp import ClientSession
from structlog.testing import capture_logs

from gateway import USER_AGENT
from tests.authorization.forge import OMIT, unsecured
from tests.authorization.issuer import ForgedIssuer
from tests.authorization.stand import (
    CALLS,
    LISTS,
    RESOURCE,
    Bearer,
    Stand,
    challenge_of,
    names,
    running,
    settings,
    stand,
)
from tests.authorization.token_endpoint import EXCHANGE, OWN, TokenEndpoint
from tests.each import each
from tests.fault.behaviours import Body, Redirect, error, result
from tests.fault.methods import METHODS
from tests.fault.scripted import Bystander, ScriptedBackend
from tests.fault.wire import Request
from tests.protocol.official import LEGACY, MODERN

pytestmark = pytest.mark.usefixtures("both_servers")

TWO_AND_THREE: Final = {"a": 2, "b": 3}
TRANSPORT: Final = {"host", "content-type", "content-length", "accept", "accept-encoding", "user-agent"}
STRANGE: Final = {
    "Cookie": "session=1",
    "Proxy-Authorization": "Basic YTpi",
    "X-Forwarded-For": "10.0.0.1",
    "X-Forwarded-User": "root",
    "X-Remote-User": "root",
    "X-Original-URL": "/admin",
    "Forwarded": "for=10.0.0.1",
    "X-Api-Key": "k",
    "X-Http-Method-Override": "DELETE",
    "DPoP": "a.b.c",
    "Referer": "https://elsewhere.example.com/?token=1",
    "Accept-Charset": "utf-16",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "baggage": "user=root",
}


@pytest.fixture
async def it() -> AsyncIterator[Stand]:
    async with stand() as it:
        yield it


class Talkative(Bearer):
    """A client that sends every header that a backend might trust."""

    def request(self, verb: str, path: str, body: bytes | None, headers: object) -> object:
        return super().request(verb, path, body, {**STRANGE, **dict(headers)})  # type: ignore[call-overload]


def named(sent: Request) -> set[str]:
    return {name.lower() for name in sent.headers}


# --- F7: headers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("surface", CALLS)
async def test_a_call_shows_the_token_and_no_header_that_a_client_sent(it: Stand, surface: str) -> None:
    """But that of its trace."""
    ann = Talkative(it.session, it.gateway.port, it.issuer.sign(sub="ann"))
    assert (await ann.call(surface, "add", TWO_AND_THREE)).status == 200
    (call,) = [sent for sent in it.backend.requests if sent.method == "add"]
    assert named(call) == TRANSPORT | {"x-request-id", "authorization", "traceparent"}
    assert call.headers.getall("Authorization") == [f"Bearer {ann.token}"]
    assert (call.headers["User-Agent"], call.headers["Accept"]) == (USER_AGENT, "application/json")


@pytest.mark.parametrize("surface", LISTS)
async def test_a_listing_shows_the_token_and_the_callers_language(it: Stand, surface: str) -> None:
    ann = Talkative(it.session, it.gateway.port, it.issuer.sign(sub="ann"))
    await names(ann, surface)
    (asked,) = [sent for sent in it.backend.requests if sent.method == "rpc.discover"]
    assert named(asked) == TRANSPORT | {"authorization"}
    assert (asked.headers["Authorization"], asked.headers["Accept"]) == (f"Bearer {ann.token}", "application/json")


async def test_with_authentication_off_a_clients_token_is_dropped() -> None:
    async with ScriptedBackend() as backend, ClientSession() as session:
        async with running(settings(backend.url, [], "auth.mode=off")) as gateway:
            for surface in CALLS:
                client = Bearer(session, gateway.port, "anything.at.all")
                assert (await client.call(surface, "add", TWO_AND_THREE)).status == 200
        assert {name for sent in backend.requests for name in named(sent)} == TRANSPORT | {"x-request-id"}


async def test_a_caller_without_a_token_is_shown_as_one() -> None:
    async with stand("auth.anonymous=open-tools", "backend.listing.dialect=jsonrpc_mcp") as it:
        it.offers({"name": "echo", "annotations": {"auth": {"level": "none"}}})
        it.backend.on("echo", result("heard"))
        async with running(it.gateway.settings) as gateway:
            assert (await Bearer(it.session, gateway.port, None).call(MODERN, "echo")).status == 200
        assert it.shown("echo") == [None]


# --- F2: nothing unverified leaves ------------------------------------------------------------------------------


def bad_tokens(issuer: ForgedIssuer) -> dict[str, str]:
    now = int(time.time())
    return {
        "expired": issuer.sign(exp=now - 3600),
        "not yet good": issuer.sign(nbf=now + 3600),
        "for another resource": issuer.sign(aud="https://backend.example.com"),
        "for nobody": issuer.sign(aud=OMIT),
        "of another issuer": issuer.sign(iss="https://login.example.org"),
        "signed by nobody": unsecured(issuer.claims()),
        "tampered with": issuer.sign()[:-6] + "AAAAAA",
        "an id token": issuer.sign(header={"typ": "JWT"}, nonce="n"),
        "opaque": "opaque-token",
        "bound to a key": issuer.sign(cnf={"jkt": "x" * 43}),
    }


@each("kind", [*bad_tokens(ForgedIssuer())])
async def test_a_token_that_does_not_count_never_reaches_the_backend(it: Stand, kind: str) -> None:
    client = it.client(bad_tokens(it.issuer)[kind])
    before = len(it.backend.requests)
    for surface in CALLS:
        answer = await client.call(surface, "add", TWO_AND_THREE)
        assert answer.status == 401
        assert challenge_of(answer)["error"] == "invalid_token"
    for surface in LISTS:
        assert (await client.list(surface)).status == 401
    assert len(it.backend.requests) == before


# --- F5: other audiences ----------------------------------------------------------------------------------------

TWO: Final = [RESOURCE, "https://other.example.com"]


async def test_a_token_that_is_good_elsewhere_too_is_not_shown_to_the_backend(it: Stand) -> None:
    assert (await it.of("ann", aud=TWO).call(MODERN, "add", TWO_AND_THREE)).status == 401
    assert (await it.of("ann", aud=[RESOURCE]).call(MODERN, "add", TWO_AND_THREE)).status == 200
    assert it.backend.calls("add") == 1


@each(
    "knobs",
    [
        ("backend.credentials.reject_extra_audiences=false",),
        ("backend.credentials.mode=none", "backend.credentials.backend_audience="),
    ],
)
async def test_other_audiences_are_good_where_the_token_stays_here_or_the_operator_says_so(
    knobs: tuple[str, ...],
) -> None:
    async with stand(*knobs) as it:
        assert (await it.of("ann", aud=TWO).call(MODERN, "add", TWO_AND_THREE)).status == 200


# --- F4: one origin ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_takes_the_token_nowhere(it: Stand, status: int) -> None:
    ann = it.of("ann")
    await names(ann)
    it.backend.on("add", Redirect(status))
    assert (await ann.call("rest", "add", TWO_AND_THREE)).status == 502
    it.listings.broken = Redirect(status)
    assert (await it.of("bob").list(MODERN)).status == 503
    assert it.backend.other.received == b""
    it.listings.broken = None


async def test_no_proxy_of_the_environment_is_on_the_way(
    monkeypatch: pytest.MonkeyPatch, endpoint: TokenEndpoint
) -> None:
    proxy = Bystander()
    await proxy.open()
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        for spelling in (name, name.lower()):
            monkeypatch.setenv(spelling, f"http://127.0.0.1:{proxy.port}")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    async with stand() as it:
        assert (await it.of("ann").call(MODERN, "add", TWO_AND_THREE)).status == 200
        async with running(settings(it.backend.url, [it.issuer], *endpoint.knobs(*EXCHANGE))) as gateway:
            bob = Bearer(it.session, gateway.port, it.issuer.sign(sub="bob"))
            assert (await bob.call(MODERN, "add", TWO_AND_THREE)).status == 200
        assert len(endpoint.forms) == 1
    await proxy.close()
    assert (proxy.connections, proxy.received) == (0, b"")


async def test_a_listing_sends_no_call_to_another_origin(it: Stand) -> None:
    """Only one dialect has endpoints of its own, and those are paths; the rest of an address is the operator's."""
    it.listings.shows("ann", METHODS[0].listed() | {"servers": [{"url": f"http://127.0.0.1:{it.backend.other.port}"}]})
    assert (await it.of("ann").call(MODERN, "add", TWO_AND_THREE)).status == 200
    assert it.backend.other.received == b""


# --- nowhere else -----------------------------------------------------------------------------------------------


async def test_no_log_line_and_no_answer_holds_a_token(it: Stand) -> None:
    with capture_logs() as lines:
        good, bad = it.of("ann"), it.client(it.issuer.sign(exp=0))
        it.backend.on("fail", error(-32000, f"no, {good.token}", {"token": good.token}))
        answers = [await client.call(surface, "fail") for client in (good, bad) for surface in CALLS]
        answers += [await client.list(surface) for client in (good, bad) for surface in LISTS]
        it.backend.on("fail", Body(status=401, content_type=None))
        answers += [await good.call(surface, "fail") for surface in CALLS]
    for client in (good, bad):
        assert client.token
        for part in (client.token, client.token.split(".")[1], client.token.split(".")[2]):
            assert part not in repr(lines)
            assert not any(part in f"{answer.headers!r}{answer.body!r}" for answer in answers)


async def test_an_exchanged_token_that_the_backend_quotes_stays_here(endpoint: TokenEndpoint) -> None:
    """The caller has no business with it, and it looks like nothing that could be known."""
    endpoint.answer = lambda form: (200, endpoint.grant(form, access_token="opaquebackendtoken"))
    async with stand(*endpoint.knobs(*EXCHANGE)) as it:
        it.backend.on("fail", error(-32000, "refused: opaquebackendtoken", ["opaquebackendtoken"]))
        ann = it.of("ann")
        with capture_logs() as lines:
            answers = [await ann.call(surface, "fail") for surface in CALLS]
        assert set(it.shown("fail")) == {"opaquebackendtoken"}
        assert not any(b"opaquebackendtoken" in answer.body for answer in answers)
        assert "opaquebackendtoken" not in repr(lines)


# --- the backend's own verdict ----------------------------------------------------------------------------------


@pytest.mark.parametrize("surface", CALLS)
async def test_a_backends_401_to_the_callers_token_is_ours_with_a_challenge_and_an_error_in_the_log(
    it: Stand, surface: str
) -> None:
    it.backend.on("add", Body(status=401, content_type=None))
    ann = it.of("ann")
    with capture_logs() as lines:
        answer = await ann.call(surface, "add", TWO_AND_THREE)
    assert answer.status == 401
    assert challenge_of(answer)["error"] == "invalid_token"
    assert it.shown("add") == [ann.token], "nothing is tried again with another identity"
    (line,) = [line for line in lines if line["log_level"] == "error"]
    assert line["event"].startswith("the conditions of same_resource do not hold")


@pytest.mark.parametrize("surface", CALLS)
async def test_a_401_with_a_json_rpc_body_is_a_401(it: Stand, surface: str) -> None:
    for answer in (error(-32001, "Unauthorized", status=401), result({"sum": 5}, status=401)):
        it.backend.on("add", answer)
        assert (await it.of("ann").call(surface, "add", TWO_AND_THREE)).status == 401


@each("surface", CALLS)
async def test_a_backends_401_to_a_credential_that_is_not_the_callers_is_502(surface: str) -> None:
    async with stand(
        "backend.credentials={mode: static, send: {headers: {Authorization: Bearer sesame-sesame}}}"
    ) as it:
        it.backend.on("add", Body(status=401, content_type=None))
        with capture_logs() as lines:
            answer = await it.of("ann").call(surface, "add", TWO_AND_THREE)
        assert "WWW-Authenticate" not in answer.headers
        if surface in (MODERN, *LEGACY):
            assert answer.result["isError"] is True
        else:
            assert answer.status == (200 if surface == "jsonrpc" else 502)
        assert b"sesame" not in answer.body
        assert it.shown("add") == ["sesame-sesame"]
        assert [line["event"] for line in lines if line["log_level"] == "error"] == [
            "the backend does not accept the gateway's credential"
        ]


@each("denial", [Body(status=403, content_type=None), error(-32600, "No", "Access Denied")])
async def test_a_backends_403_is_a_failed_call_on_mcp_and_403_on_rest(it: Stand, denial: Body) -> None:
    it.backend.on("add", denial)
    ann = it.of("ann")
    for era in (MODERN, LEGACY[0]):
        assert (await ann.call(era, "add", TWO_AND_THREE)).result["isError"] is True
    for surface in ("rest", "tool"):
        answer = await ann.call(surface, "add", TWO_AND_THREE)
        assert answer.status == 403
        assert "WWW-Authenticate" not in answer.headers


@each("surface", CALLS)
async def test_a_token_that_cannot_be_exchanged_is_401_503_or_502_by_whose_fault_it_is(
    surface: str, endpoint: TokenEndpoint
) -> None:
    shared = "backend.listing.identity=shared"
    async with stand(*endpoint.knobs(*EXCHANGE, shared)) as it:
        endpoint.answer = lambda form: (400, {"error": "invalid_grant"})
        answer = await it.of("ann").call(surface, "add", TWO_AND_THREE)
        assert answer.status == 401
        assert challenge_of(answer)["error"] == "invalid_token"
        endpoint.answer = lambda form: (500, {})
        answer = await it.of("ann").call(surface, "add", TWO_AND_THREE)
        assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
        endpoint.answer = lambda form: (400, {"error": "invalid_target"})
        answer = await it.of("ann").call(surface, "add", TWO_AND_THREE)
        assert b"no credential for the backend" in answer.body
        assert it.backend.calls("add") == 0


async def test_a_backends_401_to_a_kept_token_fails_one_call_and_not_all_until_the_token_ends(
    endpoint: TokenEndpoint,
) -> None:
    async with stand(*endpoint.knobs(OWN)) as it:
        ann = it.of("ann")
        it.backend.on("add", Body(status=401, content_type=None))
        assert (await ann.call("rest", "add", TWO_AND_THREE)).status == 502
        it.backend.on("add", result({"sum": 5}))
        assert (await ann.call("rest", "add", TWO_AND_THREE)).status == 200
        assert it.shown("add") == [f"the-gateway.at-backend.{number}" for number in (1, 2, 3)]


async def test_calls_of_two_callers_at_once_are_made_in_the_name_of_each(it: Stand) -> None:
    clients = [it.of(f"user-{number}") for number in range(20)]
    calls = (client.call(CALLS[turn % len(CALLS)], "add", TWO_AND_THREE) for turn, client in enumerate(clients))
    assert {answer.status for answer in await asyncio.gather(*calls)} == {200}
    assert sorted(token or "" for token in it.shown("add")) == sorted(client.token or "" for client in clients)
