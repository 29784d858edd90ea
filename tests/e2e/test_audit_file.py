"""The audit of a process: a kill loses no call that was begun, a rotation loses no line, and stdio keeps stdout."""

from __future__ import annotations

import asyncio
import json
import resource
import signal
from pathlib import Path

import aiohttp

from tests.fault.scripted import ScriptedBackend
from tests.program import run, serving, settings
from tests.waiting import until

_CALLERS = 8


async def killed_between_rotations(folder: Path, calls: int, rotations: int) -> int:
    """Call a gateway whose audit is required from eight callers, rotate the audit after every share of the ``calls``,
    and kill the gateway. Return how many calls the service saw: each has its line ``begun`` in one of the files."""
    file = folder / "audit.jsonl"
    moved = [folder / f"audit.{number}" for number in range(rotations)]
    knobs = (f"telemetry.audit.to={file}", "telemetry.audit.required=true", "limits.invocation=100000/second")
    async with ScriptedBackend() as backend, serving(backend.url, *knobs) as (program, gateway):

        async def keep_calling(number: int) -> None:
            while True:
                await gateway.call("modern", "add", {"a": number, "b": 1})

        callers = [asyncio.create_task(keep_calling(number)) for number in range(_CALLERS)]
        for target in moved:
            already = backend.calls("add")
            await until(lambda most=already + calls // rotations: backend.calls("add") >= most)
            file.rename(target)
            program.signal(signal.SIGHUP)
            await until(file.exists)
        program.signal(signal.SIGKILL)
        await program.ended()
        ends = await asyncio.gather(*callers, return_exceptions=True)
        assert all(isinstance(end, aiohttp.ClientError) for end in ends)
        seen = backend.calls("add")
    lines = [json.loads(line) for one in (*moved, file) for line in one.read_text().splitlines()]
    begun = {line["call_id"] for line in lines if line["event"] == "begun"}
    ended = {line["call_id"] for line in lines if line["event"] == "ended"}
    assert seen >= calls
    assert len(begun) >= seen
    assert ended <= begun
    # A caller has one call under way, and the line of the one before may still have waited for its thread.
    assert len(begun - ended) <= 2 * _CALLERS, "a call that ended long before the kill has no line"
    return seen


async def test_a_kill_loses_no_call_that_was_begun(tmp_path: Path) -> None:
    await killed_between_rotations(tmp_path, calls=200, rotations=2)


async def test_a_line_that_a_full_disk_cut_is_ended_before_the_next_one(tmp_path: Path) -> None:
    file, cut = tmp_path / "audit.jsonl", '{"version'
    knobs = (f"telemetry.audit.to={file}", "telemetry.audit.required=true")
    async with ScriptedBackend() as backend, serving(backend.url, *knobs) as (program, gateway):
        none, most = resource.prlimit(program.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(program.pid, resource.RLIMIT_FSIZE, (file.stat().st_size + len(cut), most))
        refused = await gateway.call("rest", "add", {"a": 1, "b": 2})
        assert (refused.status, refused.code) == (503, "audit_unavailable")
        resource.prlimit(program.pid, resource.RLIMIT_FSIZE, (none, most))
        assert (await gateway.call("rest", "add", {"a": 3, "b": 4})).value == {"sum": 7}
        assert backend.calls("add") == 1
        _, second, *others = (await until(file.read_text, lambda text: '"ended"' in text)).splitlines()
    assert second == cut
    assert [json.loads(line)["event"] for line in others][-2:] == ["begun", "ended"]


async def test_a_deleted_file_and_a_full_disk_are_told_once_and_the_next_line_is_in_a_file_that_is_there(
    tmp_path: Path,
) -> None:
    file = tmp_path / "audit.jsonl"
    knobs = (f"telemetry.audit.to={file}", "telemetry.audit.required=true")
    async with ScriptedBackend() as backend, serving(backend.url, *knobs) as (program, gateway):
        file.unlink()
        await gateway.call("rest", "add", {"a": 1, "b": 2})
        assert '"begun"' in file.read_text()
        file.unlink()
        file.symlink_to("/dev/full")
        program.signal(signal.SIGHUP)
        opened = Path(f"/proc/{program.pid}/fd")
        await until(lambda: "/dev/full" in [str(one.readlink()) for one in opened.iterdir() if one.is_symlink()])
        for _ in range(10):
            assert (await gateway.call("rest", "add", {"a": 1, "b": 2})).code == "audit_unavailable"
        await program.logged("the audit cannot be written")
        program.signal(signal.SIGTERM)
        assert await program.ended() == 0
        told = [json.loads(line)["event"] for line in program.lines if "audit" in line]
        assert backend.calls("add") == 1
    for event in ("the file of the audit was deleted, and is opened anew", "the audit cannot be written"):
        assert told.count(event) == 1
    assert told.count("a call is refused, because the audit cannot be written") == 1
    assert "lines of the audit were lost, they could not be written" in told


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
