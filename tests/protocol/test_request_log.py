"""The line of each request: what it says, and that nothing a stranger sends breaks it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from tests.each import each
from tests.fault.behaviours import error, result
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Surface, front
from tests.protocol.catalog import METHODS
from tests.protocol.conftest import Connect
from tests.protocol.talk import CLIENT, LEGACY, MODERN, Client, exchange, legacy_headers, modern_headers, modern_request
from tests.tables import each_row
from tests.waiting import PATIENCE

pytestmark = pytest.mark.usefixtures("both_servers")


FIELDS: Final = (
    "request_id", "trace_id", "http", "path", "status", "service", "era", "method", "tool", "client", "issuer",
    "subject", "outcome", "ms", "service_ms", "address", "revision", "bytes_in", "bytes_out", "attempts",
)  # fmt: skip
ADD: Final = {"name": "add", "arguments": {"a": 2, "b": 3}}
TRACE: Final = "0af7651916cd43dd8448eb211c80319c"
PARENT: Final = f"00-{TRACE}-b7ad6b7169203331-01"
MADE: Final = re.compile(r"[0-9a-f]{16}")


def lines_in(logs: list[Any]) -> list[dict[str, Any]]:
    """The lines of requests, without what structlog adds."""
    return [{name: line[name] for name in FIELDS} for line in logs if line["event"] == "request"]


async def call(client: Client, **headers: str) -> tuple[dict[str, Any], Any]:
    """The line of one call, and the answer."""
    with capture_logs() as logs:
        answer = await client.mcp(modern_request("tools/call", ADD), {**modern_headers("tools/call", "add"), **headers})
    (line,) = lines_in(logs)
    return line, answer


async def test_a_line_says_what_was_asked_by_whom_and_how_it_ended(client: Client) -> None:
    line, answer = await call(client)
    whole, of_service = line.pop("ms"), line.pop("service_ms")
    assert whole > of_service > 0
    assert line.pop("bytes_in") > line.pop("bytes_out") > 50
    assert line == {
        "request_id": answer.headers["X-Request-Id"],
        "trace_id": "",
        "http": "POST",
        "path": "/mcp",
        "status": 200,
        "service": "",
        "era": "modern",
        "method": "tools/call",
        "tool": "add",
        "client": "probe",
        "issuer": "",
        "subject": "",
        "outcome": "ok",
        "address": "127.0.0.1",
        "revision": "2026-07-28",
        "attempts": 1,
    }


async def test_a_line_names_the_address_also_where_the_request_found_no_service(client: Client) -> None:
    with capture_logs() as logs:
        await client.get("/nothing-here")
        await client.get("/mcp/tools/list", Host="evil.example.com")
    assert [(line["status"], line["address"]) for line in lines_in(logs)] == [(404, "127.0.0.1"), (421, "127.0.0.1")]


@each("which, outcomes", [("off", []), ("failures", ["tool_not_found"]), ("all", ["ok", "tool_not_found"])])
async def test_the_operator_chooses_which_requests_have_a_line(
    which: str, outcomes: list[str], connect: Connect
) -> None:
    client = await connect(f"telemetry.log.requests={which}")
    with capture_logs() as logs:
        for name in ("add", "no_such_tool"):
            params = {"name": name, "arguments": {"a": 2, "b": 3}}
            await client.mcp(modern_request("tools/call", params), modern_headers("tools/call", name))
    assert [line["outcome"] for line in lines_in(logs)] == outcomes


@each(
    ("given", "id"),
    [
        ({"X-Request-Id": "a-b_c.d:e/f+g=h@1~"}, "a-b_c.d:e/f+g=h@1~"),
        ({"X-Request-Id": "x" * 128}, "x" * 128),
        ({"traceparent": PARENT}, TRACE),
        ({"traceparent": f"01{PARENT[2:]}-more"}, TRACE),
        ({"X-Request-Id": "mine", "traceparent": PARENT}, "mine"),
        ({"X-Request-Id": "not mine", "traceparent": PARENT}, TRACE),
    ],
)
async def test_a_well_formed_id_is_kept_returned_and_sent_on(
    client: Client, backend: ScriptedBackend, given: dict[str, str], id: str
) -> None:
    line, answer = await call(client, **given)
    sent = backend.requests[-1].headers.getall("X-Request-Id")
    assert (line["request_id"], answer.headers["X-Request-Id"], sent) == (id, id, [id])


@each_row
async def test_any_other_request_gets_a_new_id(client: Client, backend: ScriptedBackend, given: dict[str, str]) -> None:
    ids = set()
    for _ in range(2):
        line, answer = await call(client, **given)
        assert MADE.fullmatch(line["request_id"])
        assert backend.requests[-1].headers["X-Request-Id"] == answer.headers["X-Request-Id"] == line["request_id"]
        ids.add(line["request_id"])
    assert len(ids) == 2


@each("path", ["/mcp", "/nope", "/mcp/tools/list", "/.well-known/oauth-protected-resource/mcp"])
async def test_each_answer_has_the_id(client: Client, path: str) -> None:
    answer = await client.get(path, **{"X-Request-Id": "mine", "Accept": "text/event-stream"})
    assert answer.headers.getall("X-Request-Id") == ["mine"]  # type: ignore[attr-defined]


async def test_a_stream_has_the_id_too_and_its_line_the_outcome_of_its_call(
    client: Client, backend: ScriptedBackend
) -> None:
    backend.on("add", error(-32000, "no"))
    asking = {**ADD, "_meta": {"progressToken": "p"}}
    with capture_logs() as logs:
        answer = await client.mcp(
            modern_request("tools/call", asking), {**modern_headers("tools/call", "add"), "X-Request-Id": "mine"}
        )
    assert answer.messages[-1]["result"]["isError"] is True
    (line,) = lines_in(logs)
    assert answer.headers["X-Request-Id"] == line["request_id"] == "mine"
    assert (line["tool"], line["outcome"]) == ("add", "execution_error")


@each("era", [MODERN, LEGACY[0]])
async def test_an_era_names_itself_and_an_older_client_is_known_by_its_session(client: Client, era: str) -> None:
    headers = modern_headers("tools/list")
    if era != MODERN:
        headers = legacy_headers(era, await client.initialize(era))
    body = modern_request("tools/list") if era == MODERN else {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    with capture_logs() as logs:
        await client.mcp(body, headers)
    (line,) = lines_in(logs)
    assert (line["era"], line["method"], line["client"]) == (
        "modern" if era == MODERN else "legacy",
        "tools/list",
        "probe",
    )


@each("surface", SURFACES)
async def test_a_failure_shows_on_each_surface(surface: Surface) -> None:
    """An HTTP status of 200 says nothing of the call."""
    async with ScriptedBackend((*METHODS, Rpc("show"))) as backend:
        backend.on("show", result({"content": [], "isError": True}))
        async with front(backend.url, "catalog.tools.show.mcp=[blocks]") as gateway:
            with capture_logs() as logs:
                for tool, arguments in (("add", ADD["arguments"]), ("fail", {}), ("add", {}), ("show", {})):
                    await gateway.call(surface, tool, arguments)  # type: ignore[arg-type]
    outcomes = [line["outcome"] for line in lines_in(logs)]
    assert outcomes == ["ok", "execution_error", "invalid_arguments", "tool_error"]


@each("surface", SURFACES)
async def test_only_a_result_that_is_content_of_mcp_can_say_that_the_call_failed(surface: Surface) -> None:
    """Elsewhere isError is a member like any other."""
    knobs = "catalog.tools={show: {mcp: [blocks]}, ask: {mcp: [input_required]}}"
    async with ScriptedBackend((*METHODS, Rpc("show"), Rpc("ask"))) as backend, front(backend.url, knobs) as gateway:
        outcomes = []
        for tool, value in (
            ("show", {"content": [], "isError": False}), ("show", {"content": []}), ("ask", {"isError": True}),
            ("show", {"content": [], "isError": True}),
        ):  # fmt: skip
            backend.on(tool, result(value))
            with capture_logs() as logs:
                await gateway.call(surface, tool, {})
            outcomes += [line["outcome"] for line in lines_in(logs)]
    assert outcomes == ["ok", "ok", "ok", "tool_error"]


async def test_a_refusal_and_an_unknown_tool_have_the_word_of_their_error(client: Client) -> None:
    with capture_logs() as logs:
        await client.modern("tools/call", {"name": "no_such", "arguments": {}})
        await client.modern("no/such")
        await client.get("/nope")
        await client.mcp(b"{")
    assert [(line["tool"], line["outcome"]) for line in lines_in(logs)] == [
        ("no_such", "tool_not_found"),
        ("", "method_not_found"),
        ("", "not_found"),
        ("", "invalid_json"),
    ]


@each("path", ["/jsonrpc", "/mcp"])
async def test_each_message_of_a_batch_has_a_line_and_the_batch_has_one(client: Client, path: str) -> None:
    names, method = ("void", "fail", "no_such", "void"), "tools/call" if path == "/mcp" else ""
    calls = [
        {"jsonrpc": "2.0", "id": n, "method": method or name, "params": {"name": name} if method else {}}
        for n, name in enumerate(names)
    ]
    with capture_logs() as logs:
        answer = await client.post(path, [*calls, {"jsonrpc": "2.0"}], legacy_headers("2025-03-26"))
    lines = lines_in(logs)
    unknown = "tool_not_found" if method else "method_not_found"
    assert [(line["method"], line["tool"], line["outcome"], line["status"]) for line in lines] == [
        ("tools/call", "void", "ok", 0),
        ("tools/call", "fail", "execution_error", 0),
        ("tools/call", "no_such", unknown, 0),
        ("tools/call", "void", "ok", 0),
        ("", "", "invalid_request", 0),
        ("batch", "", "ok", 200),
    ]
    assert {line["request_id"] for line in lines} == {answer.headers["X-Request-Id"]}


LONG: Final = "\u202e\x1b[2J\x9b1m\u2028\n" + "A" * 5000


async def test_what_strangers_choose_is_cut_and_has_no_control_characters(client: Client) -> None:
    with capture_logs() as logs:
        await client.mcp(
            modern_request("tools/call", {**ADD, "name": LONG, "_meta": {CLIENT: {"name": LONG, "version": "1"}}}),
            {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call"},
        )
        await client.mcp({"jsonrpc": "2.0", "id": 1, "method": LONG})
        await client.get(f"/mcp/tools/%1b%9b%0a{'A' * 5000}")
        await exchange(client.port, b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: \xff\xfe\r\n\r\n")
    lines = lines_in(logs)
    assert len(lines) == 4
    for line in lines:
        text = "".join(value for value in line.values() if isinstance(value, str))
        assert text.isprintable()
        assert len(text) < 1000


WRITE: Final = """
from gateway.telemetry import logs, record as records
logs.configure("info", {format!r})
for path in ("/mcp", "/a b=c", "/half\\ud800"):
    record = records.Record("id-1", "POST", path, "crm", "modern", "tools/call", "add", status=200)
    record.client = "pro\\nbe"
    records.end(record)
"""


def written(format: str) -> list[str]:
    script = WRITE.format(format=format)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=True)
    return ran.stderr.splitlines()


@pytest.mark.own_server("it starts no gateway")
def test_a_line_of_json_has_the_documented_fields_in_order() -> None:
    lines = [json.loads(line) for line in written("json")]
    assert [line["path"] for line in lines] == ["/mcp", "/a b=c", "/half"]
    for line in lines:
        assert tuple(line) == ("time", "level", "event", *FIELDS)
        assert (line["level"], line["event"], line["client"]) == ("info", "request", "pro be")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", line["time"])


@pytest.mark.own_server("it starts no gateway")
def test_a_line_of_text_leaves_out_what_is_not_known_and_quotes_what_has_spaces() -> None:
    plain, spaced, _ = written("text")
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d info    request request_id=id-1 http=POST path=/mcp status=200 service=crm era=modern "
        r"method=tools/call tool=add client='pro be' outcome=ok ms=[\d.]+ service_ms=0.0 "
        r"bytes_in=0 bytes_out=0 attempts=0",
        plain,
    )
    assert "path='/a b=c'" in spaced
