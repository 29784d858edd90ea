"""Who may call through ``POST /jsonrpc``: refusals end the exchange of a single message, with a challenge, and concern
their own item in a batch."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from tests.authorization.stand import Bearer, Stand, challenge_of, running, stand
from tests.fault.behaviours import Body, error, result
from tests.fault.methods import ADD, ECHO
from tests.protocol.talk import Answer, request

pytestmark = pytest.mark.usefixtures("both_servers")

ROUTE: Final = "/jsonrpc"
TWO_AND_THREE: Final = {"a": 2, "b": 3}
ADDING: Final = request("add", TWO_AND_THREE)
ECHOING: Final = request("echo", {"value": 1}, 2)


@pytest.fixture
async def it() -> AsyncIterator[Stand]:
    async with stand("catalog.tools.add.scopes=[write, read]", "auth.scopes.call=[tools.call]") as it:
        yield it


def codes(answer: Answer) -> list[Any]:
    """The items of a batch's answer: their results, or the codes of their errors."""
    assert answer.status == 200
    return [reply["error"]["code"] if "error" in reply else reply["result"] for reply in answer.json]


async def test_without_a_token_nothing_is_looked_at(it: Stand) -> None:
    for body in (ADDING, [ADDING, ECHOING], b"{", []):
        answer = await it.client().post(ROUTE, body)
        assert answer.fault == (401, 401)
        assert challenge_of(answer)["scope"] == "tools.call"
    assert it.backend.requests == []


async def test_a_missing_scope_refuses_a_single_call_with_all_that_it_takes(it: Stand) -> None:
    for body in (ADDING, {name: value for name, value in ADDING.items() if name != "id"}):
        answer = await it.of("ann", "tools.call").post(ROUTE, body)
        assert answer.fault == (403, 403)
        assert challenge_of(answer)["scope"] == "read tools.call write"
    assert it.backend.calls("add") == 0


async def test_a_missing_scope_is_the_matter_of_its_own_item_in_a_batch(it: Stand) -> None:
    answer = await it.of("ann", "tools.call").post(ROUTE, [ADDING, ECHOING])
    assert codes(answer) == [403, 1]
    assert "read tools.call write" in answer.json[0]["error"]["message"]
    assert "WWW-Authenticate" not in answer.headers
    assert it.backend.calls("add") == 0


async def test_a_token_that_the_backend_refuses_is_401_and_in_a_batch_its_items(it: Stand) -> None:
    it.backend.on("echo", Body(status=401, content_type=None))
    ann = it.of("ann", "tools.call read write")
    answer = await ann.post(ROUTE, ECHOING)
    assert answer.fault == (401, 401)
    assert challenge_of(answer)["error"] == "invalid_token"
    assert codes(await ann.post(ROUTE, [ECHOING, ADDING])) == [401, {"sum": 5}]


async def test_a_denied_call_is_in_band(it: Stand) -> None:
    it.backend.on("echo", error(-32600, "No", "Access Denied"))
    answer = await it.of("ann", "tools.call").post(ROUTE, ECHOING)
    assert answer.fault == (200, 403)
    assert "WWW-Authenticate" not in answer.headers


async def test_each_item_is_looked_up_in_the_callers_own_view(it: Stand) -> None:
    it.listings.shows("ann", ECHO)
    it.listings.shows("bob", ADD, ECHO)
    batch = [ADDING, ECHOING]
    assert codes(await it.of("bob", "tools.call read write").post(ROUTE, batch)) == [{"sum": 5}, 1]
    assert codes(await it.of("ann", "tools.call read write").post(ROUTE, batch)) == [-32601, 1]
    assert it.backend.calls("add") == 1


async def test_a_listing_that_is_refused_refuses_the_call(it: Stand) -> None:
    it.listings.refused["ann"] = 401
    ann = it.of("ann", "tools.call")
    assert (await ann.post(ROUTE, ECHOING)).fault == (401, 401)
    assert codes(await ann.post(ROUTE, [ECHOING, ADDING])) == [401, 401]
    it.listings.refused["bob"] = 403
    assert (await it.of("bob", "tools.call").post(ROUTE, ECHOING)).fault == (403, 403)


async def test_open_tools_are_open_in_a_batch_and_no_others() -> None:
    knobs = ("auth.anonymous=open-tools", "backend.listing.dialect=jsonrpc_mcp", "backend.listing.identity=shared")
    async with stand(*knobs) as it:
        it.offers({"name": "free", "annotations": {"auth": {"level": "none"}}}, {"name": "closed"})
        it.backend.on("free", result("free"))
        async with running(it.gateway.settings) as gateway:
            nobody = Bearer(it.session, gateway.port, None)
            assert codes(await nobody.post(ROUTE, [request("free"), request("closed")])) == ["free", 401]
        assert it.shown("free") == [None]
        assert it.backend.calls("closed") == 0
