"""A group is a protected resource of its own, and each of its services decides about each call, too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from gateway.auth.api_keys import digest_of, new_key
from gateway.config.key_file import add_key, revoke_keys
from gateway.settings.auth import ApiKey
from tests.authorization.issuer import ForgedIssuer
from tests.authorization.stand import CALLS, LISTS, PUBLIC, REST, Bearer, Listings, bearer_of, challenge_of, names
from tests.authorization.token_endpoint import TokenEndpoint
from tests.each import each
from tests.fault.methods import ADD, ECHO
from tests.protocol.grouped import Grouped, grouped
from tests.protocol.official import LEGACY, MODERN
from tests.protocol.talk import legacy_headers, request

RESOURCE: Final = f"{PUBLIC}/all/mcp"
METADATA: Final = "/.well-known/oauth-protected-resource"
TWO_AND_THREE: Final = {"a": 2, "b": 3}
NONE: Final = ("services.crm.backend.credentials.mode=none", "services.shop.backend.credentials.mode=none")
BOTH: Final = {"crm": [ADD, ECHO], "shop": [ADD]}


@asynccontextmanager
async def gated(*knobs: str, more: tuple[str, ...] = NONE) -> AsyncIterator[tuple[Grouped, ForgedIssuer]]:
    """A group of services that ask for tokens of one issuer."""
    async with ForgedIssuer(RESOURCE) as issuer:
        named = f"auth.issuers=[{{issuer: '{issuer.issuer}'}}]"
        async with grouped(f"server.public_url={PUBLIC}", named, *more, *knobs, services=BOTH) as it:
            yield it, issuer


def of(it: Grouped, issuer: ForgedIssuer, scope: str = "", subject: str = "ann", **claims: object) -> Bearer:
    extra = {"scope": scope} if scope else {}
    return it.client(issuer.sign(sub=subject, **extra, **claims))


# --- the resource ---------------------


async def test_a_group_has_metadata_of_its_own_and_challenges_with_it() -> None:
    scopes = ("services.crm.auth.scopes={list: [crm.read]}", "services.shop.catalog.tools={add: {scopes: [shop.add]}}")
    async with gated(*scopes) as (it, issuer):
        root = Bearer(it.session, it.gateway.port, None)
        document = (await root.get(f"{METADATA}/all/mcp")).json
        assert (document["resource"], document["authorization_servers"]) == (RESOURCE, [issuer.issuer])
        assert document["scopes_supported"] == ["crm.read", "shop.add"]
        assert (await root.get(f"{METADATA}/crm/mcp")).json["resource"] == f"{PUBLIC}/crm/mcp"
        refused = await it.client().list(MODERN)
        assert refused.status == 401
        assert challenge_of(refused)["resource_metadata"] == f"{PUBLIC}{METADATA}/all/mcp"


async def test_a_token_is_good_at_its_own_resource_alone() -> None:
    async with gated() as (it, issuer):
        for place in ("all", "crm", "shop"):
            token = issuer.sign(aud=f"{PUBLIC}/{place}/mcp")
            for at in ("all", "crm", "shop"):
                assert (await it.client(token, at).list(REST)).status == (200 if at == place else 401)


# --- scopes of the group, and then those of the service ---------------------


@each("surface", CALLS)
async def test_a_call_needs_the_scopes_of_the_group_of_the_service_and_of_the_tool(surface: str) -> None:
    knobs = ("groups.all.auth.scopes={call: [enter]}", "services.crm.auth.scopes={call: [crm]}",
             "services.crm.catalog.tools={add: {scopes: [add]}}")  # fmt: skip
    async with gated(*knobs) as (it, issuer):
        for scope in ("", "enter", "enter crm", "crm add", "enter add"):
            refused = await of(it, issuer, scope).call(surface, "crm.add", TWO_AND_THREE)
            assert refused.status == 403
            assert challenge_of(refused)["scope"] == "add crm enter"
        assert it.backends["crm"].calls("add") == 0
        assert (await of(it, issuer, "enter crm add").call(surface, "crm.add", TWO_AND_THREE)).status == 200
        assert (await of(it, issuer, "enter").call(surface, "shop.add", TWO_AND_THREE)).status == 200


@each("surface", LISTS)
async def test_a_list_has_what_the_caller_may_list_and_call_of_each_service(surface: str) -> None:
    knobs = (
        "services.crm.auth.scopes={list: [see], call: [crm]}",
        "services.crm.catalog.tools={echo: {scopes: [echo]}}",
    )
    async with gated(*knobs) as (it, issuer):
        shown = {
            "": ["shop.add"], "see": ["shop.add"], "crm": ["shop.add"], "see crm": ["crm.add", "shop.add"],
            "see crm echo": ["crm.add", "crm.echo", "shop.add"],
        }  # fmt: skip
        for scope, tools in shown.items():
            found = await names(of(it, issuer, scope), surface)
            assert found == (tools if surface == REST else [name.replace(".", "_") for name in tools])


async def test_who_may_list_no_service_is_told_which_scope_a_list_takes() -> None:
    async with gated(*(f"services.{name}.auth.scopes={{list: [see]}}" for name in BOTH)) as (it, issuer):
        refused = await of(it, issuer).list(MODERN)
        assert (refused.status, challenge_of(refused)["scope"]) == (403, "see")
        assert await names(of(it, issuer, "see")) == ["crm_add", "crm_echo", "shop_add"]


async def test_a_tool_is_described_to_those_who_may_list_its_service() -> None:
    async with gated("services.crm.auth.scopes={list: [see]}") as (it, issuer):
        path = "/mcp/tools/describe?name=crm.add"
        assert (await of(it, issuer).get(path)).status == 403
        assert (await of(it, issuer, "see").get(path)).json["tool"]["name"] == "crm.add"


async def test_the_page_tells_nothing_of_a_service_that_the_caller_may_not_list() -> None:
    tools = "services.crm.catalog.tools={add: {scopes: [crm.add]}}"
    async with gated("services.crm.auth.scopes={list: [see]}", tools, "server.page=token") as (it, issuer):
        for scope in ("", "see"):
            page = (await of(it, issuer, scope).get("/page")).body.decode()
            assert ("crm.add" in page) is (scope == "see")


async def test_search_finds_what_the_caller_may_list_and_calls_what_it_may_call() -> None:
    knobs = ("groups.all.catalog.search=true", "services.crm.auth.scopes={list: [see], call: [crm]}")
    async with gated(*knobs) as (it, issuer):
        for scope, found in (("", ["shop_add"]), ("see crm", ["crm_add", "shop_add"])):
            ann = of(it, issuer, scope)
            result = (await ann.call(MODERN, "search_tools", {"query": "add two numbers"})).result
            assert sorted(tool["name"] for tool in result["structuredContent"]["tools"]) == found
            call = await ann.call(MODERN, "call_tool", {"name": "crm_add", "arguments": TWO_AND_THREE})
            assert call.status == (200 if scope else 403)


async def test_anybody_lists_where_the_group_and_the_service_let_anybody() -> None:
    async with gated("services.crm.auth.anonymous=list", "services.shop.auth.anonymous=list") as (it, _):
        assert (await it.client().list(REST)).status == 401
    async with gated("auth.anonymous=list") as (it, _):
        assert await names(it.client(), REST) == ["crm.add", "crm.echo", "shop.add"]
        assert (await it.client().call(REST, "crm.add", TWO_AND_THREE)).status == 401


# --- what a service is shown, and whose list it is ---------------------


async def test_each_service_is_told_its_own_claims_and_no_other() -> None:
    knobs = ("services.crm.backend.caller_headers={X-User: '{sub}', X-Mail: '{claims.email}'}",
             "services.shop.backend.caller_headers={X-Team: '{claims.team}'}")  # fmt: skip
    async with gated(*knobs) as (it, issuer):
        ann = of(it, issuer, email="ann@example.com", team="red")
        for tool in ("crm.add", "shop.add"):
            assert (await ann.call(REST, tool, TWO_AND_THREE)).status == 200
        sent = {name: next(one.headers for one in backend.requests if one.method == "add")
                for name, backend in it.backends.items()}  # fmt: skip
        told = {
            name: {key: headers.get(key) for key in ("X-User", "X-Mail", "X-Team")} for name, headers in sent.items()
        }
        assert told == {
            "crm": {"X-User": "ann", "X-Mail": "ann@example.com", "X-Team": None},
            "shop": {"X-User": None, "X-Mail": None, "X-Team": "red"},
        }


async def test_what_one_service_is_told_takes_no_room_of_another() -> None:
    """At the group a service hears of a caller what it hears at its own address."""
    knobs = ("services.crm.backend.caller_headers={X-Notes: '{claims.notes}'}",
             "services.shop.backend.caller_headers={X-Team: '{claims.team}'}")  # fmt: skip
    async with gated(*knobs) as (it, issuer):
        for at, tool in (("all", "shop.add"), ("shop", "add")):
            token = issuer.sign(sub="ann", notes="n" * 1000, team="t" * 1000, aud=f"{PUBLIC}/{at}/mcp")
            assert (await it.client(token, at).call(REST, tool, TWO_AND_THREE)).status == 200
        told = [sent.headers.get("X-Team") for sent in it.backends["shop"].requests if sent.method == "add"]
        assert told == ["t" * 1000] * 2


async def test_a_service_that_lists_for_each_caller_does_so_in_a_group(endpoint: TokenEndpoint) -> None:
    """The group's token is exchanged for one of the service, which lists by it."""
    exchange = (
        f"services.crm.backend.credentials={{mode: token_exchange, client_id: gw, client_secret: s3cret, audience: b, "
        f"token_endpoint: '{endpoint.url}'}}", NONE[1],
    )  # fmt: skip
    async with gated(more=exchange) as (it, issuer):
        tokens = {name: issuer.sign(sub=name) for name in ("ann", "bob")}
        listings = Listings([])
        it.backends["crm"].on("rpc.discover", listings)
        endpoint.answer = lambda form: (200, endpoint.grant(form, access_token=whom(form["subject_token"], tokens)))
        listings.shows("for-ann", ADD)
        listings.shows("for-bob", ECHO)
        assert await names(it.client(tokens["ann"])) == ["crm_add", "shop_add"]
        assert await names(it.client(tokens["bob"])) == ["crm_echo", "shop_add"]
        assert await names(it.client(tokens["ann"])) == ["crm_add", "shop_add"]
        assert (await it.client(tokens["bob"]).call(REST, "crm.add", TWO_AND_THREE)).status == 404
        assert (await it.client(tokens["ann"]).call(REST, "crm.add", TWO_AND_THREE)).status == 200
        shown = {bearer_of(sent) for sent in it.backends["crm"].requests if sent.method == "add"}
        assert shown == {"for-ann"}
        assert {bearer_of(sent) for sent in it.backends["shop"].requests} == {None}


def whom(token: str, tokens: dict[str, str]) -> str:
    return next(f"for-{name}" for name, one in tokens.items() if one == token)


# --- keys ---------------------


async def test_a_key_opens_the_group_and_its_services_and_ends_everywhere(tmp_path: Path) -> None:
    key, file = new_key(), tmp_path / "keys.yaml"
    add_key(file, ApiKey(name="ann", sha256=digest_of(key)))
    async with grouped("auth.mode=keys", f"auth.keys.file={file}", services=BOTH) as it:
        for at in ("all", "crm", "shop"):
            assert (await it.client(key, at).list(REST)).status == 200
        refused = await it.client(new_key()).list(MODERN)
        assert (refused.status, "resource_metadata" in refused.headers["WWW-Authenticate"]) == (401, False)
        headers = {"Authorization": f"Bearer {key}", **legacy_headers(LEGACY[0])}
        async with it.client(key).stream(headers=headers) as stream:
            await stream.comment()
            revoke_keys(file, "ann")
            await it.gateway.reload(it.gateway.settings)
            assert await stream.rest() == []
        for at in ("all", "crm", "shop"):
            assert (await it.client(key, at).list(REST)).status == 401
        assert all(key not in str(sent) for backend in it.backends.values() for sent in backend.requests)


async def test_a_session_and_a_cursor_belong_to_a_caller_of_the_group() -> None:
    async with gated("catalog.page_size=1") as (it, issuer):
        ann, bob = of(it, issuer), of(it, issuer, subject="bob")
        session = await ann.initialize()
        headers = legacy_headers(LEGACY[0], session)
        assert (await ann.mcp(request("tools/list"), headers)).status == 200
        assert (await bob.mcp(request("tools/list"), headers)).status == 404
        cursor = (await ann.list(MODERN)).result["nextCursor"]
        assert (await ann.list(MODERN, cursor)).status == 200
        assert (await bob.list(MODERN, cursor)).fault == (200, -32602)


async def test_a_reload_that_admits_other_callers_ends_the_streams_of_the_group() -> None:
    async with gated() as (it, issuer):
        token = issuer.sign()
        async with it.client(token).listen({"toolsListChanged": True}) as stream:
            assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
            await it.reload("auth.scopes={call: [more]}")
            assert (await stream.rest())[-1]["result"]["resultType"] == "complete"
