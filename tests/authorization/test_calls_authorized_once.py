"""However a call comes in, the tool that it names is authorized once, before a byte of the answer, and called at most
once."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from tests.authorization.authorizations import authorized
from tests.authorization.stand import PUBLIC, RESOURCE, Bearer, Stand, challenge_of, stand
from tests.each import each
from tests.fault.behaviours import Body, error
from tests.protocol.official import LEGACY, MODERN
from tests.protocol.talk import Answer, legacy_headers, modern_headers, modern_request, request
from tests.waiting import PATIENCE

BATCHES: Final = "2025-03-26"
TWO_AND_THREE: Final = {"a": 2, "b": 3}
ADD: Final = {"name": "add", "arguments": TWO_AND_THREE}
THROUGH: Final = {"name": "call_tool", "arguments": ADD}
PROGRESS: Final = {"_meta": {"progressToken": "p"}}
KNOBS: Final = ("catalog.search=true", "catalog.tools.add={scopes: [sums], annotations: {readOnlyHint: true}}")

Way: TypeAlias = Callable[[Bearer], Awaitable[Answer]]


def modern(params: dict[str, Any]) -> Way:
    body, headers = modern_request("tools/call", params), modern_headers("tools/call", params["name"])
    return lambda client: client.mcp(body, headers)


def legacy(params: dict[str, Any]) -> Way:
    return lambda client: client.legacy("tools/call", params)


def posted(path: str, body: object) -> Way:
    return lambda client: client.post(path, body)


ALONE: Final[dict[str, Way]] = {
    "modern": modern(ADD),
    "modern, with progress": modern(ADD | PROGRESS),
    "modern, through call_tool": modern(THROUGH),
    "modern, through call_tool with progress": modern(THROUGH | PROGRESS),
    "legacy": legacy(ADD),
    "legacy, with progress": legacy(ADD | PROGRESS),
    "legacy, through call_tool": legacy(THROUGH),
    "legacy, through call_tool with progress": legacy(THROUGH | PROGRESS),
    "REST": posted("/mcp/tools/invoke", ADD),
    "REST, through call_tool": posted("/mcp/tools/invoke", THROUGH),
    "per tool": posted("/mcp/tools/add", request("add", TWO_AND_THREE)),
    "per tool, through call_tool": posted("/mcp/tools/call_tool", request("call_tool", ADD)),
    "per tool, GET": lambda client: client.get(f"/mcp/tools/add?query={quote(json.dumps(request('add', [2, 3])))}"),
    "/jsonrpc": posted("/jsonrpc", request("add", TWO_AND_THREE)),
    "/jsonrpc, through call_tool": posted("/jsonrpc", request("call_tool", ADD)),
}
CALL: Final = request("tools/call", ADD)
BATCHED: Final[dict[str, Way]] = {
    "legacy batch": lambda client: client.mcp(
        [CALL, request("tools/call", {"name": "echo", "arguments": {"value": 1}}, 2)], legacy_headers(BATCHES)
    ),
    "legacy batch, through call_tool": lambda client: client.mcp(
        [request("tools/call", THROUGH), request("tools/call", {"name": "echo", "arguments": {"value": 1}}, 2)],
        legacy_headers(BATCHES),
    ),
    "/jsonrpc batch": posted("/jsonrpc", [request("add", TWO_AND_THREE), request("echo", {"value": 1}, 2)]),
}
every_way = each("way", ALONE)
every_batch = each("way", BATCHED)


def values_in(answer: Answer) -> str:
    """The whole of an answer, to look for results in."""
    assert answer.status == 200, answer
    return answer.body.decode().replace('\\"', '"')


@every_way
async def test_a_call_is_authorized_once_and_made_once(way: Way) -> None:
    async with stand(*KNOBS) as it:
        with authorized() as tools:
            answer = await way(it.of("ann", "sums"))
        assert '{"sum":5}' in values_in(answer)
        assert tools == ["add"]
        assert it.backend.calls("add") == 1


@every_batch
async def test_each_call_of_a_batch_is_authorized_once_and_made_once(way: Way) -> None:
    async with stand(*KNOBS) as it:
        with authorized() as tools:
            answer = await way(it.of("ann", "sums"))
        assert '{"sum":5}' in values_in(answer)
        assert tools == ["add", "echo"]
        assert (it.backend.calls("add"), it.backend.calls("echo")) == (1, 1)


@every_way
async def test_a_call_that_is_refused_was_authorized_once_and_is_not_made(way: Way) -> None:
    """The status says it before a byte of the answer, also where a stream was asked for."""
    async with stand(*KNOBS) as it:
        with authorized() as tools:
            answer = await way(it.of("ann", "other"))
        assert (answer.status, challenge_of(answer)["scope"]) == (403, "sums")
        assert tools == ["add"]
        assert it.backend.calls("add") == 0


@every_batch
async def test_a_call_of_a_batch_that_is_refused_is_not_made_and_the_others_are(way: Way) -> None:
    async with stand(*KNOBS) as it:
        with authorized() as tools:
            answer = await way(it.of("ann", "other"))
        refused, made = answer.json
        assert refused["error"]["code"] == 403
        assert "result" in made
        assert tools == ["add", "echo"]
        assert (it.backend.calls("add"), it.backend.calls("echo")) == (0, 1)


@each("failure", [error(-32000, "No"), Body(status=500), Body(status=401, content_type=None)])
@each("way", (ALONE | BATCHED).values(), ids=ALONE | BATCHED)
async def test_a_call_that_fails_is_not_made_again(way: Way, failure: Body) -> None:
    async with stand(*KNOBS) as it:
        it.backend.on("add", failure)
        with authorized() as tools:
            await way(it.of("ann", "sums"))
        assert tools.count("add") == 1
        assert it.backend.calls("add") == 1


async def test_who_may_call_open_tools_alone_may_call_them_through_call_tool() -> None:
    """What ``call_tool`` names is decided on as if it had been called itself, so ``call_tool`` takes no token."""
    async with stand("catalog.search=true", "auth.anonymous=open-tools", "backend.listing.dialect=jsonrpc_mcp") as it:
        it.offers(
            {"name": "add", "annotations": {"auth": {"level": "none"}}},
            {"name": "echo", "annotations": {"auth": {"level": "required"}}},
        )
        await it.gateway.refresh_listings()
        nobody = it.client()
        for surface in (MODERN, LEGACY[0], "rest"):
            inner = {"name": "add", "arguments": TWO_AND_THREE}
            assert '{"sum":5}' in values_in(await nobody.call(surface, "call_tool", inner))
            for name in ("echo", "no_such"):
                assert (await nobody.call(surface, "call_tool", {"name": name})).status == 401
        assert it.backend.calls("echo") == 0


@each(("name", "way"), ALONE.items())
async def test_a_token_that_the_service_refuses_ends_the_exchange_unless_the_answer_has_begun(
    name: str, way: Way
) -> None:
    async with stand(*KNOBS) as it:
        it.backend.on("add", Body(status=401, content_type=None))
        answer = await way(it.of("ann", "sums"))
        if "progress" in name:
            assert answer.messages[-1]["result"]["isError"] is True
        else:
            assert (answer.status, challenge_of(answer)["error"]) == (401, "invalid_token")


async def command(it: Stand, folder: Path, tool: str, arguments: dict[str, Any]) -> tuple[int | None, str, str]:
    """Exit code, output and errors of the command ``call`` with a token for sums, watched."""
    token = folder / "token"
    token.write_text(it.issuer.sign(sub="ann", scope="sums"))
    knobs = (
        f"backend.url={it.backend.url}", "backend.listing.dialect=openrpc", f"server.public_url={PUBLIC}",
        f"auth.issuers=[{{issuer: '{it.issuer.issuer}'}}]", f"backend.credentials.backend_audience={RESOURCE}",
        *KNOBS,
    )  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.authorization.authorizations", "call", tool, "--args", json.dumps(arguments),
        "--token-file", str(token), *(option for knob in knobs for option in ("--set", knob)),
        cwd=Path(__file__).parents[2], stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


@each(("tool", "arguments"), [("add", TWO_AND_THREE), ("call_tool", ADD)])
async def test_the_command_line_authorizes_a_call_once_and_makes_it_once(
    tool: str, arguments: dict[str, Any], tmp_path: Path
) -> None:
    async with stand(*KNOBS) as it:
        code, out, err = await command(it, tmp_path, tool, arguments)
        assert code == 0, err
        *printed, decided = out.splitlines()
        assert json.loads("\n".join(printed)) == {"sum": 5}
        assert json.loads(decided) == ["add"]
        assert it.backend.calls("add") == 1


async def test_the_command_line_says_that_the_service_refuses_the_token(tmp_path: Path) -> None:
    async with stand(*KNOBS) as it:
        it.backend.on("add", Body(status=401, content_type=None))
        code, _, err = await command(it, tmp_path, "add", TWO_AND_THREE)
        assert code == 1
        assert "The backend does not accept this token" in err
        assert it.backend.calls("add") == 1


@each("path", ["/jsonrpc", "/mcp/tools/add"])
async def test_who_may_not_call_a_tool_learns_nothing_of_its_arguments(path: str) -> None:
    async with stand("auth.anonymous=list", *KNOBS) as it:
        for client, status in ((it.client(), 401), (it.of("ann", "other"), 403)):
            answer = await client.post(path, request("add", [1, 2, 3]))
            assert answer.status == status
            assert b"taken" not in answer.body
