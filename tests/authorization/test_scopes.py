"""Which scopes what takes, what is shown to whom, and how a client learns what it lacks (security.md §1.6; 2026-07-28,
authorization "Scope Challenge Handling")."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.authorization.issuer import ForgedIssuer
from tests.authorization.stand import (
    CALLS,
    LISTS,
    METADATA,
    PUBLIC,
    RESOURCE,
    Bearer,
    challenge_of,
    names,
    running,
    settings,
    stand,
    tools_in,
)
from tests.each import each
from tests.fault.behaviours import result
from tests.fault.methods import ADD, ECHO, FAIL, VOID
from tests.protocol.official import LEGACY, MODERN
from tests.protocol.talk import JSON, modern_headers, modern_request
from tests.tables import each_row

pytestmark = pytest.mark.usefixtures("both_servers")

TWO_AND_THREE: Final = {"a": 2, "b": 3}
EVERYTHING: Final = ["add", "echo", "fail", "void"]


def wants(*scopes: Any) -> dict[str, Any]:
    """The method ``add``, as an OpenRPC document lists it with scopes."""
    return ADD.listed() | {"x-scopes": list(scopes)}


# --- what is needed ---------------------------------------------------------------------------------------------


async def test_no_scope_is_needed_unless_somebody_says_so() -> None:
    async with stand() as it:
        ann = it.of("ann")
        for surface in LISTS:
            assert await names(ann, surface) == EVERYTHING
        for surface in CALLS:
            assert (await ann.call(surface, "add", TWO_AND_THREE)).status == 200


async def test_news_about_tools_take_the_scopes_for_listing() -> None:
    async with stand("auth.scopes.list=[tools.list]") as it:
        ann = it.of("ann", "other")
        listen = modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        modern = await ann.mcp(listen, modern_headers("subscriptions/listen"))
        listener = {"Accept": "text/event-stream", "MCP-Protocol-Version": LEGACY[0]}
        older = await ann.send("GET", "/mcp", None, listener)
        for answer in (modern, older):
            assert answer.status == 403
            assert challenge_of(answer)["scope"] == "tools.list"


@each("surface", LISTS)
async def test_listing_takes_the_scopes_for_listing(surface: str) -> None:
    async with stand("auth.scopes.list=[tools.list, tools.see]", "auth.scopes.call=[tools.call]") as it:
        answer = await it.of("ann", "tools.see tools.call").list(surface)
        assert answer.status == 403
        assert challenge_of(answer) == {
            "error": "insufficient_scope",
            "error_description": "The token lacks a scope",
            "scope": "tools.list tools.see",
            "resource_metadata": METADATA,
        }
        assert it.shown("rpc.discover") == []
        assert await names(it.of("ann", "tools.see tools.list tools.call"), surface) == EVERYTHING


@each("tool", ["add", "no_such"])
@each("path", ["/mcp/tools/{}", "/mcp/tools/describe?name={}"])
async def test_whether_there_is_a_tool_is_told_to_those_who_may_list(path: str, tool: str) -> None:
    """404 and 405 would tell it: that a tool is there, and that it is not marked read-only."""
    async with stand("auth.scopes.list=[tools.list]") as it:
        answer = await it.of("ann", "other").get(path.format(tool))
        assert (answer.status, challenge_of(answer)["scope"]) == (403, "tools.list")
        assert (await it.of("ann", "tools.list").get(path.format(tool))).status != 403


@each("surface", CALLS)
async def test_a_call_takes_the_scopes_for_calling_and_the_tools_own_and_is_told_all_of_them_at_once(
    surface: str,
) -> None:
    async with stand("auth.scopes.call=[tools.call]", "auth.scopes.list=[tools.list]") as it:
        it.listings.shows("ann", wants("write", "read"))
        for scope in ("", "tools.call", "tools.call read", "read write", "tools.list"):
            answer = await it.of("ann", scope).call(surface, "add", TWO_AND_THREE)
            assert answer.status == 403
            assert challenge_of(answer)["scope"] == "read tools.call write"
        assert it.backend.calls("add") == 0
        assert (await it.of("ann", "write tools.call read").call(surface, "add", TWO_AND_THREE)).status == 200


async def test_a_client_without_a_token_is_told_what_to_ask_for_to_begin_with() -> None:
    async with stand("auth.scopes.list=[tools.list]", "auth.scopes.call=[tools.call]") as it:
        answer = await it.client().list(MODERN)
        assert answer.status == 401
        assert challenge_of(answer) == {"scope": "tools.call tools.list", "resource_metadata": METADATA}
        document = (await it.client().get(METADATA.removeprefix(PUBLIC))).json
        assert document["scopes_supported"] == ["tools.call", "tools.list"]
        assert "resource_documentation" not in document


async def test_a_client_without_a_token_is_told_of_the_servers_page() -> None:
    async with stand("mcp.server.about.website_url=https://orders.example.com/help") as it:
        document = (await it.client().get(METADATA.removeprefix(PUBLIC))).json
        assert document["resource_documentation"] == "https://orders.example.com/help"


@each("surface", CALLS)
async def test_the_configuration_says_a_tools_scopes_in_place_of_the_backend(surface: str) -> None:
    async with stand('catalog.tools={"add": {scopes: [adder]}, "ec*": {scopes: []}}') as it:
        it.listings.shows("ann", wants("write"), ECHO.listed() | {"x-scopes": ["write"]})
        answer = await it.of("ann", "write").call(surface, "add", TWO_AND_THREE)
        assert (answer.status, challenge_of(answer)["scope"]) == (403, "adder")
        assert (await it.of("ann", "adder").call(surface, "add", TWO_AND_THREE)).status == 200
        assert (await it.of("ann").call(surface, "echo", {"value": 1})).status == 200


@each_row
async def test_the_backends_annotations_say_what_a_tool_takes(auth: dict[str, Any], needed: str) -> None:
    async with stand("backend.listing.dialect=jsonrpc_mcp") as it:
        it.offers({"name": "add", "annotations": {"auth": auth}})
        it.backend.on("add", result({"sum": 5}))
        answer = await it.of("ann", "other").call(MODERN, "add", TWO_AND_THREE)
        if needed:
            assert (answer.status, challenge_of(answer)["scope"]) == (403, needed)
            assert await names(it.of("ann", "other")) == []
        assert (await it.of("ann", needed).call(MODERN, "add", TWO_AND_THREE)).status == 200


async def test_a_broad_scope_stands_for_narrow_ones_through_any_number_of_steps() -> None:
    hierarchy = "auth.scopes.implies={admin: [write], write: [read, write], read: [see], see: [admin-not]}"
    async with stand(hierarchy, "auth.scopes.list=[see]") as it:
        it.listings.shows("ann", wants("read"))
        for scope in ("admin", "write", "read"):
            ann = it.of("ann", scope)
            assert await names(ann) == ["add"]
            assert (await ann.call(MODERN, "add", TWO_AND_THREE)).status == 200
        assert await names(it.of("ann", "see")) == []
        for scope in ("", "admin-not"):
            assert (await it.of("ann", scope).list(MODERN)).status == 403


async def test_scopes_that_imply_each_other_are_one() -> None:
    async with stand("auth.scopes.implies={a: [b], b: [a]}", "auth.scopes.list=[a, b]") as it:
        assert await names(it.of("ann", "b")) == EVERYTHING


# --- what is shown ----------------------------------------------------------------------------------------------


@each("identity", ["caller", "shared"])
@each("surface", LISTS)
async def test_a_list_shows_what_the_caller_may_call(surface: str, identity: str) -> None:
    scopes = 'catalog.tools={"add": {scopes: [write]}, "fail": {scopes: [write, fail]}}'
    async with stand(f"backend.listing.identity={identity}", scopes) as it:
        for scope, seen in (
            ("", ["echo", "void"]),
            ("write", ["add", "echo", "void"]),
            ("fail", ["echo", "void"]),
            ("write fail", EVERYTHING),
        ):
            assert await names(it.of("ann", scope), surface) == seen


@each("surface", LISTS)
async def test_pages_are_of_what_the_caller_may_call(surface: str) -> None:
    knobs = ("catalog.page_size=1", "backend.listing.identity=shared")
    async with stand(*knobs, "catalog.tools.echo.scopes=[write]") as it:
        first = (await it.of("ann", "write").list(surface)).json
        cursor = first.get("result", first)["nextCursor"]
        assert list(tools_in(await it.of("ann", "write").list(surface, cursor))) == ["echo"]
        assert list(tools_in(await it.of("ann").list(surface, cursor))) == ["fail"]


async def test_a_tool_that_is_not_shown_can_be_stepped_up_to() -> None:
    """The answer is not 404: a client that knows the name learns what it takes."""
    async with stand("catalog.tools.add.scopes=[write]") as it:
        answer = await it.of("ann").get("/mcp/tools/describe?name=add")
        assert (answer.status, challenge_of(answer)["scope"]) == (403, "write")
        assert (await it.of("ann", "write").get("/mcp/tools/describe?name=add")).status == 200


@each("identity", ["caller", "shared"])
async def test_lists_are_private_to_their_caller(identity: str) -> None:
    async with stand(f"backend.listing.identity={identity}") as it:
        answer = await it.of("ann").list(MODERN)
        assert answer.result["cacheScope"] == "private"
        for surface in LISTS:
            assert (await it.of("ann").list(surface)).headers["Cache-Control"] == "no-store"
        async with running(settings(it.backend.url, [], "auth.mode=off")) as gateway:
            public = await Bearer(it.session, gateway.port, None).list(MODERN)
            assert public.result["cacheScope"] == "public"


async def test_lists_are_private_where_some_callers_show_no_token() -> None:
    async with stand("auth.anonymous=list") as it:
        assert (await it.client().list(MODERN)).result["cacheScope"] == "private"


@each("era", [MODERN, LEGACY[0]])
async def test_a_refusal_comes_before_the_first_byte_of_a_stream(era: str) -> None:
    async with stand("catalog.tools.add.scopes=[write]") as it:
        params = {"name": "add", "arguments": TWO_AND_THREE, "_meta": {"progressToken": "p"}}
        if era == MODERN:
            answer = await it.of("ann").mcp(modern_request("tools/call", params), modern_headers("tools/call", "add"))
        else:
            answer = await it.of("ann").legacy("tools/call", params)
        assert (answer.status, challenge_of(answer)["scope"]) == (403, "write")
        assert JSON["Content-Type"] == answer.headers["Content-Type"].partition(";")[0]


# --- issuers ----------------------------------------------------------------------------------------------------


async def test_a_scope_has_a_prefix_where_the_issuer_wants_one() -> None:
    async with stand() as it:
        named = f"[{{issuer: '{it.issuer.issuer}', preset: cognito, clients: [client]}}]"
        made = settings(it.backend.url, [], f"auth.issuers={named}", "auth.scopes.list=[tools.list]")
        async with running(made) as gateway:

            def of(scope: str) -> Bearer:
                return Bearer(it.session, gateway.port, it.issuer.sign(scope=scope, token_use="access"))

            assert challenge_of(await of("").list(MODERN))["scope"] == f"{RESOURCE}/tools.list"
            for scope in ("tools.list", f"{RESOURCE}/tools.list"):
                assert await names(of(scope)) == EVERYTHING
            assert (await of("api://other/tools.list").list(MODERN)).status == 403


async def test_each_issuers_clients_learn_how_their_issuer_spells_a_scope() -> None:
    async with stand() as it, ForgedIssuer(RESOURCE) as other:
        prefixed = f"{{issuer: '{other.issuer}', preset: cognito, clients: [client]}}"
        named = f"[{{issuer: '{it.issuer.issuer}'}}, {prefixed}]"
        made = settings(it.backend.url, [], f"auth.issuers={named}", "auth.scopes.list=[see]")
        async with running(made) as gateway:
            nobody = Bearer(it.session, gateway.port, None)
            assert challenge_of(await nobody.list(MODERN))["scope"] == f"{RESOURCE}/see see"
            others = (other.sign(scope=scope, token_use="access") for scope in ("see", f"{RESOURCE}/see"))
            for token in (it.issuer.sign(scope="see"), *others):
                assert await names(Bearer(it.session, gateway.port, token)) == EVERYTHING
            whole = Bearer(it.session, gateway.port, it.issuer.sign(scope=f"{RESOURCE}/see"))
            assert (await whole.list(MODERN)).status == 403, "one issuer's spelling is not another's"


# --- scopes that are none ---------------------------------------------------------------------------------------

MALFORMED: Final = ('a", evil="1', "a\r\nSet-Cookie: x=1", "a b", "a\\", "ä", "\x00", "", 7, None, {"a": 1}, ["a"])


@each("surface", CALLS)
async def test_what_is_no_scope_gets_into_no_header_and_opens_nothing(surface: str) -> None:
    async with stand() as it:
        it.listings.shows("ann", wants("good", *MALFORMED), VOID)
        answer = await it.of("ann", "good a b").call(surface, "add", TWO_AND_THREE)
        assert answer.status == 403
        assert challenge_of(answer)["scope"] == "good"
        assert "Set-Cookie" not in answer.headers
        assert it.backend.calls("add") == 0
        assert await names(it.of("ann", "good a b")) == ["void"]


@each("surface", CALLS)
async def test_more_scopes_than_a_header_holds_are_a_short_refusal(surface: str) -> None:
    async with stand() as it:
        it.listings.shows("ann", wants(*(f"scope-{number}" for number in range(5000))))
        answer = await it.of("ann").call(surface, "add", TWO_AND_THREE)
        assert answer.status == 403
        assert challenge_of(answer)["error"] == "insufficient_scope"
        assert len(answer.headers["WWW-Authenticate"]) < 5000
        assert len(answer.body) < 5000


async def test_one_method_with_strange_scopes_leaves_the_others_alone() -> None:
    async with stand() as it:
        strange = ("write", 7, {"a": 1}, [[]], None, [None])
        it.listings.shows(
            "ann", FAIL, *(ADD.listed() | {"name": f"m{n}", "x-scopes": s} for n, s in enumerate(strange))
        )
        assert await names(it.of("ann")) == ["fail", "m0", "m1", "m2", "m3", "m4", "m5"]
