"""``stdio``: MCP on standard input and output, for the client that started it."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gateway.cli import main
from gateway.cli.stdio import MAX_UNDER_WAY, Conversation
from gateway.config.source import load_settings
from gateway.model import AccessToken, Caller, Principal
from tests.clients.backend import Backend
from tests.e2e.stdio_client import META, connected, started
from tests.each import each
from tests.fault.behaviours import Body
from tests.fault.methods import METHODS, Rpc
from tests.fault.scripted import ScriptedBackend
from tests.front import LEGACY, MODERN, built, ground
from tests.starts import CLOSED
from tests.starts import started as start
from tests.waiting import PATIENCE

QUICK = ("catalog.ttl=100ms", "mcp.heartbeat=100ms")
ISSUER = ("--set", "auth.issuers=[{issuer: https://login.example.com}]", "--set", "backend.credentials.mode=none")
ERAS = pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    async with Backend() as running:
        yield running


async def happens(event: asyncio.Event) -> None:
    async with asyncio.timeout(PATIENCE):
        await event.wait()


async def test_both_eras_list_and_call_on_one_connection(backend: Backend) -> None:
    async with connected(backend.url) as client:
        assert (await client.initialize())["result"]["protocolVersion"] == LEGACY
        assert (await client.ask("ping"))["result"] == {}
        assert (await client.ask("server/discover", {"_meta": META}))["result"]["supportedVersions"] == [MODERN]
        for meta in ({}, {"_meta": META}):
            listed = (await client.ask("tools/list", meta))["result"]["tools"]
            assert [tool["name"] for tool in listed] == backend.names
            called = await client.ask("tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}, **meta})
            assert called["result"]["structuredContent"] == {"sum": 5}
        await client.close()
        assert [message["id"] for message in client.received] == list(range(1, len(client.received) + 1))


async def test_a_message_that_cannot_be_read_gets_an_error_and_the_next_one_its_answer(backend: Backend) -> None:
    async with connected(backend.url, "server.max_body=2048") as client:
        await client.send(b"{nonsense\n", b"\n", b'{"jsonrpc": "2.0", "id": null, "method": "ping"}\n')
        await client.send(b'"' + b"x" * 100_000 + b'"\n')
        await client.notify("notifications/nobody/knows")
        await client.send({"jsonrpc": "1.0", "method": "no/answer"}, {"jsonrpc": "2.0", "id": 9, "result": {}})
        assert (await client.ask("ping"))["result"] == {}
        errors = [message for message in client.received if "error" in message]
        assert [error["error"]["code"] for error in errors] == [-32700, -32600, 413]
        assert not any("id" in error for error in errors)
        assert "longer than" in errors[2]["error"]["message"]
        await client.close()
        assert len(client.received) == 4


@ERAS
async def test_a_slow_call_delays_no_other_message(backend: Backend, modern: bool) -> None:
    async with connected(backend.url) as client:
        await client.initialize()
        slow = await client.request(
            "tools/call", {"name": "slow", "arguments": {"token": "t"}, **({"_meta": META} if modern else {})}
        )
        assert (await client.call("await_slow", modern=modern, token="t"))["structuredContent"] == {"happened": True}
        assert (await client.ask("ping"))["result"] == {}
        backend.call("t").release.set()
        assert (await client.response(slow))["result"]["structuredContent"] == {"happened": True}


@ERAS
async def test_a_cancelled_call_stops_at_the_service_and_gets_no_answer(backend: Backend, modern: bool) -> None:
    async with connected(backend.url) as client:
        if not modern:
            await client.initialize()
        meta = {"progressToken": "p", **(META if modern else {})}
        slow = await client.request("tools/call", {"name": "slow", "arguments": {"token": "t"}, "_meta": meta})
        await happens(backend.call("t").started)
        await client.notify("notifications/cancelled", requestId=slow)
        await happens(backend.call("t").stopped)
        await client.call("add", modern=modern, a=1, b=1)
        await client.close()
        assert not [message for message in client.received if message.get("id") == slow]


@ERAS
async def test_progress_is_told_before_the_result(backend: Backend, modern: bool) -> None:
    async with connected(backend.url, *QUICK) as client:
        if not modern:
            await client.initialize()
        meta = {"progressToken": "p", **(META if modern else {})}
        slow = await client.request("tools/call", {"name": "slow", "arguments": {"token": "t"}, "_meta": meta})
        told = await client.message(lambda one: one.get("params", {}).get("progress") == 1)
        assert told["params"]["progressToken"] == "p"
        backend.call("t").release.set()
        assert "result" in await client.response(slow)


async def test_an_older_client_hears_of_changed_tools_once(backend: Backend) -> None:
    async with connected(backend.url, *QUICK) as client:
        await client.initialize()
        await client.ask("tools/list")
        await client.call("grow", name="fresh")
        assert await client.notification("notifications/tools/list_changed") == {
            "jsonrpc": "2.0",
            "method": "notifications/tools/list_changed",
        }
        assert "fresh" in [tool["name"] for tool in (await client.ask("tools/list"))["result"]["tools"]]
        await client.close()
        assert len([one for one in client.received if one.get("method", "").endswith("list_changed")]) == 1


async def test_notices_that_were_refused_come_once_there_is_room_for_them(backend: Backend) -> None:
    async with connected(backend.url, *QUICK, "limits.streams=1") as client:
        id = await client.request("subscriptions/listen", {"_meta": META, "notifications": {}})
        await client.notification("notifications/subscriptions/acknowledged")
        await client.initialize()
        await client.ask("ping")
        await client.notify("notifications/cancelled", requestId=id)
        await client.ask("tools/list")
        await client.ask("ping")
        await client.call("grow", name="fresh")
        await client.notification("notifications/tools/list_changed")


async def test_a_session_that_is_good_no_more_is_opened_again_in_its_revision(backend: Backend) -> None:
    service = await built(load_settings(None, ground(backend.url), environ={}).by_mount[""])
    answers: list[dict[str, Any]] = []
    subject = "before"

    async def caller() -> Caller:  # a session is one subject's
        return Caller(principal=Principal("https://i", subject, "c", frozenset(), math.inf, AccessToken("t")))

    async def send(line: bytes) -> None:
        answers.append(json.loads(line))

    conversation = Conversation(service.site.endpoint, caller, send, 1000)
    initialize = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    await conversation.receive(message("initialize", initialize))
    subject = "after"
    await conversation.receive(message("tools/list", {}))
    await conversation.finish(PATIENCE)
    await conversation.close()
    await service.close()
    add = next(tool for tool in answers[1]["result"]["tools"] if tool["name"] == "add")
    assert "outputSchema" in add  # without a session, the revision would be 2025-03-26, which has none


def message(method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params}).encode()


async def test_a_subscription_is_acknowledged_told_of_changes_and_ended_by_its_client(backend: Backend) -> None:
    async with connected(backend.url, *QUICK) as client:
        wanted = {"_meta": META, "notifications": {"toolsListChanged": True}}
        for id in ("one", "two"):
            await client.request("subscriptions/listen", wanted, id)
        subscribed = {"io.modelcontextprotocol/subscriptionId": "two"}
        acknowledged = await client.message(lambda one: one.get("params", {}).get("_meta") == subscribed)
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        await client.notify("notifications/cancelled", requestId="one")
        await client.ask("tools/list", {"_meta": META})
        await client.call("grow", modern=True, name="fresh")
        changed = await client.notification("notifications/tools/list_changed")
        assert changed["params"]["_meta"] == subscribed
        await client.close()
        assert not [message for message in client.received if message.get("id") == "one"]


async def test_the_end_of_a_subscription_by_the_gateway_is_told(backend: Backend) -> None:
    async with connected(backend.url) as client:
        id = await client.request("subscriptions/listen", {"_meta": META, "notifications": {}})
        await client.notification("notifications/subscriptions/acknowledged")
        client.stop.set()
        await client.rest()
        result, cancelled = client.received[-2:]
        assert (result["id"], result["result"]["resultType"]) == (id, "complete")
        assert (cancelled["method"], cancelled["params"]) == ("notifications/cancelled", {"requestId": id})


async def test_the_requests_under_way_are_bounded(backend: Backend) -> None:
    async with connected(backend.url, "limits.streams=1000") as client:
        for number in range(MAX_UNDER_WAY + 1):
            await client.request("subscriptions/listen", {"_meta": META, "notifications": {}}, f"s{number}")
        refused = await client.response(f"s{MAX_UNDER_WAY}")
        assert refused["error"]["message"] == f"Too many requests under way, at most {MAX_UNDER_WAY}"
        await client.notify("notifications/cancelled", requestId="s0")
        assert (await client.ask("ping"))["result"] == {}
        await client.request("subscriptions/listen", {"_meta": META, "notifications": {}}, "another")
        subscribed = {"io.modelcontextprotocol/subscriptionId": "another"}
        await client.message(lambda one: one.get("params", {}).get("_meta") == subscribed)


async def test_what_was_asked_before_the_input_ended_is_answered(backend: Backend) -> None:
    async with connected(backend.url) as client:
        await client.request("tools/call", {"name": "slow", "arguments": {"token": "t"}, "_meta": META})
        await happens(backend.call("t").started)
        client.writer.close()
        backend.call("t").release.set()
        await client.rest()
        assert client.received[-1]["result"]["structuredContent"] == {"happened": True}


@ERAS
async def test_it_ends_when_nobody_reads_its_output_any_more(backend: Backend, modern: bool) -> None:
    async with connected(backend.url) as client:
        meta = {"_meta": META} if modern else {}
        await client.request("tools/call", {"name": "slow", "arguments": {"token": "t"}, **meta})
        await happens(backend.call("t").started)
        client.incoming.close()
        await happens(backend.call("t").stopped)
        await client.serving


@pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "non-blocking"])
async def test_a_reader_that_is_slow_delays_no_other_work_of_the_process(backend: Backend, *, blocking: bool) -> None:
    async with connected(backend.url, blocking=blocking) as client:
        client.incoming.pause_reading()
        value = {"value": "x" * 500_000}  # more than a pipe holds
        await client.request("tools/call", {"name": "echo", "arguments": value, "_meta": META}, "large")
        await client.request("tools/call", {"name": "slow", "arguments": {"token": "t"}, "_meta": META})
        await happens(backend.call("t").started)
        client.incoming.resume_reading()
        assert value["value"] in (await client.response("large"))["result"]["content"][0]["text"]


async def test_a_reader_that_is_slow_gets_whole_lines_from_the_process(backend: Backend) -> None:
    reading, writing = os.pipe()
    async with started(backend.url, stdout=writing) as (client, _):
        os.close(writing)
        value = {"value": "x" * 500_000}  # more than a pipe holds
        await client.request("tools/call", {"name": "echo", "arguments": value, "_meta": META}, "large")
        await client.request("tools/call", {"name": "slow", "arguments": {"token": "t"}, "_meta": META})
        await happens(backend.call("t").started)
        backend.call("t").release.set()
        client.writer.close()
        with os.fdopen(reading, "rb") as output:
            async with asyncio.timeout(PATIENCE):
                lines = (await asyncio.to_thread(output.read)).splitlines()
    answers = {answer["id"]: answer["result"] for answer in map(json.loads, lines)}
    assert value["value"] in answers.pop("large")["content"][0]["text"]
    assert len(answers) == 1


async def test_sigterm_ends_the_process_although_its_client_reads_nothing(backend: Backend) -> None:
    reading, writing = os.pipe()
    async with started(backend.url, stdout=writing) as (client, process):
        os.close(writing)
        value = {"value": "x" * 500_000}  # more than a pipe holds
        await client.request("tools/call", {"name": "echo", "arguments": value, "_meta": META})
        await client.request("tools/call", {"name": "slow", "arguments": {"token": "t"}, "_meta": META})
        await happens(backend.call("t").started)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0
    os.close(reading)


@each("closed", ["given", "output"])
async def test_a_stream_that_is_closed_is_said(closed: str) -> None:
    streams = {"given": PIPE, "output": PIPE, "errors": PIPE, closed: CLOSED}
    process = await start("stdio", "http://127.0.0.1:9/", **streams)
    async with asyncio.timeout(PATIENCE):
        _, said = await process.communicate(b"x" if process.stdin else None)
    assert process.returncode == 2
    assert b"Standard input and output must be open" in said


async def test_the_process_prints_nothing_but_messages_and_reads_no_configuration_of_its_folder(
    backend: Backend, tmp_path: Path
) -> None:
    (tmp_path / "gateway.yaml").write_text("nonsense: true")
    async with started(backend.url, cwd=tmp_path) as (client, process):
        await client.initialize()
        await client.call("add", a=1, b=1)
        await client.close()  # each line that comes is read as JSON
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0
        assert len(client.received) == 2


async def test_results_with_line_ends_are_one_line() -> None:
    pretty = json.dumps({"jsonrpc": "2.0", "id": "@ID@", "result": {"deep": ["a\nb"]}}, indent=2).encode()
    async with ScriptedBackend((*METHODS, Rpc("pretty"))) as backend:
        backend.on("pretty", Body(pretty.replace(b'"@ID@"', b"@ID@")))
        async with connected(backend.url) as client:
            called = await client.call("pretty", modern=True)
            assert called["structuredContent"] == {"deep": ["a\nb"]}
            await client.close()
            assert len(client.received) == 1


async def test_the_token_of_the_environment_or_of_a_file_is_sent_to_a_service_without_a_configuration(
    backend: Backend, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("from-the-file\n")
    for arguments, sent in (((), "from-the-environment"), (("--token-file", str(file)), "from-the-file")):
        async with started(backend.url, *arguments, GATEWAY_TOKEN="from-the-environment") as (client, _):
            await client.call("add", modern=True, a=1, b=1)
            assert backend.requests[-1].headers.get("authorization") == f"Bearer {sent}"


@each(
    ("arguments", "said"),
    [
        ((), "backend.url: is required"),
        (("http://127.0.0.1:1/x", "--token-file", "/nowhere/token"), "--token-file /nowhere/token: No such file"),
        (("http://127.0.0.1:1/x", "--token-file", __file__), "does not hold one access token on one line"),
        (("127.0.0.1:1/x",), "127.0.0.1:1/x is not a URL: it begins with http:// or https://"),
        (("http://127.0.0.1:1/x", *ISSUER), "A token is needed here (auth.anonymous is none): give --token-file"),
    ],
)
def test_what_cannot_work_is_said_at_once_on_standard_error(arguments: tuple[str, ...], said: str) -> None:
    ran = CliRunner(env={"GATEWAY_TOKEN": None}).invoke(main, ["stdio", *arguments])
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert said in ran.stderr
