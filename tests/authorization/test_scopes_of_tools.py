"""How clients learn of the scopes of tools: in the metadata, in the first challenge, and in a list of all tools."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.authorization.stand import LISTS, METADATA, PUBLIC, RESOURCE, Stand, challenge_of, names, stand
from tests.each import each
from tests.fault.methods import ADD, ECHO
from tests.program import Ran, run
from tests.protocol.official import MODERN

pytestmark = pytest.mark.usefixtures("both_servers")

SHARED: Final = "backend.listing.identity=shared"
LEAST: Final = ("auth.scopes.list=[tools.list]", "auth.scopes.call=[tools.call]")
ALL: Final = "auth.scopes.challenge=all"
SHOW: Final = "auth.scopes.show=all"
EVERYTHING: Final = ["add", "echo", "fail", "void"]


def listed(*scopes: str) -> dict[str, Any]:
    return ADD.listed() | {"x-scopes": list(scopes)}


async def supported(it: Stand) -> list[str]:
    document = (await it.client().get(METADATA.removeprefix(PUBLIC))).json
    return list(document.get("scopes_supported", ()))


async def asked(it: Stand) -> list[str]:
    """The scopes of the first challenge."""
    return challenge_of(await it.client().list(MODERN)).get("scope", "").split()


async def test_the_metadata_have_the_scopes_of_tools_and_the_first_challenge_the_least() -> None:
    async with stand(*LEAST, SHARED, "catalog.tools={add: {scopes: [adder]}, no_such: {scopes: [later]}}") as it:
        assert await supported(it) == ["adder", "later", "tools.call", "tools.list"]
        assert await asked(it) == ["tools.call", "tools.list"]
        refused = await it.client("not.a.token").list(MODERN)
        assert challenge_of(refused)["scope"] == "tools.call tools.list"


async def test_the_scopes_of_the_shared_listing_stand_there_too() -> None:
    methods = [listed("write", "not a scope", "x" * 1001), ECHO.listed() | {"x-scopes": ["read"]}]
    async with stand(*LEAST, SHARED, ALL, "catalog.tools.echo.scopes=[]", listing=methods) as it:
        assert await supported(it) == await asked(it) == ["tools.call", "tools.list", "write"]


async def test_at_most_fifty_scopes_of_tools_stand_there_the_configured_ones_first() -> None:
    many = listed(*(f"s{number:03}" for number in range(100)))
    async with stand(*LEAST, SHARED, ALL, "catalog.tools.echo.scopes=[zz]", listing=[many, ECHO.listed()]) as it:
        found = await supported(it)
        assert (
            found == await asked(it) == [*(f"s{number:03}" for number in range(49)), "tools.call", "tools.list", "zz"]
        )


async def test_what_a_service_lists_to_one_caller_stands_nowhere_for_others() -> None:
    async with stand(*LEAST, ALL, "backend.listing.identity=caller") as it:
        it.listings.shows("ann", listed("secret.project"))
        assert await names(it.of("ann", "tools.list tools.call secret.project")) == ["add"]
        assert await supported(it) == await asked(it) == ["tools.call", "tools.list"]


async def test_where_no_scope_is_configured_the_first_challenge_names_none_and_the_metadata_all() -> None:
    async with stand(SHARED, "catalog.tools.add.scopes=[adder]") as it:
        assert (await supported(it), await asked(it)) == (["adder"], [])


async def test_the_challenge_for_a_call_without_a_token_names_all_scopes_too() -> None:
    knobs = ("auth.anonymous=list", "catalog.tools={add: {scopes: [adder]}, echo: {scopes: [echoer]}}")
    async with stand(*LEAST, SHARED, ALL, *knobs) as it:
        answer = await it.client().call(MODERN, "add", {"a": 2, "b": 3})
        assert (answer.status, challenge_of(answer)["scope"]) == (401, "adder echoer tools.call tools.list")
        # One who has a token is told what this request takes.
        answer = await it.of("ann", "tools.call").call(MODERN, "add", {"a": 2, "b": 3})
        assert (answer.status, challenge_of(answer)["scope"]) == (403, "adder tools.call")


async def test_a_reload_brings_the_scopes_of_other_tools_though_tokens_stay_verified() -> None:
    async with stand(*LEAST, SHARED, ALL, "catalog.tools.add.scopes=[adder]") as it:
        await it.reload("catalog.tools.add.scopes=[writer]")
        assert await supported(it) == await asked(it) == ["tools.call", "tools.list", "writer"]


@each("identity", ["caller", "shared"])
@each("surface", LISTS)
async def test_a_list_of_all_has_what_a_call_is_refused_for(surface: str, identity: str) -> None:
    scopes = 'catalog.tools={"add": {scopes: [write]}, "fail": {scopes: [write, fail]}}'
    async with stand(SHOW, f"backend.listing.identity={identity}", scopes) as it:
        for scope in ("", "write", "fail", "write fail"):
            assert await names(it.of("ann", scope), surface) == EVERYTHING
        answer = await it.of("ann", "fail").call(MODERN, "add", {"a": 2, "b": 3})
        assert (answer.status, challenge_of(answer)["scope"]) == (403, "write")
        assert (await it.of("ann").get("/mcp/tools/describe?name=add")).status == 200
        assert it.backend.calls("add") == 0


async def test_a_list_of_all_never_has_what_the_service_hides_from_a_caller() -> None:
    async with stand(SHOW, "backend.listing.identity=caller", "catalog.tools.add.scopes=[write]") as it:
        it.listings.shows("ann", ADD, ECHO)
        it.listings.shows("bob", ECHO)
        assert await names(it.of("ann")) == ["add", "echo"]
        assert await names(it.of("bob", "write")) == ["echo"]


async def test_a_list_of_all_is_for_callers_with_a_token_and_the_scopes_for_listing() -> None:
    async with stand(SHOW, *LEAST, SHARED, "auth.anonymous=open-tools") as it:
        assert await names(it.client()) == []
        assert (await it.of("ann", "tools.call").list(MODERN)).status == 403
        assert await names(it.of("ann", "tools.list")) == EVERYTHING


async def test_a_reload_that_shows_less_hides_at_once_what_was_shown() -> None:
    async with stand(SHOW, SHARED, "catalog.tools.add.scopes=[write]") as it:
        assert await names(it.of("ann")) == EVERYTHING
        old = it.gateway.settings
        scopes = old.auth.scopes.model_copy(update={"show": "permitted"})
        await it.gateway.reload(old.model_copy(update={"auth": old.auth.model_copy(update={"scopes": scopes})}))
        assert await names(it.of("ann")) == ["echo", "fail", "void"]
        assert await names(it.of("ann", "write")) == EVERYTHING


async def check(it: Stand, *knobs: str) -> Ran:
    """What ``check`` says of a gateway with these knobs, before the same issuer and backend."""
    common = (
        f"backend.url={it.backend.url}", "backend.listing.dialect=openrpc", SHARED, f"server.public_url={PUBLIC}",
        f"backend.credentials.backend_audience={RESOURCE}", f"auth.issuers=[{{issuer: '{it.issuer.issuer}'}}]",
    )  # fmt: skip
    return await run("check", *(word for knob in (*common, *knobs) for word in ("--set", knob)))


@pytest.mark.own_server("the command line is tested, which starts processes")
async def test_check_shows_the_first_challenge_and_says_who_needs_all() -> None:
    remark = "auth.scopes.challenge is least: clients first ask for tools.call tools.list, not for adder, write; where"
    async with stand(listing=[ADD.listed(), ECHO.listed() | {"x-scopes": ["write"]}]) as it:
        adder = "catalog.tools.add.scopes=[adder]"
        least, everything, none = await check(it, *LEAST, adder), await check(it, *LEAST, ALL, adder), await check(it)
        for ran in (least, everything, none):
            assert ran.code == 0, ran.said
        assert remark in least.out
        assert 'Bearer scope="tools.call tools.list",' in least.out
        assert 'Bearer scope="adder tools.call tools.list write",' in everything.out
        assert '"scopes_supported":["adder","tools.call","tools.list","write"]' in least.out
        # Where the challenge names none, clients ask for all that the metadata have.
        assert '"scopes_supported":["write"]' in none.out
        assert "auth.scopes.challenge" not in everything.out + none.out
