"""The audit: a line for each call, what it says, what it never says, and what happens where it cannot be written."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gateway.config.source import ConfigError
from gateway.errors import AuditUnavailable
from gateway.telemetry import audit
from gateway.telemetry.record import CALL, Record
from tests.each import each
from tests.fault.behaviours import Hang, error, result
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, front
from tests.virtual_time import virtually
from tests.waiting import until

SCHEMA = json.loads((Path(__file__).parents[2] / "config" / "audit.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker())
CALLS = ("begun", "ended", "call")


def lines(*files: Path) -> list[dict[str, Any]]:
    """Every line of the files. Each is checked against the schema."""
    read = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    for line in read:
        VALIDATOR.validate(line)
    return read


async def calls(file: Path, number: int) -> list[dict[str, Any]]:
    """The lines of calls, once there are as many."""
    return await until(
        lambda: [line for line in lines(file) if line["event"] in CALLS], lambda seen: len(seen) >= number
    )


def mode_of(file: Path) -> int:
    return file.stat().st_mode & 0o777


def rotate(file: Path, moved: Path) -> None:
    """Rename the file, and do what SIGHUP does."""
    file.rename(moved)
    auditor = audit.active
    assert auditor is not None
    auditor.reopen()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


async def test_each_surface_and_each_outcome_has_a_line(backend: ScriptedBackend, file: Path) -> None:
    backend.on("echo", error(-32000, "no"))
    async with front(backend.url, f"telemetry.audit.to={file}") as gateway:
        for surface in SURFACES:
            await gateway.call(surface, "add", {"a": 1, "b": 2})
        await gateway.post(f"{gateway.base}/jsonrpc", {"jsonrpc": "2.0", "id": 1, "method": "add", "params": [1, 2]})
        await gateway.post(f"{gateway.mcp}/tools/add", {"jsonrpc": "2.0", "id": 1, "method": "add", "params": [1, 2]})
        await gateway.call("rest", "echo", {"value": 1})
        await gateway.call("rest", "add", {"a": "one"})
        await gateway.call("rest", "no such tool", {})
        await gateway.tools()
        found = await calls(file, 8)
    assert [line["surface"] for line in found] == ["mcp", "mcp", "rest", "jsonrpc", "tool", "rest", "rest", "rest"]
    assert [line["outcome"] for line in found] == ["ok"] * 5 + [
        "execution_error",
        "invalid_arguments",
        "tool_not_found",
    ]
    assert [line["sent"] for line in found] == [True] * 6 + [False, False]
    assert [line["method"] for line in found] == ["add"] * 5 + ["echo", "add", ""]
    assert {line["address"] for line in found} == {"127.0.0.1"}
    assert all("arguments" not in line for line in found)
    assert lines(file)[0]["event"] == "opened"
    assert mode_of(file) == 0o600


async def test_each_call_of_a_batch_has_a_line(backend: ScriptedBackend, file: Path) -> None:
    batch = [{"jsonrpc": "2.0", "id": n, "method": "add", "params": {"a": n, "b": 0}} for n in range(3)]
    async with front(backend.url, f"telemetry.audit.to={file}", "telemetry.audit.arguments=all") as gateway:
        await gateway.post(f"{gateway.base}/jsonrpc", batch)
        found = await calls(file, 3)
    assert [line["arguments"]["a"] for line in found] == [0, 1, 2]
    assert len({line["request_id"] for line in found}) == 1


async def test_arguments_are_shown_as_chosen(backend: ScriptedBackend, file: Path) -> None:
    sent = {"value": {"b": 1, "password": "hunter2", "nested": [{"api_key": "k", "page": 2}]}}
    clean = {"value": {"b": 1, "password": "***", "nested": [{"api_key": "***", "page": 2}]}}
    canonical = json.dumps(sent, sort_keys=True, separators=(",", ":")).encode()
    digest = {"sha256": hashlib.sha256(canonical).hexdigest(), "bytes": len(canonical)}
    backend.on("echo", result(1))
    for shown, expected in {"digest": digest, "named": {}, "all": clean}.items():
        file = file.with_name(shown)
        async with front(backend.url, f"telemetry.audit.to={file}", f"telemetry.audit.arguments={shown}") as gateway:
            await gateway.call("rest", "echo", sent)
            (line,) = await calls(file, 1)
        assert line["arguments"] == expected, shown


async def test_named_arguments_are_those_that_the_operator_names_by_their_published_names(
    backend: ScriptedBackend, file: Path
) -> None:
    knobs = ("telemetry.audit.arguments=named", "catalog.tools.add.audit=[b, password]")
    async with front(backend.url, f"telemetry.audit.to={file}", *knobs) as gateway:
        await gateway.call("modern", "add", {"a": 1, "b": 2})
        (line,) = await calls(file, 1)
    assert line["arguments"] == {"b": 2}


async def test_large_arguments_are_a_digest_and_signed_tokens_are_left_out(
    backend: ScriptedBackend, file: Path
) -> None:
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"
    backend.on("echo", result(1))
    async with front(backend.url, f"telemetry.audit.to={file}", "telemetry.audit.arguments=all") as gateway:
        await gateway.call("rest", "echo", {"value": "x" * audit.MAX_ARGUMENTS})
        await gateway.call("rest", "echo", {"value": f"Bearer {token}."})
        large, signed = await calls(file, 2)
    assert large["arguments"].keys() == {"sha256", "bytes"}
    assert signed["arguments"] == {"value": "Bearer ***."}


async def test_a_required_line_is_there_before_the_service_is_asked(backend: ScriptedBackend, file: Path) -> None:
    async with front(backend.url, f"telemetry.audit.to={file}", "telemetry.audit.required=true") as gateway:
        held = asyncio.Event()
        backend.on("add", Hang("nothing", event=held))
        calling = asyncio.create_task(gateway.call("modern", "add", {"a": 1, "b": 2}))
        await backend.called("add")
        (begun,) = [line for line in lines(file) if line["event"] in CALLS]
        held.set()
        await calling
        _, ended = await calls(file, 2)
    assert (begun["event"], ended["event"]) == ("begun", "ended")
    assert begun["call_id"] == ended["call_id"]
    assert ended["outcome"] == "ok"


async def test_a_required_line_that_cannot_be_written_stops_the_call_and_no_other_request(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    async with front(backend.url, f"telemetry.audit.to={pipe}", "telemetry.audit.required=true") as gateway:
        assert (await gateway.call("rest", "add", {"a": 1, "b": 2})).status == 200
        os.close(reader)
        refused = await gateway.call("rest", "add", {"a": 1, "b": 2})
        assert (refused.status, refused.code) == (503, "audit_unavailable")
        assert refused.headers["Retry-After"] == "5"
        assert (await gateway.call("modern", "add", {"a": 1, "b": 2})).status == 503
        assert "add" in await gateway.tools()
    assert backend.calls("add") == 1


async def test_no_call_is_sent_while_a_deleted_file_cannot_be_opened_anew(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    file = tmp_path / "of the audit" / "audit.jsonl"
    file.parent.mkdir()
    async with front(backend.url, f"telemetry.audit.to={file}", "telemetry.audit.required=true") as gateway:
        assert (await gateway.call("rest", "add", {"a": 1, "b": 2})).status == 200
        await calls(file, 2)
        shutil.rmtree(file.parent)
        assert (await gateway.call("rest", "add", {"a": 1, "b": 2})).code == "audit_unavailable"
        file.parent.mkdir()
        assert (await gateway.call("rest", "add", {"a": 1, "b": 2})).status == 200
        assert "begun" in {line["event"] for line in lines(file)}
    assert backend.calls("add") == 2


async def test_a_pipe_in_place_of_a_deleted_file_is_written_to_without_haste(tmp_path: Path) -> None:
    file = tmp_path / "audit"
    auditor = audit.Audit(str(file), required=True)
    file.unlink()
    os.mkfifo(file)
    reader = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    for _ in range(300):
        auditor.end(Record("r" * 400, method=CALL, tool="t"))
    await asyncio.sleep(0.3)
    began = time.process_time()
    await asyncio.sleep(0.5)
    assert time.process_time() - began < 0.1
    os.close(reader)
    file.unlink()
    with pytest.raises(AuditUnavailable):
        await auditor.begin(Record("r", method=CALL, tool="t"))
    assert not file.exists(), "who reads a pipe makes it anew"
    auditor.close()


@virtually
async def test_a_pipe_that_is_full_and_that_nobody_reads_refuses_a_call_within_the_bound() -> None:
    """As a file on a network disk does that hangs."""
    reader, writer = os.pipe()
    auditor = audit.Audit(f"/dev/fd/{writer}", required=True)
    os.set_blocking(writer, False)
    more = bytes(1024 * 1024)
    filled = os.write(writer, more)
    assert filled < len(more)
    given_up = Record("r", method=CALL, tool="given up")
    with pytest.raises(AuditUnavailable):
        await auditor.begin(given_up)
    assert asyncio.get_running_loop().time() == audit.WRITE_TIMEOUT
    for _ in range(20_000):
        auditor.end(given_up)
    assert auditor.lost > 0
    os.read(reader, 2 * filled)
    while b'"lost"' not in (seen := os.read(reader, 1024 * 1024)):
        assert b"given up" in seen
        assert b'"begun"' not in seen
    os.write(writer, more)
    lost = auditor.lost
    auditor.end(given_up)
    auditor.close()  # nobody reads, and it ends
    assert auditor.lost == lost + 1
    os.close(reader)
    os.close(writer)


async def test_a_rotation_loses_no_line(backend: ScriptedBackend, file: Path) -> None:
    moved = file.with_suffix(".1")
    async with front(backend.url, f"telemetry.audit.to={file}") as gateway:
        for number in range(60):
            if number == 30:
                rotate(file, moved)
            await gateway.call("rest", "add", {"a": number, "b": 0})
    assert sum(line["event"] == "call" for line in lines(moved, file)) == 60
    assert lines(file)


async def test_two_writers_write_whole_lines_to_one_file(file: Path) -> None:
    def put(auditor: audit.Audit) -> None:
        for _ in range(500):
            record = Record("r" * 200, method=CALL, tool="t", surface="mcp", started=1.0, ended=2.0)
            auditor.end(record)

    both = [audit.Audit(str(file), required=required) for required in (False, True)]
    await asyncio.gather(*(asyncio.to_thread(put, auditor) for auditor in both))
    for auditor in both:
        auditor.close()
    assert sum(line["event"] == "call" for line in lines(file)) == 1000


@each("to", ["{}/none/file", "{}", "{}/pipe", "/dev/full"])
async def test_a_place_that_cannot_be_written_is_a_fault_that_names_the_remedy(
    to: str, backend: ScriptedBackend, tmp_path: Path
) -> None:
    if not (tmp_path / "pipe").exists():
        os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match=r"telemetry\.audit\.to: .*Name a file that"):
        async with front(backend.url, f"telemetry.audit.to={to.format(tmp_path)}"):
            pass
    assert audit.active is None
