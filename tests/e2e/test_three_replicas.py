"""Whatever a client begins at one replica, it can go on with at any other: three processes behind nginx, in turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.authorization.forge import dpop_proof
from tests.authorization.keys import ec_key
from tests.authorization.stand import PUBLIC, Bearer, names, tools_in
from tests.e2e.three_replicas import (
    BROKEN,
    COUNT,
    LISTINGS,
    METHODS,
    REPLICA,
    SUBTRACT,
    Replicas,
    replicas_of,
    three_replicas,
)
from tests.fault.behaviours import Hang, result
from tests.fault.methods import ADD, ECHO, Rpc, openrpc
from tests.protocol.asking import ACCEPT, session_of
from tests.protocol.official import LEGACY, MODERN
from tests.protocol.streams import Stream
from tests.protocol.talk import CAPABILITIES, Answer, legacy_headers, modern_headers, modern_request, request
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHANGED: Final = "notifications/tools/list_changed"
DROP: Final = {"name": "drop", "arguments": {}}
LATEST: Final = LEGACY[0]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def it(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Replicas]:
    async with three_replicas(tmp_path_factory.mktemp("replicas")) as replicas:
        yield replicas


@pytest.fixture
def client(it: Replicas) -> Bearer:
    it.backend.requests.clear()
    return it.client("open")


async def on_each(ask: Callable[[], Awaitable[Answer]]) -> list[Answer]:
    """Ask once for each replica."""
    answers = [await ask() for _ in range(COUNT)]
    assert len(replicas_of(answers)) == COUNT
    return answers


def ran(it: Replicas, method: str) -> list[Any]:
    """The params of all calls of a method."""
    return [sent.params for sent in it.backend.requests if sent.method == method]


# --- what is signed ---------------------------------------------------------------------------------------------


async def test_each_page_of_a_listing_may_come_from_another_replica(client: Bearer) -> None:
    seen: list[str] = []
    answers: list[Answer] = []
    cursor: str | None = None
    while not answers or cursor is not None:
        answers.append(await client.list(MODERN, cursor))
        seen += tools_in(answers[-1])
        cursor = answers[-1].result.get("nextCursor")
    assert sorted(seen) == sorted(method.name for method in METHODS)
    assert len(replicas_of(answers)) == COUNT


async def test_a_session_is_good_everywhere_and_once_it_ended_nowhere_and_its_streams_end(client: Bearer) -> None:
    headers = await session_of(client)
    for answer in await on_each(lambda: client.mcp(request("ping"), headers)):
        assert answer.result == {}
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(client.stream(headers=headers)) for _ in range(COUNT)]
        assert len({stream.headers[REPLICA] for stream in streams}) == COUNT
        for stream in streams:
            await stream.comment()
        assert (await client.send("DELETE", "/mcp", headers=headers)).status == 204
        for stream in streams:
            assert await stream.rest() == []
    for answer in await on_each(lambda: client.mcp(request("ping"), headers)):
        assert answer.status == 404


async def test_a_consent_runs_a_tool_once_whoever_hears_it_and_how_often(it: Replicas, client: Bearer) -> None:
    async def consent(state: str | None) -> Answer:
        given = {} if state is None else {"inputResponses": {"confirm": ACCEPT}, "requestState": state}
        params = {**DROP, **given, "_meta": {CAPABILITIES: {"elicitation": {}}}}
        return await client.modern("tools/call", params)

    for _ in range(5):
        state = (await consent(None)).result["requestState"]
        answers = await asyncio.gather(*(consent(state) for _ in range(2 * COUNT)))
        assert len(replicas_of(answers)) == COUNT
        assert sum("result" in answer.json for answer in answers) == 1
    assert len(ran(it, "drop")) == 5


async def test_a_proof_is_good_once(it: Replicas) -> None:
    key = ec_key("client")
    resource = f"{PUBLIC}/proved/mcp"
    token = it.issuer.sign(aud=resource, cnf={"jkt": key.thumbprint})
    client = it.client("proved")

    async def list_with(proof: str) -> Answer:
        bound = {"Authorization": f"DPoP {token}", "DPoP": proof, **modern_headers("tools/list")}
        return await client.mcp(modern_request("tools/list"), bound)

    proof = dpop_proof(key, "POST", resource, token)
    answers = await asyncio.gather(*(list_with(proof) for _ in range(2 * COUNT)))
    assert len(replicas_of(answers)) == COUNT
    assert sorted(answer.status for answer in answers) == [200] + [401] * (2 * COUNT - 1)
    assert (await list_with(dpop_proof(key, "POST", resource, token))).status == 200


async def test_listings_are_counted_by_all_together(it: Replicas) -> None:
    """What a replica has leased and not used may be admitted on top: a tenth of the burst for each of the others."""
    client = it.client("limited")
    answers = [await client.modern("tools/list") for _ in range(3 * LISTINGS)]
    assert len(replicas_of(answers)) == COUNT
    assert LISTINGS <= [answer.status for answer in answers].count(200) <= LISTINGS + 4


# --- calls under way --------------------------------------------------------------------------------------------


async def test_a_call_is_cancelled_on_whichever_replica_it_runs(it: Replicas, client: Bearer) -> None:
    hang = Hang("head")
    it.backend.on("slow", hang)
    headers = await session_of(client)
    for number in range(1, COUNT + 1):
        call = asyncio.create_task(
            client.mcp(request("tools/call", {"name": "slow", "arguments": {}}, number), headers)
        )
        async with asyncio.timeout(PATIENCE):
            await it.backend.called("slow", number)
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
        told = await client.mcp(cancelled, headers)
        async with asyncio.timeout(PATIENCE):
            answer = await call
        assert (told.status, answer.status) == (202, 202)
        assert len(replicas_of([told, answer])) == 2


async def test_the_answer_of_a_user_reaches_the_call_on_whichever_replica_it_waits(
    it: Replicas, client: Bearer
) -> None:
    headers, other = await session_of(client), await session_of(client)
    for number in range(1, COUNT + 1):
        async with client.stream(request("tools/call", DROP, number), headers) as stream:
            asked = (await stream.message())["id"]
            reply = {"jsonrpc": "2.0", "id": asked, "result": ACCEPT}
            others = [await client.mcp(reply, other), await client.mcp(reply, legacy_headers(LATEST))]
            assert [answer.status for answer in others] == [202, 202]
            # Each replica hears it: that of the call is one of them.
            answers = await on_each(lambda reply=reply: client.mcp(reply, headers))  # type: ignore[misc]
            assert [answer.status for answer in answers] == [202] * COUNT
            assert await value_at_the_end(stream) == "dropped"
        assert len(ran(it, "drop")) == number


async def test_an_answer_that_is_too_large_is_refused_and_the_call_waits_on(it: Replicas, client: Bearer) -> None:
    headers = await session_of(client)
    async with client.stream(request("tools/call", DROP), headers) as stream:
        asked = (await stream.message())["id"]
        for size, status in ((65_536, 413), (60_000, 202)):
            large = {"action": "accept", "content": {"why": "x" * size}}
            answer = await client.mcp({"jsonrpc": "2.0", "id": asked, "result": large}, headers)
            assert answer.status == status
            assert answer.headers[REPLICA] != stream.headers[REPLICA]
            assert status == 202 or "64 KiB" in answer.error["message"]
        assert await value_at_the_end(stream) == "dropped"
    assert len(ran(it, "drop")) == 1


async def value_at_the_end(stream: Stream) -> str:
    (message,) = await stream.rest()
    text: str = message["result"]["content"][0]["text"]
    return text


# --- what replicas find out -------------------------------------------------------------------------------------


async def test_a_change_that_one_replica_finds_is_told_on_the_streams_of_all(it: Replicas, client: Bearer) -> None:
    async with AsyncExitStack() as stack:
        streams = [await opened(stack, client) for _ in range(COUNT)]
        assert len({stream.headers[REPLICA] for stream in streams}) == COUNT
        it.backend.on("rpc.discover", result(openrpc([*METHODS, Rpc("added")])))
        await it.refresh(0)
        for stream in streams:
            assert (await stream.message())["method"] == CHANGED
    for answer in await on_each(lambda: client.list("rest")):
        assert "added" in tools_in(answer)
    assert [sent.method for sent in it.backend.requests].count("rpc.discover") == 3, "one for each service"


@pytest.mark.parametrize("language", [None, "de"])
async def test_a_change_of_one_callers_tools_is_told_on_all_that_callers_streams(
    it: Replicas, language: str | None
) -> None:
    it.listings.shows("ann", ADD, ECHO)
    ann, bob = (it.client("own", it.issuer.sign(sub=name)) for name in ("ann", "bob"))
    for caller in (ann, bob):
        caller.language = language
        await on_each(lambda caller=caller: caller.list(MODERN))  # type: ignore[misc]
    async with AsyncExitStack() as stack:
        streams = [await opened(stack, ann) for _ in range(COUNT)]
        his = await opened(stack, bob)
        it.listings.shows("ann", ADD)
        await it.refresh(0)
        for stream in streams:
            assert (await stream.message())["method"] == CHANGED
        await his.comment()
    for answer in await on_each(lambda: ann.list(MODERN)):
        assert list(tools_in(answer)) == ["add"]
    assert await names(bob) == ["add", "broken"]


async def opened(stack: AsyncExitStack, client: Bearer) -> Stream:
    """A stream of notices, after what each begins with."""
    stream = await stack.enter_async_context(client.listen({"toolsListChanged": True}))
    assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
    return stream


async def test_an_output_schema_that_a_result_broke_is_listed_by_no_replica(it: Replicas, client: Bearer) -> None:
    async def promised() -> list[bool]:
        answers = await on_each(lambda: client.get(f"/mcp/tools/describe?name={BROKEN.name}"))
        return [bool(answer.json["tool"].get("outputSchema")) for answer in answers]

    assert await promised() == [True] * COUNT
    assert (await client.call("rest", BROKEN.name)).status != 200

    await until(promised, lambda of_each: not any(of_each))
    assert len(ran(it, BROKEN.name)) == 1


async def test_the_structure_of_params_that_one_replica_learned_all_use(it: Replicas, client: Bearer) -> None:
    async with it.heard() as notices, asyncio.timeout(PATIENCE):
        assert (await client.call("rest", SUBTRACT.name, {"a": 5, "b": 3})).json == {"result": 2}
        await anext(message async for message in notices.listen() if len(message["data"]) > 100)  # no sign of life
    for _ in range(3):  # what Redis has told, a replica has read when it has served something since
        await on_each(lambda: client.list("rest"))
    for answer in await on_each(lambda: client.call("rest", SUBTRACT.name, {"a": 5, "b": 3})):
        assert answer.json == {"result": 2}
    assert ran(it, SUBTRACT.name) == [{"a": 5, "b": 3}, *([[5, 3]] * 4)]
