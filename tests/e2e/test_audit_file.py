"""The audit of a process: a kill loses no call that was begun, a rotation loses no line, and stdio keeps stdout."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import aiohttp

from tests.fault.scripted import ScriptedBackend
from tests.program import run, serving, settings
from tests.waiting import until


async def test_a_kill_loses_no_call_that_was_begun(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    knobs = (f"telemetry.audit.to={file}", "telemetry.audit.required=true", "limits.invocation=100000/second")
    async with ScriptedBackend() as backend, serving(backend.url, *knobs) as (program, gateway):

        async def keep_calling(number: int) -> None:
            while True:
                await gateway.call("modern", "add", {"a": number, "b": 1})

        callers = [asyncio.create_task(keep_calling(number)) for number in range(8)]
        for moved in ("first", "second"):
            already = backend.calls("add")
            await until(lambda most=already + 100: backend.calls("add") >= most)
            file.rename(tmp_path / moved)
            program.signal(signal.SIGHUP)
            await until(file.exists)
        program.signal(signal.SIGKILL)
        await program.ended()
        ends = await asyncio.gather(*callers, return_exceptions=True)
        assert all(isinstance(end, aiohttp.ClientError) for end in ends)
        ran = backend.calls("add")
    files = [(tmp_path / name).read_text() for name in ("first", "second", file.name)]
    lines = [json.loads(line) for text in files for line in text.splitlines()]
    begun = {line["call_id"] for line in lines if line["event"] == "begun"}
    ended = {line["call_id"] for line in lines if line["event"] == "ended"}
    assert ran >= 200
    assert len(begun) >= ran
    assert ended <= begun
    assert len(begun - ended) <= 8, "a call that ended long before the kill has no line"


async def test_lines_on_standard_output_stand_beside_the_log(tmp_path: Path) -> None:
    async with (
        ScriptedBackend() as backend,
        serving(backend.url, "telemetry.audit.to=stdout") as (program, gateway),
    ):
        await gateway.call("rest", "add", {"a": 1, "b": 2})
        line = await program.logged("call")
    assert (line["tool"], line["outcome"]) == ("add", "ok")


async def test_stdio_refuses_an_audit_on_standard_output() -> None:
    async with ScriptedBackend() as backend:
        ran = await run("stdio", *settings(backend.url, "telemetry.audit.to=stdout"))
    assert ran.code == 2
    assert "telemetry.audit.to: stdout belongs to the client here. Name a file" in ran.err
