"""The pages where callers have tokens: whose tools are on them, and `Who am I`."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from tests.authorization.stand import PUBLIC, RESOURCE, stand
from tests.fault.methods import ADD, ECHO
from tests.protocol.test_pages import plain, tools_on, words

pytestmark = pytest.mark.usefixtures("both_servers")


async def test_the_curl_line_is_quoted_for_any_arguments_and_leaves_the_token_to_the_shell() -> None:
    async with stand("server.page=public") as it:
        value = "' $(date) 'Authorization: Bearer $TOKEN'"
        line = (await it.of("ann").post("/page/echo", {"arguments": {"value": value}})).json["curl"]
    environ, count = {"TOKEN": "shown"}, 'curl() { printf "%s\\0" "$@"; }\n'
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", count + line, stdout=asyncio.subprocess.PIPE, env=environ
    )
    words = (await process.communicate())[0].decode().split("\0")
    assert "Authorization: Bearer shown" in words
    assert json.loads(words[words.index("-d") + 1])["params"]["arguments"] == {"value": value}


async def test_pages_of_strangers_count_too_where_tools_are_for_callers_with_a_token() -> None:
    async with stand("server.page=public", "limits.discovery=2/day") as it:
        assert [(await it.client().get(path)).status for path in ("/", "/page/add", "/page")] == [200, 404, 429]
        assert (await it.of("ann").get("/")).status == 200


async def test_pages_with_a_bad_token_count_for_their_address() -> None:
    for mode in ("public", "token"):
        async with stand(f"server.page={mode}", "limits.discovery=2/day") as it:
            stranger = it.client("rubbish")
            assert [(await stranger.get(path)).status for path in ("/", "/page/add", "/page")] == [401, 401, 429]
            assert (await it.of("ann").get("/")).status == 200


async def test_a_page_for_those_with_a_token_tells_others_nothing_of_what_is_wanted() -> None:
    for mode, is_told in (("public", True), ("token", False)):
        async with stand(f"server.page={mode}", "auth.scopes.call=[secret-scope]") as it:
            page = await it.client(it.issuer.sign(sub="ann", aud="https://elsewhere.example")).get("/page")
            assert page.status == 401
            assert "elsewhere.example" in words(page)
            assert [text in words(page) for text in (RESOURCE, "secret-scope")] == [is_told, is_told]


async def test_who_am_i_counts_the_tools_that_a_scope_for_all_calls_would_bring_and_says_what_a_listing_needs() -> None:
    async with stand("server.page=public", "auth.scopes.call=[caller]", "auth.scopes.list=[lister]") as it:
        me = plain(await it.of("ann", "lister").get("/page"))
        assert re.search(r"caller: \d tools ask for it", me)
        none = plain(await it.of("ann").get("/page"))
        assert "lister" in none.partition("What more scopes would bring")[2]
        assert "Nothing: this token may call" not in none


async def test_claims_are_text() -> None:
    async with stand("server.page=public") as it:
        shout = "<img src=x onerror=alert(1)>"
        accepted, refused = it.of(shout), it.client(it.issuer.sign(sub="ann", aud=f"{shout}\u202e"))
        for page in (words(await accepted.get("/page")), words(await refused.get("/page"))):
            assert "&lt;img src=x onerror=alert(1)&gt;" in page
            assert "<img" not in page
            assert "\u202e" not in page


async def test_without_a_token_a_service_that_wants_one_shows_no_tool() -> None:
    async with stand("server.page=public") as it:
        answer = await it.client().get("/")
        assert (answer.status, tools_on(answer)) == (200, [])
        assert "shown to callers with a token" in words(answer)
        assert (await it.client().get("/page/add")).status == 404
        refused = await it.client().post("/page/add", {"arguments": {}})
        assert (refused.status, "add" in refused.body.decode()) == (401, False)
        assert it.shown("rpc.discover") == []


async def test_each_caller_sees_the_tools_that_their_list_has() -> None:
    async with stand("server.page=public") as it:
        it.listings.shows("ann", ADD)
        it.listings.shows("bob", ECHO)
        ann, bob = it.of("ann"), it.of("bob")
        assert (tools_on(await ann.get("/")), tools_on(await bob.get("/"))) == (["add"], ["echo"])
        assert (await ann.get("/page/add")).status == 200
        stranger = await bob.get("/page/add")
        assert stranger.status == 404
        assert b"a number" not in stranger.body
        assert (await bob.post("/page/add", {"arguments": {"a": 1, "b": 1}})).status == 404


async def test_a_tool_beyond_the_scopes_of_a_token_is_not_shown_and_the_refusal_names_the_scope() -> None:
    async with stand("server.page=public", "catalog.tools={add: {scopes: [adder]}}") as it:
        plain, adder = it.of("ann"), it.of("ann", "adder")
        assert "add" not in tools_on(await plain.get("/"))
        assert "add" in tools_on(await adder.get("/"))
        refused = await plain.post("/page/add", {"arguments": {"a": 1, "b": 1}})
        assert refused.status == 403
        assert 'scope="adder"' in refused.headers["WWW-Authenticate"]
        me = words(await plain.get("/page"))
        assert "You are" in me
        assert "adder" in me
        assert "add</" not in me


async def test_who_am_i_names_the_tools_of_a_further_scope_that_the_caller_sees() -> None:
    scopes = "catalog.tools={add: {scopes: [adder]}}"
    async with stand("server.page=public", "auth.scopes.show=all", scopes) as it:
        assert "adder: 1 tool asks for it, of these you see add" in plain(await it.of("ann").get("/page"))
    async with stand("server.page=public", scopes) as it:
        assert "adder: 1 tool asks for it" in (me := plain(await it.of("ann").get("/page")))
        assert "you see" not in me


async def test_a_refused_token_is_told_why() -> None:
    async with stand("server.page=public") as it:
        answer = await it.client(it.issuer.sign(sub="ann", aud="https://other.example.com")).get("/page")
        assert answer.status == 401
        assert "Not accepted" in words(answer)
        assert "https://other.example.com" in words(answer)
        assert RESOURCE in words(answer)


async def test_in_token_mode_there_is_no_name_until_a_token_is_accepted() -> None:
    async with stand("server.page=token", "auth.anonymous=list", "mcp.server.name=bookshop") as it:
        shells = [await it.client().get(path) for path in ("/", "/page", "/page/add", "/page/none")]
        assert {shell.status for shell in shells} == {200}
        assert len({re.sub(r"(\.\./|\./)static", "static", words(shell)) for shell in shells}) == 1
        assert not any(word in words(shells[0]) for word in ("bookshop", PUBLIC, "add"))
        refused = await it.client("rubbish").get("/")
        assert refused.status == 401
        assert "bookshop" not in words(refused)
        assert "add" in tools_on(await it.of("ann").get("/"))
