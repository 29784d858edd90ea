"""``status`` and ``healthcheck``, against running gateways and what is none."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

from tests.each import each
from tests.fault.behaviours import error
from tests.fault.scripted import ScriptedBackend
from tests.program import Program, run, serving, settings


async def test_status_shows_what_a_gateway_does(backend: ScriptedBackend) -> None:
    backend.on("echo", error(-32000, "no"))
    async with serving(backend.url) as (program, gateway):
        for name, arguments in (("add", {"a": 1, "b": 2}), ("add", {"a": 1, "b": 3}), ("echo", {"value": 1})):
            await gateway.call("modern", name, arguments)
        url = f"http://127.0.0.1:{(await program.logged('gateway started'))['admin_port']}"
        shown = await run("status", url, PYTHONWARNINGS="default::ResourceWarning")
        as_json = await run("status", url.removeprefix("http://"), "--json")
    assert shown.code == as_json.code == 0, shown.err + as_json.err
    assert shown.err == "", "its connections are closed: a KeyboardInterrupt that falls into a finalizer is lost"
    head, process, _, titles, row, *problems = shown.out.splitlines()
    assert head.startswith(f"{url}  ready  up ")
    assert head.endswith("since the start")
    assert process.startswith("store available  calls 0  streams 0  connections ")
    cells = dict(zip(titles.split(), row.replace(" ms", "ms").replace(" s", "s").split(), strict=False))
    shown_cells = [cells[name] for name in ("SERVICE", "STATE", "TOOLS", "FAILED", "BREAKER")]
    assert shown_cells == ["/", "ok", "4", "1", "closed"]
    assert float(cells["CALLS/MIN"]) > 0
    assert problems == []
    figures = json.loads(as_json.out)["figures"][""]
    assert (figures["calls"], figures["failed"], figures["refused"]) == (3, 1, 0)
    assert 0 < figures["p50"] <= figures["p99"]


async def test_status_and_readyz_name_the_cause_and_the_remedy(backend: ScriptedBackend) -> None:
    async with Program("serve", *settings(backend.refused_url)) as program:
        url = f"http://127.0.0.1:{(await program.logged('gateway started'))['admin_port']}"
        await program.logged("listing failed")
        shown = await run("status", url)
    assert shown.code == 0
    assert "problem" in shown.out
    assert "the listing failed:" in shown.out
    assert "backend.url" in shown.out, "the remedy"


async def test_status_goes_on_until_ctrl_c(backend: ScriptedBackend) -> None:
    async with serving(backend.url) as (gateway, _):
        url = f"http://127.0.0.1:{(await gateway.logged('gateway started'))['admin_port']}"
        async with Program("status", url, "--watch") as watching:
            await watching.said("since the start")
            await watching.said("of the last 2 s")
            watching.signal(signal.SIGINT)
            assert await watching.ended() == 0


@each("command", ["status", "healthcheck"])
async def test_what_is_no_admin_port_is_named_with_the_remedy(command: str, backend: ScriptedBackend) -> None:
    option = ["--url"] if command == "healthcheck" else []
    refused = await run(command, *option, backend.refused_url)
    assert refused.code == 1
    assert f"{backend.refused_url} does not answer: Connection refused" in refused.err
    assert "server.admin_port" in refused.err
    other = await run(command, *option, backend.url)
    assert other.code == 1
    if command == "status":
        assert "is not the admin port of a gateway" in other.err


async def test_healthcheck_tells_a_live_gateway_from_a_dead_one_and_asks_no_proxy(backend: ScriptedBackend) -> None:
    async with serving(backend.url) as (program, _):
        port = str((await program.logged("gateway started"))["admin_port"])
        named = {"GATEWAY__SERVER__ADMIN_PORT": port, "GATEWAY__SERVER__ADMIN_HOST": "0.0.0.0"}
        for option in ((), ("--ready",), ("--url", f"http://127.0.0.1:{port}")):
            assert (await run("healthcheck", *option, HTTP_PROXY="http://127.0.0.1:9", **named)).code == 0
        misnamed = await run("status", f"http://127.1:{port}")  # which is no address in a Host header
        assert (misnamed.code, "server.admin_page.hosts" in misnamed.err) == (1, True)
    assert (await run("healthcheck", **named)).code == 1


def test_healthcheck_imports_nothing_large() -> None:
    large = ("aiohttp", "pydantic", "yaml")
    code = f"import sys, gateway.cli.health_command; print([name for name in {large} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
