"""The pages as people use them: with keys alone, in both themes, narrow and wide, and with a hostile service behind."""

from __future__ import annotations

import pytest

from tests.authorization.stand import stand
from tests.fault.methods import ADD, ECHO
from tests.page import browse
from tests.page.shop import HOSTILE, bookshop, hostile, listing, many

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("path", ["/", "/?q=book", "/page/books.search", "/page/none"])
async def test_axe_finds_nothing_on_a_page_in_both_themes_at_three_widths(path: str) -> None:
    async with bookshop("catalog.exclude=[orders.*]") as shop:
        assert await browse("axe", urls=[f"{shop.url}{path}"]) == []


async def test_axe_finds_nothing_on_the_admin_page() -> None:
    async with bookshop("catalog.exclude=[orders.*]") as shop:
        assert await browse("axe", urls=[f"{shop.admin}/"]) == []


async def test_axe_finds_nothing_on_a_tool_whose_texts_are_hostile() -> None:
    async with listing(hostile()) as shop:
        assert await browse("axe", urls=[f"{shop.url}/page/books.get"]) == []


@pytest.mark.parametrize(("mode", "path"), [("token", ""), ("public", ""), ("public", "page")])
async def test_axe_finds_nothing_on_the_pages_about_tokens(mode: str, path: str) -> None:
    async with stand(f"server.page={mode}") as it:
        assert await browse("axe", urls=[f"http://127.0.0.1:{it.gateway.port}/{path}"]) == []


async def test_axe_finds_nothing_on_what_a_token_shows() -> None:
    async with stand("server.page=public") as it:
        url, token = f"http://127.0.0.1:{it.gateway.port}/", it.issuer.sign(sub="ann")
        assert await browse("axe", urls=[url, f"{url}page"], token=token) == []
        assert await browse("axe", urls=[url], token=token, then='a[href$="page/add"]') == []


async def test_axe_finds_nothing_on_the_page_that_leads_to_several_services() -> None:
    async with bookshop("server.page=public", name="shop") as shop:
        assert await browse("axe", urls=[f"{shop.url}/", f"{shop.url}/shop/"]) == []


async def test_keys_alone_lead_from_the_page_to_a_right_call() -> None:
    async with bookshop() as shop:
        found = await browse("keyboard", url=f"{shop.url}/", tool="books.search", argument="query", value="sea")
    assert "Twenty Thousand Leagues Under the Sea" in found["answer"]
    assert '"method": "books.search"' in found["sent"]
    assert found["curl"].startswith("curl -s http://127.0.0.1:")
    assert found["faults"] == []


async def test_nothing_is_cut_off_at_200_percent_and_nothing_moves_where_people_ask_for_it() -> None:
    async with bookshop() as shop:
        for path in ("/", "/page/books.search"):
            assert await browse("zoom", url=f"{shop.url}{path}") <= 0
            assert await browse("motion", url=f"{shop.url}{path}") == []


@pytest.mark.parametrize("path", ["/", "/page/books.get", "/page/large", "/page/none"])
async def test_a_hostile_listing_leaves_no_node_of_its_own(path: str) -> None:
    async with listing(hostile()) as shop:
        found = await browse("read", url=f"{shop.url}{path}", selector="body")
        assert (found["strangers"], found["hosts"]) == (0, [shop.url])
        assert found["faults"] == [] or path == "/page/none"  # whose 404 the console notes
        assert "\u202e" not in found["text"]
        assert "\u200b" not in found["text"]
        if path == "/page/books.get":
            assert HOSTILE.partition("\u202e")[0] in found["text"]


async def test_a_hostile_listing_is_text_on_the_admin_page_and_in_answers_too() -> None:
    async with listing(hostile()) as shop:
        admin = await browse("read", url=f"{shop.admin}/", selector="body")
        assert (admin["strangers"], admin["faults"], admin["hosts"]) == (0, [], [shop.admin])
        called = await browse("call", url=f"{shop.url}/page/books.get", arguments={"plain": "</pre><img src=x>"})
        assert called["faults"] == []


async def test_thousands_of_tools_come_in_pages_of_200() -> None:
    async with listing(many()) as shop:
        first = await browse("read", url=f"{shop.url}/", selector=".tools a")
        assert len(first["text"].splitlines()) == 200
        last = await browse("read", url=f"{shop.url}/?page=25", selector=".tools a, .pages")
        assert "Page 25 of 25" in last["text"]
        assert last["text"].count("method") == 200
        found = await browse("read", url=f"{shop.url}/?q=number+4711", selector=".tools a")
        assert found["text"].splitlines()[0] == "rooms.method4711"


async def test_a_destructive_tool_asks_before_it_is_called() -> None:
    async with bookshop("catalog.tools={orders.create: {annotations: {destructiveHint: true}}}") as shop:
        url = f"{shop.url}/page/orders.create"
        found = await browse("call", url=url, arguments={"isbn": "9780142437247"})
        assert found["dialogs"] == ["This tool may destroy something. Call it?"]
        assert found["answer"] == "Not called."
        bad = await browse("call", url=url, arguments={"isbn": 1})
        assert "Nothing was sent" in bad["answer"]
        checked = await browse("call", url=url, arguments={"isbn": "9780142437247"}, button="Check only")
        assert (checked["dialogs"], checked["answer"]) == ([], "These arguments are good. Nothing was sent.")


async def test_a_tool_that_needs_consent_asks_for_it() -> None:
    async with bookshop("catalog.tools={orders.create: {confirm: true}}") as shop:
        url, order = f"{shop.url}/page/orders.create", {"isbn": "9780142437247"}
        declined = await browse("call", url=url, arguments=order)
        (asked,) = declined["dialogs"]
        assert asked.endswith('With these arguments:\nisbn: "9780142437247"')
        assert "did not agree" in declined["answer"]
        agreed = await browse("call", url=url, arguments=order, agrees=True)
        assert '"order": 1' in agreed["answer"]


async def test_a_token_shows_its_callers_tools_and_stays_in_the_tab() -> None:
    async with stand("server.page=public") as it:
        it.listings.shows("ann", ADD)
        it.listings.shows("bob", ECHO)
        url = f"http://127.0.0.1:{it.gateway.port}/"
        nobody = await browse("read", url=url, selector="#tools")
        assert "add" not in nobody["text"]
        assert "echo" not in nobody["text"]
        ann = it.issuer.sign(sub="ann")
        shown = await browse("read", url=url, selector="#tools", token=ann)
        assert "add" in shown["text"]
        assert "echo" not in shown["text"]
        assert (shown["kept"], shown["cookies"], shown["faults"]) == ("0,0,", [], [])
        assert ann not in shown["address"]
        inside = await browse("read", url=url, token=ann, then='a[href$="page/add"]')
        assert inside["address"] == f"{url}page/add"
        assert "As the model reads it" in inside["text"]


async def test_a_call_with_a_token_shows_the_answer_and_a_refusal_names_the_scope() -> None:
    async with stand("server.page=public", "catalog.tools={add: {scopes: [adder]}}", "auth.scopes.show=all") as it:
        url = f"http://127.0.0.1:{it.gateway.port}/"
        plain, adder = (it.issuer.sign(sub="ann", **extra) for extra in ({}, {"scope": "adder"}))
        values = {"a": 1, "b": 2}
        good = await browse("call", url=url, token=adder, arguments=values, then='a[href$="page/add"]')
        assert '"sum": 3' in good["answer"]
        refused = await browse("call", url=url, token=plain, arguments=values, then='a[href$="page/add"]')
        assert "It needs a token with: adder" in refused["answer"]


async def test_in_token_mode_the_page_comes_with_the_token() -> None:
    async with stand("server.page=token") as it:
        it.listings.shows("ann", ADD)
        url = f"http://127.0.0.1:{it.gateway.port}/"
        shown = await browse("read", url=url, selector="body", token=it.issuer.sign(sub="ann"))
        assert "add" in shown["text"]
        refused = await browse("read", url=url, selector="body", token="rubbish")
        assert "Not accepted" in refused["text"]
        assert "add" not in refused["text"]


async def test_the_buttons_of_the_admin_page_work() -> None:
    async with bookshop() as shop:
        found = await browse("act", url=f"{shop.admin}/", button="Refresh listings")
    assert (found["outcome"], found["faults"]) == ("listed anew", [])


async def test_what_goes_wrong_with_a_token_is_seen() -> None:
    async with stand("server.page=public") as it:
        url = f"http://127.0.0.1:{it.gateway.port}/"
        assert "TypeError" in await browse("trouble", url=url, token="pasted…")
        assert "Failed to fetch" in await browse("trouble", url=url, token="good", offline=True)


@pytest.mark.parametrize(("has_clipboard", "said"), [(True, "Copied"), (False, "Selected")])
async def test_copy_copies_or_selects_where_a_page_has_no_clipboard(has_clipboard: bool, said: str) -> None:
    async with bookshop() as shop:
        found = await browse("copy", url=f"{shop.url}/", hasClipboard=has_clipboard)
        assert (found["said"], found["text"].strip()) == (said, f"{shop.url}/mcp")


async def test_a_hostile_token_is_text_where_its_claims_are_shown() -> None:
    shout = HOSTILE.partition("\u202e")[0]
    async with stand("server.page=public") as it:
        for token in (it.issuer.sign(sub=shout), it.issuer.sign(sub="ann", aud=HOSTILE)):
            url = f"http://127.0.0.1:{it.gateway.port}/page"
            found = await browse("read", url=url, selector="body", token=token)
            assert found["strangers"] == 0
            assert [fault for fault in found["faults"] if "401" not in fault] == []
            assert "<img src=x onerror=alert(1)>" in found["text"]
            assert "\u202e" not in found["text"]


async def test_a_link_to_a_runbook_opens_it() -> None:
    async with bookshop("services.crm.backend.url=http://127.0.0.1:9/jsonrpc", name="books") as shop:
        found = await browse("read", url=f"{shop.admin}/#mcpgatewayconfigrefused", selector="details[open] summary")
        assert "McpGatewayConfigRefused" in found["text"]
        link = 'a[href="#mcpgatewayservicenotlisted"]'
        found = await browse("read", url=f"{shop.admin}/", click=link, selector="details[open] dl")
        assert "Do\nRun jsonrpc-mcp-gateway check" in found["text"].replace("\n\n", "\n")
