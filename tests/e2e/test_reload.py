"""A configuration that changes while the gateway serves."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.configuring import put
from tests.fault.scripted import ScriptedBackend
from tests.front import Called, Front
from tests.program import Program
from tests.waiting import PATIENCE, until

RELOADED = "configuration reloaded"


def written(file: Path, url: str, **sections: str) -> None:
    knobs = {
        "backend": f"{{url: '{url}'}}",
        "server": "{port: 0, admin_port: 0}",
        "auth": "{mode: off}",
        "limits": "{invocation: 100000/second, discovery: 1000/minute}",
    }
    put(file, "".join(f"{name}: {value}\n" for name, value in (knobs | sections).items()))


@asynccontextmanager
async def serving(file: Path, until: str = "listing refreshed") -> AsyncIterator[tuple[Program, Front]]:
    """``serve`` with the configuration in a file, once it has logged ``until``."""
    async with Program("serve", "--config", str(file)) as program, aiohttp.ClientSession() as session:
        await program.logged(until)
        yield program, Front((await program.logged("gateway started"))["port"], session)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "gateway.yaml"


async def listing_is_refused(gateway: Front) -> bool:
    async with aiohttp.ClientSession() as session, session.get(f"{gateway.mcp}/tools/list") as response:
        return response.status == 429


async def calls_until(done: asyncio.Event, gateway: Front) -> list[Called]:
    calls = []
    while not done.is_set():
        calls.append(await gateway.call("modern", "add", {"a": 2, "b": 3}))
    return calls


async def test_a_changed_file_swaps_the_limit_under_load_without_a_failed_call(
    backend: ScriptedBackend, file: Path
) -> None:
    written(file, backend.url)
    async with serving(file) as (program, gateway):
        assert not await listing_is_refused(gateway)
        done = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            load = [group.create_task(calls_until(done, gateway)) for _ in range(4)]
            written(file, backend.url, limits="{invocation: 100000/second, discovery: 1/minute}")
            entry = await program.logged(RELOADED)
            await until(lambda: listing_is_refused(gateway))
            done.set()
        assert entry["changed"] == ["limits.discovery"]
        calls = [call for task in load for call in task.result()]
        assert len(calls) > 20
        assert all(call.status == 200 and call.value == {"sum": 5} for call in calls)


async def test_a_faulty_file_changes_nothing_and_every_fault_is_in_the_log(
    backend: ScriptedBackend, file: Path
) -> None:
    written(file, backend.url)
    async with serving(file) as (program, gateway):
        written(file, backend.url, limits="{invocation: 100000/second, discovery: often}", catalog="{tll: 1m}")
        entry = await program.logged("configuration refused, the old one stays")
        faults = "\n".join(entry["faults"])
        assert "limits.discovery" in faults
        assert "catalog.tll" in faults
        assert RELOADED not in program.output
        assert not await listing_is_refused(gateway)
        assert (await gateway.call("rest", "add", {"a": 2, "b": 3})).value == {"sum": 5}


@pytest.mark.parametrize(
    ("mode", "told"),
    [("statik", "did you mean static?"), ("static", "needs send"), ("same_resource", "there are none")],
)
async def test_a_faulty_mode_of_credentials_changes_nothing(
    backend: ScriptedBackend, file: Path, mode: str, told: str
) -> None:
    written(file, backend.url)
    async with serving(file) as (program, gateway):
        credentials = f"{{url: '{backend.url}', credentials: {{mode: {mode}}}}}"
        written(file, backend.url, backend=credentials, limits="{invocation: 100000/second, discovery: 1/minute}")
        entry = await program.logged("configuration refused, the old one stays")
        (fault,) = entry["faults"]
        assert fault.startswith("backend.credentials")
        assert told in fault
        assert RELOADED not in program.output
        assert (await gateway.call("rest", "add", {"a": 2, "b": 3})).value == {"sum": 5}
        for _ in range(3):
            assert not await listing_is_refused(gateway)


async def test_knobs_of_the_process_keep_their_values_until_a_restart_and_each_is_named(
    backend: ScriptedBackend, file: Path
) -> None:
    written(file, backend.url)
    async with serving(file) as (program, gateway):
        knobs = "{port: 0, admin_port: 0, max_body: 65536, shutdown_timeout: 1s}"
        written(
            file,
            backend.url,
            server=knobs,
            limits="{invocation: 100000/second, discovery: 500/minute}",
        )
        entry = await program.logged(RELOADED)
        assert entry["changed"] == ["limits.discovery"]
        kept = "knob keeps its old value until a restart"
        named = {(await program.logged(kept, number))["knob"] for number in (1, 2)}
        assert named == {"server.max_body", "server.shutdown_timeout"}
        large = await gateway.call("rest", "echo", {"value": "x" * 100_000})
        assert large.value == "x" * 100_000


async def test_hosts_and_origins_change_without_a_restart(backend: ScriptedBackend, file: Path) -> None:
    written(file, backend.url)
    page = {"Origin": "https://app.example.com", "Host": "intern.example.net"}
    async with serving(file) as (program, gateway):
        assert (await gateway.call("rest", "add", {"a": 2, "b": 3}, page)).status in (403, 421)
        allowed = "allowed_hosts: [intern.example.net], allowed_origins: ['https://app.example.com']"
        written(file, backend.url, server=f"{{port: 0, admin_port: 0, {allowed}}}")
        assert (await program.logged(RELOADED))["changed"] == ["server.allowed_hosts", "server.allowed_origins"]
        assert (await gateway.call("rest", "add", {"a": 2, "b": 3}, page)).value == {"sum": 5}


async def test_another_backend_takes_the_calls_of_the_first_without_a_failed_one(
    backend: ScriptedBackend, file: Path
) -> None:
    written(file, backend.url)
    async with serving(file) as (program, gateway), ScriptedBackend() as other:
        done = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            load = [group.create_task(calls_until(done, gateway)) for _ in range(4)]
            async with asyncio.timeout(PATIENCE):
                await backend.called("add", 20)
                written(file, other.url)
                assert (await program.logged(RELOADED))["changed"] == ["backend.url"]
                await other.called("add", 20)
            done.set()
        calls = [call for task in load for call in task.result()]
        assert all(call.status == 200 and call.value == {"sum": 5} for call in calls)
        assert len(calls) == backend.calls("add") + other.calls("add")
        before = backend.calls("add")
        await gateway.call("rest", "add", {"a": 2, "b": 3})
        assert backend.calls("add") == before


@pytest.mark.parametrize(
    ("section", "text", "changed"),
    [
        ("mcp", "{heartbeat: 5s, server: {name: shop}}", ["mcp.server.name", "mcp.heartbeat"]),
        ("limits", "{invocation: 100000/second, discovery: 1000/minute, streams: 3}", ["limits.streams"]),
        ("catalog", "{ttl: 7m, page_size: 1}", ["catalog.ttl", "catalog.page_size"]),
        ("auth", "{mode: 'off', allow_unauthenticated: true}", ["auth.allow_unauthenticated"]),
    ],
    ids=["mcp", "limits", "catalog", "auth"],
)
async def test_every_section_of_a_service_changes_without_a_restart(
    backend: ScriptedBackend, file: Path, section: str, text: str, changed: list[str]
) -> None:
    written(file, backend.url)
    async with serving(file) as (program, gateway):
        written(file, backend.url, **{section: text})
        assert set((await program.logged(RELOADED))["changed"]) == set(changed)
        assert "until a restart" not in program.output
        assert (await gateway.call("modern", "add", {"a": 2, "b": 3})).value == {"sum": 5}


async def test_curation_changes_the_tools_without_asking_the_backend_again(
    backend: ScriptedBackend, file: Path
) -> None:
    written(file, backend.url)
    async with serving(file) as (program, gateway):
        asked = backend.calls("rpc.discover")
        assert "echo" in await gateway.tools()
        written(file, backend.url, catalog="{exclude: [echo], tools: {add: {title: Addition}}}")
        await program.logged(RELOADED)
        tools = await gateway.tools()
        assert "echo" not in tools
        assert tools["add"]["title"] == "Addition"
        assert backend.calls("rpc.discover") == asked


async def test_a_config_map_that_is_swapped_by_its_link_is_read_anew(backend: ScriptedBackend, tmp_path: Path) -> None:
    """Kubernetes mounts gateway.yaml -> ..data/gateway.yaml, and moves ..data to another folder."""
    for number in (1, 2):
        (tmp_path / f"..{number}").mkdir()
        written(
            tmp_path / f"..{number}" / "gateway.yaml",
            backend.url,
            limits=f"{{invocation: 100000/second, discovery: {number * 100}/minute}}",
        )
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "gateway.yaml").symlink_to("..data/gateway.yaml")
    async with serving(tmp_path / "gateway.yaml") as (program, _):
        (tmp_path / "..data_tmp").symlink_to("..2")
        (tmp_path / "..data_tmp").replace(tmp_path / "..data")
        assert (await program.logged(RELOADED))["changed"] == ["limits.discovery"]


async def test_sighup_reloads_and_the_log_level_follows(backend: ScriptedBackend, file: Path) -> None:
    written(file, backend.url)
    async with serving(file) as (program, gateway):
        program.signal(signal.SIGHUP)
        assert (await program.logged(RELOADED))["changed"] == []
        written(file, backend.url, telemetry="{log: {level: error}}")
        # The entry that would tell of this reload is below the new level: that requests fall silent tells of it.
        await until(lambda: falls_silent(program, gateway))


async def falls_silent(program: Program, gateway: Front) -> bool:
    """Whether a request leaves no line; it is written within milliseconds of its answer."""
    before = program.output.count('"event":"request"')
    await gateway.call("rest", "add", {"a": 1, "b": 1})
    await asyncio.sleep(0.05)
    return program.output.count('"event":"request"') == before
