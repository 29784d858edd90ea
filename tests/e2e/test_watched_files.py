"""Files that the settings name, and that change while the gateway serves."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from aiohttp import ClientSession

from tests.configuring import in_place, put
from tests.e2e.test_reload import RELOADED, serving, written
from tests.fault.methods import ADD
from tests.fault.scripted import ScriptedBackend
from tests.front import Front
from tests.program import run
from tests.tls import Authority
from tests.waiting import PATIENCE, until

RESTART = "a file changed that is read at the start: restart to use it"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "gateway.yaml"


def methods(*names: str) -> str:
    return json.dumps({"methods": {name: {} for name in names}})


async def shows(gateway: Front, *names: str) -> None:
    await until(gateway.tools, lambda tools: set(tools) == set(names))


async def test_a_changed_methods_file_shows_without_a_reload(backend: ScriptedBackend, file: Path) -> None:
    listing = file.with_name("methods.yaml")
    put(listing, methods("add"))
    written(file, backend.url, backend=f"{{url: '{backend.url}', listing: {{dialect: static, file: methods.yaml}}}}")
    async with serving(file) as (program, gateway):
        await shows(gateway, "add")
        put(listing, methods("add", "echo"))
        await shows(gateway, "add", "echo")
        assert (await program.logged("tools changed"))["new"] == ["echo"]
        put(listing, "no: methods")
        assert "methods.yaml" in str((await program.logged("listing failed"))["steps"])
        await shows(gateway, "add", "echo")
        put(listing, methods("echo"))
        await shows(gateway, "echo")
        assert RELOADED not in program.output


async def test_a_methods_file_in_a_swapped_config_map_shows(backend: ScriptedBackend, tmp_path: Path) -> None:
    """Kubernetes mounts methods.yaml -> ..data/methods.yaml, and moves ..data to another folder."""
    mount = tmp_path / "mount"
    for number, names in ((1, ("add",)), (2, ("echo",))):
        (mount / f"..{number}").mkdir(parents=True)
        put(mount / f"..{number}" / "methods.yaml", methods(*names))
    (mount / "..data").symlink_to("..1")
    (mount / "methods.yaml").symlink_to("..data/methods.yaml")
    listing = f"{{dialect: static, file: '{mount}/methods.yaml'}}"
    written(tmp_path / "gateway.yaml", backend.url, backend=f"{{url: '{backend.url}', listing: {listing}}}")
    async with serving(tmp_path / "gateway.yaml") as (_, gateway):
        await shows(gateway, "add")
        (mount / "..data_tmp").symlink_to("..2")
        (mount / "..data_tmp").replace(mount / "..data")
        await shows(gateway, "echo")


async def test_a_changed_fallback_takes_the_place_of_the_one_that_serves(backend: ScriptedBackend, file: Path) -> None:
    spare = file.with_name("spare.yaml")
    put(spare, methods("spare"))
    written(file, backend.refused_url, catalog="{fallback: spare.yaml}")
    async with serving(file, until="listing failed") as (program, gateway):
        await shows(gateway, "spare")
        put(spare, methods("spare", "wheel"))
        assert (await program.logged(RELOADED))["changed"] == ["catalog.fallback"]
        await shows(gateway, "spare", "wheel")
        put(spare, "no: methods")
        refused = await program.logged("configuration refused, the old one stays")
        assert "catalog.fallback" in str(refused["faults"])
        await shows(gateway, "spare", "wheel")


async def test_a_pin_file_that_only_a_reload_named_is_watched(backend: ScriptedBackend, file: Path) -> None:
    pins = file.with_name("pins.json")
    written(file, backend.url)
    ran = await run("tools", "--config", str(file), "--set", f"catalog.pin={pins}", "--pin")
    assert ran.code == 0, ran.said
    async with serving(file) as (program, gateway):
        everything = set(await gateway.tools())
        written(file, backend.url, catalog="{pin: pins.json}")
        assert (await program.logged(RELOADED))["changed"] == ["catalog.pin"]
        assert set(await gateway.tools()) == everything
        content = json.loads(pins.read_text())
        del content["tools"]["echo"]
        put(pins, json.dumps(content))
        await shows(gateway, *(everything - {"echo"}))


async def test_a_file_whose_content_stands_in_the_configuration_is_watched(
    backend: ScriptedBackend, file: Path
) -> None:
    text = file.with_name("about.txt")
    put(text, "One text.\n")
    written(file, backend.url, catalog="{tools: {add: {description: '${file:about.txt}'}}}")
    async with serving(file) as (program, gateway):
        assert (await gateway.tools())["add"]["description"] == "One text."
        put(text, "Another text.\n")
        assert (await program.logged(RELOADED))["changed"] == ["catalog.tools.add.description"]
        assert (await gateway.tools())["add"]["description"] == "Another text."


async def test_a_reference_that_led_nowhere_is_watched_until_it_leads_somewhere(
    backend: ScriptedBackend, file: Path
) -> None:
    written(file, backend.url)
    async with serving(file) as (program, gateway):
        written(file, backend.url, catalog="{tools: {add: {description: '${file:about.txt}'}}}")
        assert "about.txt" in str((await program.logged("configuration refused, the old one stays"))["faults"])
        put(file.with_name("about.txt"), "A text.")
        await program.logged(RELOADED)
        assert (await gateway.tools())["add"]["description"] == "A text."


@pytest.mark.parametrize("knob", ["pin", "fallback"])
async def test_a_file_for_whose_lack_a_reload_was_refused_is_watched_until_it_is_there(
    backend: ScriptedBackend, file: Path, knob: str
) -> None:
    written(file, backend.url)
    pins, spare = file.with_name("pins.json"), file.with_name("spare.yaml")
    assert (await run("tools", "--config", str(file), "--set", f"catalog.pin={pins}", "--pin")).code == 0
    put(spare, methods("spare"))
    missing = {"pin": pins, "fallback": spare}[knob]
    content = missing.read_text()
    missing.unlink()
    async with serving(file) as (program, _):
        written(file, backend.url, catalog="{pin: pins.json, fallback: spare.yaml}")
        assert missing.name in str((await program.logged("configuration refused, the old one stays"))["faults"])
        put(missing, content)
        assert set((await program.logged(RELOADED))["changed"]) == {"catalog.pin", "catalog.fallback"}


async def test_a_secret_that_changes_is_said_to_take_a_restart_and_changes_nothing(
    backend: ScriptedBackend, file: Path
) -> None:
    secret = file.with_name("secret")
    put(secret, "0123456789abcdef0123456789abcdef\n")
    knobs = {"server": "{port: 0, admin_port: 0, secret_file: secret}", "catalog": "{page_size: 1}"}
    written(file, backend.url, **knobs)
    async with serving(file) as (program, gateway):
        put(secret, "fedcba9876543210fedcba9876543210\n")
        entry = await program.logged(RESTART)
        assert (entry["level"], entry["knob"], entry["file"]) == ("warning", "server.secret_file", str(secret))
        assert RELOADED not in program.output
        assert "fedcba9876543210" not in program.output
        assert len(await gateway.tools("rest")) > 1


async def test_a_ca_file_that_changes_counts_for_the_next_connection(file: Path) -> None:
    ours, theirs = Authority(file.parent, "ours"), Authority(file.parent, "theirs")
    trusted = file.with_name("ca.pem")
    put(trusted, theirs.file.read_text())
    async with ScriptedBackend([ADD], tls=ours.server()) as backend:
        written(file, backend.url, backend=f"{{url: '{backend.url}', tls: {{ca_file: ca.pem}}}}")
        async with serving(file, until="listing failed") as (program, gateway):
            assert (await gateway.call("rest", "add", {"a": 2, "b": 3})).status == 503
            put(trusted, "no certificate")
            refused = await program.logged("configuration refused, the old one stays")
            assert refused["faults"][0].startswith(f"backend.tls.ca_file: {trusted}: ")
            put(trusted, ours.file.read_text())
            assert (await program.logged(RELOADED))["changed"] == ["backend.tls.ca_file"]
            await shows(gateway, "add")
            assert (await gateway.call("rest", "add", {"a": 2, "b": 3})).value == {"sum": 5}


async def test_a_changed_file_of_one_of_several_is_named_with_its_service(file: Path, backend: ScriptedBackend) -> None:
    spare = file.with_name("spare.yaml")
    put(spare, methods("spare"))
    fallback = {"backend": {"url": backend.refused_url}, "catalog": {"fallback": "spare.yaml"}}
    services = {"crm": fallback, "shop": {"backend": {"url": backend.url}}}
    server = {"port": 0, "admin_port": 0}
    put(file, json.dumps({"server": server, "auth": {"mode": "off"}, "services": services}))
    async with serving(file) as (program, gateway):
        put(spare, methods("spare", "wheel"))
        assert (await program.logged(RELOADED))["changed"] == ["services.crm.catalog.fallback"]
        async with ClientSession() as session, session.get(f"{gateway.base}/crm/mcp/tools/list") as answer:
            assert [tool["name"] for tool in (await answer.json())["tools"]] == ["spare", "wheel"]


async def test_sighup_lists_anew_as_well(backend: ScriptedBackend, file: Path) -> None:
    written(file, backend.url)
    async with serving(file) as (program, _):
        asked = backend.calls("rpc.discover")
        program.signal(signal.SIGHUP)
        await program.logged(RELOADED)
        async with asyncio.timeout(PATIENCE):
            await backend.called("rpc.discover", asked + 1)


async def test_a_reload_that_waits_for_a_pipe_does_not_hold_the_end_up(backend: ScriptedBackend, file: Path) -> None:
    os.mkfifo(file.with_name("ca.pem"))
    written(file, backend.url)
    async with serving(file) as (program, gateway):
        written(file, backend.url, backend=f"{{url: '{backend.url}', tls: {{ca_file: ca.pem}}}}")
        program.signal(signal.SIGHUP)
        await asyncio.sleep(1.5)
        assert (await gateway.call("rest", "add", {"a": 2, "b": 3})).value == {"sum": 5}
        assert "configuration" not in program.output, "the reload does not wait"
        program.signal(signal.SIGTERM)
        assert await program.ended() == 0


async def test_a_configuration_that_is_written_slowly_is_not_loaded_by_half_unless_somebody_asks(
    backend: ScriptedBackend, file: Path
) -> None:
    first = f"  crm: {{backend: {{url: '{backend.url}'}}, catalog: {{fallback: spare.yaml}}}}\n"
    second = f"  shop: {{backend: {{url: '{backend.url}'}}}}\n"
    put(spare := file.with_name("spare.yaml"), methods("spare"))
    half = "server: {port: 0, admin_port: 0}\nauth: {mode: 'off'}\nservices:\n" + first
    put(file, half + second)
    async with serving(file) as (program, gateway), ClientSession() as session:

        async def status_of_second() -> int:
            async with session.get(f"{gateway.base}/shop/mcp/tools/list") as answer:
                return answer.status

        in_place(file, half)
        put(spare, methods("wheel"))  # asks for a reload meanwhile
        await asyncio.sleep(1.5)
        assert await status_of_second() == 200
        in_place(file, whole := half + second.replace("}}", ", timeout: 7s}}"))
        changed = (await program.logged(RELOADED))["changed"]
        assert changed == ["services.shop.backend.timeout", "services.crm.catalog.fallback"]
        assert await status_of_second() == 200
        in_place(file, half)
        program.signal(signal.SIGHUP)
        await program.logged(RELOADED, 2)
        assert await status_of_second() == 404
        in_place(file, whole)  # what it was before the half that was asked for
        await until(status_of_second, lambda status: status == 200)


async def test_a_configuration_in_a_pipe_is_read_once(backend: ScriptedBackend, file: Path) -> None:
    os.mkfifo(file)
    text = f"server: {{port: 0, admin_port: 0}}\nauth: {{mode: 'off'}}\nbackend: {{url: '{backend.url}'}}\n"
    giving = asyncio.create_task(asyncio.to_thread(file.write_text, text))
    async with serving(file) as (_, gateway):
        await giving
        assert "add" in await gateway.tools()
