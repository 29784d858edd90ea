"""Each caller's own view of the backend (``backend.listing.identity: caller``): nothing that was fetched for one caller
is ever shown to another, on no surface and by no way. What takes a clock is in test_view_refreshes.py."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.authorization.issuer import ForgedIssuer
from tests.authorization.stand import (
    CALLS,
    LISTS,
    METADATA,
    RESOURCE,
    REST,
    Bearer,
    Stand,
    challenge_of,
    names,
    running,
    settings,
    stand,
    tools_in,
)
from tests.authorization.token_endpoint import TokenEndpoint
from tests.fault.behaviours import Body
from tests.fault.methods import ADD, ECHO, FAIL, VOID
from tests.protocol.official import MODERN

TWO_AND_THREE = {"a": 2, "b": 3}
LIST = "rpc.discover"


@pytest.fixture
async def it() -> AsyncIterator[Stand]:
    """Ann may add and echo, Bob may fail."""
    async with stand() as it:
        it.listings.shows("ann", ADD, ECHO)
        it.listings.shows("bob", FAIL)
        yield it


# --- to each its own --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("surface", LISTS)
async def test_each_caller_sees_what_the_backend_lists_to_it(it: Stand, surface: str) -> None:
    assert await names(it.of("ann"), surface) == ["add", "echo"]
    assert await names(it.of("bob"), surface) == ["fail"]
    assert await names(it.of("ann"), surface) == ["add", "echo"]
    assert [token is not None for token in it.shown(LIST)] == [True, True]


@pytest.mark.parametrize("surface", CALLS)
async def test_what_a_caller_does_not_see_it_cannot_call(it: Stand, surface: str) -> None:
    ann, bob = it.of("ann"), it.of("bob")
    await names(ann)
    before = len(it.backend.requests)
    refused = await bob.call(surface, "add", TWO_AND_THREE)
    unheard_of = await bob.call(surface, "no_such", TWO_AND_THREE)
    assert refused.status == unheard_of.status
    assert refused.body.replace(b"add", b"no_such") == unheard_of.body, "nothing tells that others have it"
    assert [sent.method for sent in it.backend.requests[before:]] == [LIST]
    assert (await ann.call(surface, "add", TWO_AND_THREE)).status == 200
    assert it.shown("add") == [ann.token]


async def test_what_a_caller_does_not_see_is_not_described_to_it(it: Stand) -> None:
    assert (await it.of("ann").get("/mcp/tools/describe?name=add")).status == 200
    assert (await it.of("bob").get("/mcp/tools/describe?name=add")).status == 404


@pytest.mark.parametrize("surface", LISTS)
async def test_a_cursor_is_its_callers_alone(surface: str) -> None:
    """It is bound to issuer and subject, as a session is: the caller's next token and another client go on with it."""
    refused = (400, "invalid_cursor") if surface == REST else (200, -32602)
    async with stand("catalog.page_size=1", "auth.anonymous=list") as it:
        it.listings.shows("ann", ADD, ECHO, FAIL)
        first = (await it.of("ann").list(surface)).json
        cursor = first.get("result", first)["nextCursor"]
        asked = len(it.shown(LIST))
        for stranger in (it.of("bob"), it.client()):
            assert (await stranger.list(surface, cursor)).fault == refused
        assert len(it.shown(LIST)) == asked, "and costs the backend nothing"
        assert list(tools_in(await it.of("ann", client_id="other").list(surface, cursor))) == ["echo"]
        assert list(tools_in(await it.of("ann").list(surface, cursor))) == ["echo"]


@pytest.mark.parametrize("surface", LISTS)
async def test_callers_without_a_token_share_their_cursors(surface: str) -> None:
    async with stand("catalog.page_size=1", "auth.anonymous=list") as it:
        first = (await it.client().list(surface)).json
        cursor = first.get("result", first)["nextCursor"]
        assert list(tools_in(await it.client().list(surface, cursor))) == ["echo"]
        assert "Invalid cursor" in (await it.of("ann").list(surface, cursor)).error["message"]


async def test_a_caller_follows_cursors_on_its_own_account() -> None:
    """Behind one address, whoever turns the pages for ever holds up nobody else."""
    async with stand("catalog.page_size=1", "limits.discovery=1/hour") as it:
        ann, bob = it.of("ann"), it.of("bob")
        cursors = [(await client.list(REST)).json["nextCursor"] for client in (ann, bob)]
        assert [(await ann.list(REST, cursors[0])).status for _ in range(11)] == [200] * 10 + [429]
        assert (await bob.list(REST, cursors[1])).status == 200


@pytest.mark.parametrize("surface", LISTS)
async def test_a_backend_that_fails_shows_nobody_what_another_saw(it: Stand, surface: str) -> None:
    ann = it.of("ann")
    assert await names(ann, surface) == ["add", "echo"]
    it.listings.broken = Body(status=500)
    answer = await it.of("bob").list(surface)
    assert (answer.status, "Retry-After" in answer.headers) == (503, True)
    assert await names(ann, surface) == ["add", "echo"]
    it.listings.broken = None


async def test_one_subject_of_two_issuers_is_two_callers(it: Stand) -> None:
    async with ForgedIssuer(RESOURCE) as other, running(settings(it.backend.url, [it.issuer, other])) as gateway:
        ann, namesake = (Bearer(it.session, gateway.port, issuer.sign(sub="ann")) for issuer in (it.issuer, other))
        it.listings.shows(namesake.token or "", VOID)
        assert await names(ann) == ["add", "echo"]
        assert await names(namesake) == ["void"]


@pytest.mark.parametrize("surface", LISTS)
async def test_two_clients_of_one_user_are_two_views(it: Stand, surface: str) -> None:
    """A backend may list by the client too, as Drupal does whose consumers have roles."""
    first, second = (it.of("ann", client_id=client) for client in ("first", "second"))
    it.listings.shows(second.token or "", VOID)
    assert await names(first, surface) == ["add", "echo"]
    assert await names(second, surface) == ["void"]
    assert (await second.call("jsonrpc", "add", TWO_AND_THREE)).json["error"]["code"] == -32601
    assert await names(first, surface) == ["add", "echo"]


async def test_a_view_outlives_a_token_and_not_its_scopes(it: Stand) -> None:
    """The next token of a caller finds the view of the last one, unless it grants something else."""
    for scope, fetches in (("read", 1), ("read", 1), ("write read", 2), ("read write", 2), ("", 3)):
        assert await names(it.of("ann", scope)) == ["add", "echo"]
        assert len(it.shown(LIST)) == fetches


async def test_callers_without_a_token_have_a_view_that_nobodys_token_was_shown_for() -> None:
    async with stand("auth.anonymous=list") as it:
        assert it.shown(LIST) == [None]
        it.listings.shows("ann", ADD)
        assert await names(it.client()) == ["add", "echo", "fail", "void"]
        assert await names(it.of("ann")) == ["add"]
        assert await names(it.client()) == ["add", "echo", "fail", "void"]
        assert len(it.shown(LIST)) == 2


# --- the backend refuses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("surface", LISTS)
async def test_a_token_that_the_backend_refuses_is_refused_here_with_a_challenge(it: Stand, surface: str) -> None:
    ann = it.of("ann")
    it.listings.refused[ann.token or ""] = 401
    answer = await ann.list(surface)
    assert answer.status == 401
    challenge = challenge_of(answer)
    assert (challenge["error"], challenge["resource_metadata"]) == ("invalid_token", METADATA)
    # A client comes back at once with another token, and must not hear the old verdict.
    assert await names(it.of("ann"), surface) == ["add", "echo"]
    assert await names(it.of("bob"), surface) == ["fail"]


@pytest.mark.parametrize("surface", CALLS)
async def test_a_call_whose_listing_is_refused_is_refused_as_the_listing_is(it: Stand, surface: str) -> None:
    it.listings.refused["ann"] = 401
    answer = await it.of("ann").call(surface, "add", TWO_AND_THREE)
    assert answer.status == 401
    assert challenge_of(answer)["error"] == "invalid_token"
    assert it.backend.calls("add") == 0


@pytest.mark.parametrize("surface", LISTS)
async def test_a_caller_whom_the_backend_lists_nothing_gets_403(it: Stand, surface: str) -> None:
    it.listings.refused["ann"] = 403
    answer = await it.of("ann").list(surface)
    assert answer.status == 403
    assert "WWW-Authenticate" not in answer.headers
    assert await names(it.of("bob"), surface) == ["fail"]


async def test_a_caller_who_was_refused_is_not_asked_for_again_and_again(it: Stand) -> None:
    ann = it.of("ann")
    it.listings.refused["ann"] = 403
    assert {(await ann.list(MODERN)).status for _ in range(5)} == {403}
    assert len(it.shown(LIST)) == 1


async def test_a_backend_that_lists_nothing_to_strangers_sends_them_for_a_token(it: Stand) -> None:
    it.listings.refused[""] = 401
    async with running(settings(it.backend.url, [it.issuer], "auth.anonymous=list")) as gateway:
        before = len(it.shown(LIST))
        for _ in range(50):
            answer = await Bearer(it.session, gateway.port, None).list(MODERN)
            assert answer.status == 401
            assert "error" not in challenge_of(answer)
        assert len(it.shown(LIST)) == before, "nobody asks again and again"


@pytest.mark.parametrize("surface", CALLS)
async def test_a_backend_that_asks_a_caller_without_a_token_who_it_is_sends_it_for_one(surface: str) -> None:
    async with stand("auth.anonymous=open-tools", "backend.listing.dialect=jsonrpc_mcp") as it:
        it.offers({"name": "echo", "annotations": {"auth": {"level": "optional"}}})
        it.backend.on("echo", Body(status=401, content_type=None))
        async with running(it.gateway.settings) as gateway:
            nobody = Bearer(it.session, gateway.port, None)
            answer = await nobody.call(surface, "echo")
        assert answer.status == 401
        assert challenge_of(answer) == {"resource_metadata": METADATA}
        assert it.shown("echo") == [None]


# --- one view for all -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("surface", LISTS)
async def test_a_shared_view_is_asked_for_without_anybodys_token(surface: str) -> None:
    async with stand("backend.listing.identity=shared") as it:
        it.listings.shows("ann", VOID)
        everything = ["add", "echo", "fail", "void"]
        assert await names(it.of("ann"), surface) == everything
        assert await names(it.of("bob"), surface) == everything
        assert it.shown(LIST) == [None]


async def test_calls_from_a_shared_view_show_the_callers_own_token() -> None:
    async with stand("backend.listing.identity=shared") as it:
        ann, bob = it.of("ann"), it.of("bob")
        for surface in CALLS:
            for caller in (ann, bob):
                assert (await caller.call(surface, "add", TWO_AND_THREE)).status == 200
        assert it.shown("add") == [ann.token, bob.token] * len(CALLS)
        assert it.shown(LIST) == [None]


async def test_a_shared_view_may_have_a_credential_of_its_own(endpoint: TokenEndpoint) -> None:
    own = ("backend.listing.identity=shared", "backend.listing.credentials.mode=client_credentials")
    async with stand(*endpoint.knobs(*own)) as it:
        ann = it.of("ann")
        assert len(await names(ann)) == 4
        assert (await ann.call(MODERN, "add", TWO_AND_THREE)).status == 200
        assert it.shown(LIST) == ["the-gateway.at-backend.1"]
        assert it.shown("add") == [ann.token]


# --- a reload ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("identity", ["caller", "shared"])
async def test_a_reload_that_hides_a_tool_takes_effect_at_once_for_everybody(identity: str) -> None:
    async with stand(f"backend.listing.identity={identity}") as it:
        ann, bob = it.of("ann"), it.of("bob")
        for caller in (ann, bob):
            assert "add" in await names(caller)
        await it.reload("catalog.exclude=[add]")
        for caller in (ann, bob):
            for surface in LISTS:
                assert await names(caller, surface) == ["echo", "fail", "void"]
            for surface in CALLS:
                await caller.call(surface, "add", TWO_AND_THREE)
        assert it.backend.calls("add") == 0


async def test_a_reload_that_hides_a_tool_hides_it_while_the_backend_is_down(it: Stand) -> None:
    ann = it.of("ann")
    assert await names(ann) == ["add", "echo"]
    it.listings.broken = Body(status=500)
    await it.reload("catalog.exclude=[add]")
    assert await names(ann) == ["echo"]
    assert (await ann.call(MODERN, "add", TWO_AND_THREE)).fault == (200, -32602)
    assert it.backend.calls("add") == 0


@pytest.mark.parametrize("surface", CALLS)
@pytest.mark.parametrize("tool", ["no_such_tool", "add"])
async def test_calls_with_tokens_of_many_scopes_list_no_more_often_than_their_caller_may(
    surface: str, tool: str
) -> None:
    """Each set of scopes is a view, which a call of any tool would list. They all count for the one caller."""
    async with stand("limits.discovery=5/minute") as it:
        it.listings.shows("ann", ADD, ECHO)
        it.listings.shows("bob", ADD)
        answers = [await it.of("ann", f"scope{number}").call(surface, tool, TWO_AND_THREE) for number in range(100)]
        assert len(it.shown(LIST)) <= 5
        assert [answer.status == 429 for answer in answers] == [False] * 5 + [True] * 95
        assert answers[-1].headers["Retry-After"]
        again = await it.of("ann", "scope0").call(surface, "add", TWO_AND_THREE)  # its view is there
        assert again.status == 200
        assert (await it.of("bob").call(surface, "add", TWO_AND_THREE)).status == 200
