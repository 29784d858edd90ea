"""Three real services in one process, with two real authorization servers: nothing of one is good at another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from itertools import permutations
from pathlib import Path
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from tests.authorization.stand import CALLS, LISTS, PUBLIC, REST, Bearer, challenge_of, names, tools_in
from tests.e2e.several import CALLED, METADATA, NAMES, RESOURCES, Several, Stage, several, stage
from tests.program import Program, run
from tests.protocol.official import LEGACY, MODERN
from tests.protocol.talk import CAPABILITIES, Answer, legacy_headers, request
from tests.waiting import PATIENCE

PAIRS: Final = list(permutations(NAMES, 2))
"""Of which service something is, and at which it is shown."""
LATEST: Final = LEGACY[0]
ALL: Final = {"catalog": {"page_size": 100}}
WHOLE: Final = dict.fromkeys(NAMES, ALL)
"""Every service lists all its tools on one page."""
OFF: Final = {"auth": {"mode": "off"}}


@pytest.fixture(scope="module")
def real() -> Iterator[Stage]:
    with stage() as running:
        yield running


@pytest.fixture
async def it(real: Stage) -> AsyncIterator[Several]:
    async with several(real) as running:
        yield running


async def called(client: Bearer, name: str, surface: str = MODERN) -> Answer:
    tool, arguments = CALLED[name]
    return await client.call(surface, tool, arguments)


async def works(client: Bearer, name: str) -> None:
    """Assert that each surface of a service runs a call."""
    for surface in CALLS:
        answer = await called(client, name, surface)
        assert answer.status == 200, (name, surface, answer)
        assert "error" not in answer.json, (name, surface, answer)
        assert not (isinstance(answer.json["result"], dict) and answer.json["result"].get("isError")), answer


# --- each serves at its mount -----------------------------------------------------------------------------------


async def test_each_lists_its_own_tools_on_every_surface(real: Stage) -> None:
    async with several(real, **WHOLE) as it:
        for surface in LISTS:
            listed = {name: set(tools_in(await it.clients[name].list(surface))) for name in NAMES}
            dot = "." if surface == REST else "_"
            assert {"add", "withdraw", "walk"} <= listed["books"]
            assert listed["site"] == {f"examples{dot}articles{dot}list", f"examples{dot}contentTypes{dot}list"}
            assert {f"aria2{dot}getVersion", f"aria2{dot}addUri"} <= listed["files"]
            assert not any(listed[one] & listed[other] for one, other in PAIRS)


async def test_each_calls_its_own_tools_on_every_surface_and_no_other_s(it: Several) -> None:
    for name, client in it.clients.items():
        await works(client, name)
    for name, other in PAIRS:
        tool, arguments = CALLED[other]
        assert (await it.clients[name].call("tool", tool, arguments)).fault == (404, -32601)
        assert (await it.clients[name].call(MODERN, tool, arguments)).fault == (200, -32602)


async def test_what_a_call_answers_is_its_own_services(it: Several) -> None:
    assert (await called(it.clients["books"], "books", "jsonrpc")).result == 5
    assert "id" in (await called(it.clients["site"], "site", "jsonrpc")).result[0]
    assert "version" in (await called(it.clients["files"], "files", "jsonrpc")).result


async def test_the_service_with_users_lists_for_each_and_is_shown_their_tokens(real: Stage) -> None:
    async with several(real, **WHOLE) as it:
        admin = it.client("site", await real.token("site", "admin"))
        real.site.forget_requests()
        for surface in LISTS:
            seen = [len(await names(client, surface)) for client in (admin, it.clients["site"], admin)]
            assert seen == [3, 2, 3]
        assert (await admin.call(REST, "examples.article.toMarkdown", {"nid": 1})).status == 200
        refused = await it.clients["site"].call(REST, "examples.article.toMarkdown", {"nid": 1})
        assert refused.fault == (404, "tool_not_found")
        shown = {sent["headers"].get("authorization") for sent in real.site.requests()}
        assert shown <= {f"Bearer {client.token}" for client in (admin, it.clients["site"])}


# --- each is a protected resource of its own --------------------------------------------------------------------


@pytest.mark.parametrize(("of", "at"), PAIRS)
async def test_a_token_for_one_is_refused_at_another_on_every_surface(it: Several, of: str, at: str) -> None:
    """Either another server issued it (books), or the same one for another audience (site and files)."""
    stranger = it.client(at, it.clients[of].token)
    answers = [await stranger.list(surface) for surface in LISTS]
    answers += [await called(stranger, at, surface) for surface in CALLS]
    for answer in answers:
        challenge = challenge_of(answer)
        assert (answer.status, challenge["error"]) == (401, "invalid_token")
        assert challenge["resource_metadata"] == PUBLIC + METADATA[at]


@pytest.mark.parametrize("at", ["site", "files"])
async def test_the_right_audience_from_another_services_issuer_is_refused(it: Several, real: Stage, at: str) -> None:
    answer = await called(it.client(at, await real.minted(at)), at)
    assert (answer.status, challenge_of(answer)["resource_metadata"]) == (401, PUBLIC + METADATA[at])


async def test_each_says_who_issues_tokens_for_it_and_the_root_says_nothing(it: Several, real: Stage) -> None:
    for name, issuer in (("books", real.mock), ("site", real.oidc), ("files", real.oidc)):
        answer = await it.root.get(METADATA[name])
        assert answer.json["resource"] == RESOURCES[name]
        assert answer.json["authorization_servers"] == [issuer.issuer]
        challenged = challenge_of(await called(it.client(name, None), name))
        assert challenged["resource_metadata"] == PUBLIC + METADATA[name]
    for path in (
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/mcp/tools/list",
    ):
        assert (await it.root.get(path)).status == 404
    assert (await it.root.mcp(request("ping"))).status == 404


async def test_a_session_of_one_is_none_at_another(it: Several) -> None:
    """All three sessions are of the same person; site and files have the same issuer."""
    headers = {name: legacy_headers(LATEST, await client.initialize()) for name, client in it.clients.items()}
    for of, at in PAIRS:
        assert (await it.clients[at].mcp(request("ping"), headers[of])).fault == (404, -32600)
        assert (await it.clients[at].send("DELETE", "/mcp", None, headers[of])).status == 404
    for name, client in it.clients.items():
        assert (await client.mcp(request("ping"), headers[name])).result == {}


async def test_a_cursor_of_one_is_none_at_another(it: Several) -> None:
    for surface, refusal in ((MODERN, (200, -32602)), (LATEST, (200, -32602)), (REST, (400, "invalid_cursor"))):
        first = {name: await client.list(surface) for name, client in it.clients.items()}
        cursors = {name: (page.json if surface == REST else page.result)["nextCursor"] for name, page in first.items()}
        for of, at in PAIRS:
            assert (await it.clients[at].list(surface, cursors[of])).fault == refusal
        for name, client in it.clients.items():
            assert len(tools_in(await client.list(surface, cursors[name]))) == 1


async def confirm(client: Bearer, tool: str, arguments: dict[str, Any], state: str | None = None) -> Answer:
    """Call a tool that a person has to confirm; with ``state`` as the answer of somebody who agrees."""
    agreed = {"requestState": state, "inputResponses": {"confirm": {"action": "accept", "content": {}}}}
    params = {"name": tool, "arguments": arguments, "_meta": {CAPABILITIES: {"elicitation": {}}}}
    return await client.modern("tools/call", params | (agreed if state else {}))


async def test_a_persons_consent_at_one_is_none_at_another(real: Stage) -> None:
    """Two services before one backend, of one issuer and one person: nothing differs but the mount."""
    books = real.tree()["services"]["books"]
    wants = {"catalog": {"tools": {"withdraw": {"confirm": True}}}}
    twins = {
        "backend": {**books["backend"], "credentials": {**books["backend"]["credentials"], "send": None}},
        **wants,
        "auth": books["auth"],
    }
    async with several(real, site=twins, files=twins, books=wants) as it:
        clients = {name: it.client(name, await real.minted(name)) for name in NAMES}
        for of, at in PAIRS:
            state = (await confirm(clients[of], "withdraw", {"amount": 1})).result["requestState"]
            assert (await confirm(clients[at], "withdraw", {"amount": 1}, state)).fault == (200, -32602)
            agreed = await confirm(clients[of], "withdraw", {"amount": 1}, state)
            assert agreed.result["structuredContent"] == 99
            again = await confirm(clients[of], "withdraw", {"amount": 1}, state)
            assert "structuredContent" not in again.json.get("result", {}), "a consent counts once"


@pytest.mark.parametrize("public_url", [PUBLIC, None])
async def test_without_tokens_too_nothing_of_one_is_good_at_another(real: Stage, public_url: str | None) -> None:
    books = real.tree()["services"]["books"]
    one = {**books, **OFF, "catalog": {"tools": {"withdraw": {"confirm": True}}}}
    async with several(
        real,
        books=one,
        site=one,
        files={**one, "backend": {**one["backend"], "credentials": {**books["backend"]["credentials"], "send": None}}},
    ) as it:
        clients = {name: it.client(name, None) for name in NAMES}
        for of, at in PAIRS:
            headers = legacy_headers(LATEST, await clients[of].initialize())
            assert (await clients[at].mcp(request("ping"), headers)).fault == (404, -32600)
            cursor = (await clients[of].list(REST)).json["nextCursor"]
            assert (await clients[at].list(REST, cursor)).fault == (400, "invalid_cursor")
            state = (await confirm(clients[of], "withdraw", {"amount": 1})).result["requestState"]
            assert (await confirm(clients[at], "withdraw", {"amount": 1}, state)).fault == (200, -32602)
            assert (await clients[of].mcp(request("ping"), headers)).result == {}
            assert (await clients[of].list(REST, cursor)).status == 200
            assert (await confirm(clients[of], "withdraw", {"amount": 1}, state)).result["structuredContent"] == 99


# --- what happens to one costs the others nothing ---------------------------------------------------------------


async def test_the_budget_of_one_is_not_spent_by_another(real: Stage) -> None:
    few = {"limits": {"discovery": "3/minute"}}
    async with several(real, **dict.fromkeys(NAMES, few)) as it:
        for name in NAMES:
            statuses = [(await it.clients[name].list(REST)).status for _ in range(5)]
            assert (statuses[:3], statuses[-1]) == ([200, 200, 200], 429), name


async def test_a_service_that_hangs_costs_the_others_nothing(real: Stage) -> None:
    knobs = {"backend": {"connections": 4}}
    async with several(real, books=knobs) as it, asyncio.timeout(PATIENCE):
        real.books.freeze()
        try:
            hanging = [asyncio.create_task(called(it.clients["books"], "books", "tool")) for _ in range(16)]
            for name in ("site", "files"):
                await works(it.clients[name], name)
                for surface in LISTS:
                    assert (await it.clients[name].list(surface)).status == 200
            assert (await it.ready())[0] == 200
            assert not any(call.done() for call in hanging)
        finally:
            real.books.thaw()
        assert [(await call).result for call in hanging] == [5] * 16


async def test_a_service_that_is_gone_costs_the_others_nothing_and_is_back_when_it_is(real: Stage) -> None:
    async with several(real) as it, asyncio.timeout(PATIENCE):
        real.files.stop()
        try:
            assert (await called(it.clients["files"], "files", "tool")).status == 502
            assert (await it.clients["files"].list(REST)).status == 200, "what it offered last"
            for name in ("books", "site"):
                await works(it.clients[name], name)
            assert (await it.ready())[0] == 200
        finally:
            real.files.restart()
        await works(it.clients["files"], "files")


async def test_the_gateway_is_ready_while_one_service_can_answer(real: Stage) -> None:
    dead = {"auth": {"issuers": [{"issuer": "http://127.0.0.1:9"}]}}
    async with several(real, books=dead, files=dead) as it:
        assert (await called(it.clients["site"], "site")).status == 200
        status, lines = await it.ready()
        assert (status, lines[0]) == (200, "ready, but")
        assert [line.partition(":")[0] for line in lines[1:]] == ["books", "files"]
        assert all("http://127.0.0.1:9" in line for line in lines[1:])
        assert set(lines) < set((await it.ready("?verbose"))[1])
    async with several(real, books=dead, site=dead, files=dead) as it:
        status, (reason,) = await it.ready()
        assert status == 503
        assert all(f"{name}: " in reason for name in NAMES)
        assert (await it.ready("?verbose"))[0] == 503


async def test_two_services_that_would_take_one_token_are_a_fault_at_start(real: Stage, tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    shared = {"auth": {"issuers": [{"issuer": real.oidc.issuer, "audiences": ["https://shop.example.com"]}]}}
    credentials = {"backend": {"credentials": {"mode": "none"}}}
    file.write_text(json.dumps(real.tree(site=shared | credentials, files=shared)))
    ran = await run("serve", "--config", str(file))
    assert ran.code == 2
    assert "services.site.auth.issuers: a token of" in ran.err
    assert "for https://shop.example.com would be accepted by the services site, files" in ran.err
    agreed = {"auth": {**shared["auth"], "shared_audience": True}}
    file.write_text(json.dumps(real.tree(site=agreed | credentials, files=agreed)))
    async with Program("serve", "--config", str(file)) as program:
        await program.logged("gateway started")


async def test_the_log_names_the_service_of_each_request(it: Several) -> None:
    with capture_logs() as lines:
        for name, client in it.clients.items():
            await called(client, name)
            await called(it.client(name, "junk"), name)
    logged = [(line["service"], line["status"]) for line in lines if line["event"] == "request"]
    assert logged == [(name, status) for name in NAMES for status in (200, 401)]
