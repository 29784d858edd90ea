"""The certificate of the public port: at the start, when it changes, with several workers, and in the commands."""

from __future__ import annotations

import asyncio
import json
import signal
import ssl
from pathlib import Path

import aiohttp
import pytest

from tests.e2e.test_reload import RELOADED, written
from tests.e2e.test_workers import options
from tests.fault.scripted import ScriptedBackend
from tests.program import Program, run, settings
from tests.redis_server import RedisServer
from tests.tls import Authority
from tests.waiting import PATIENCE, until

REFUSED = "configuration refused, the old one stays"


def put(pem: Path, folder: Path) -> None:
    """Put certificate and key in the place of the old ones, each in one step, as programs that renew them do."""
    for name in ("cert.pem", "key.pem"):
        new = folder / ".new"
        new.write_bytes(pem.read_bytes())
        new.replace(folder / name)


async def shown(port: int, authority: Authority) -> int:
    """The serial number of the certificate that a new client is shown. Fails where the client does not trust it."""
    context = ssl.create_default_context(cafile=str(authority.file))
    async with asyncio.timeout(PATIENCE):
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    found = writer.get_extra_info("peercert")["serialNumber"]
    writer.close()
    return int(found, 16)


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def knobs(authority: Authority, tmp_path: Path) -> list[str]:
    put(authority.server_pem(), tmp_path)
    return [f"server.tls.cert_file={tmp_path}/cert.pem", f"server.tls.key_file={tmp_path}/key.pem"]


async def test_a_new_certificate_is_shown_to_new_clients_and_a_bad_one_is_not(
    backend: ScriptedBackend, authority: Authority, knobs: list[str], tmp_path: Path
) -> None:
    async with Program("serve", *settings(backend.url, *knobs)) as program:
        await program.logged("listing refreshed")
        entry = await program.logged("gateway started")
        port, admin = entry["port"], f"http://127.0.0.1:{entry['admin_port']}"
        remark = await program.logged("remark on the configuration")
        assert remark["remark"].startswith(f"server.tls.cert_file: {tmp_path}/cert.pem ends on ")
        first = await shown(port, authority)
        context = ssl.create_default_context(cafile=str(authority.file))
        old_reader, old_writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        await until(lambda: get(f"{admin}/livez"))

        put(authority.server_pem(), tmp_path)
        await until(lambda: shown(port, authority), lambda serial: serial != first)
        second = await shown(port, authority)
        assert {"server.tls.cert_file", "server.tls.key_file"} & set((await program.logged(RELOADED))["changed"])
        old_writer.write(b"GET /mcp/tools/list HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            assert (await old_reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200 "), "it keeps what it has"
        old_writer.close()

        (tmp_path / "key.pem").write_text("no key")
        assert "is no key in PEM that fits" in str((await program.logged(REFUSED))["faults"])
        assert await shown(port, authority) == second
        _, metrics = await get(f"{admin}/metrics")
        assert "mcp_gateway_config_last_reload_successful 0" in metrics
        (end,) = (line for line in metrics.splitlines() if line.startswith("mcp_gateway_certificate_expiry_seconds{"))
        assert f'file="{tmp_path}/cert.pem",service=""' in end
        assert "server.tls.key_file" in (await get(f"{admin}/readyz?verbose"))[1]

        put(authority.server_pem(), tmp_path)
        await until(lambda: shown(port, authority), lambda serial: serial != second)
        assert "mcp_gateway_config_last_reload_successful 1" in (await get(f"{admin}/metrics"))[1]


async def test_every_worker_shows_the_new_certificate(
    backend: ScriptedBackend, authority: Authority, knobs: list[str], tmp_path: Path
) -> None:
    with RedisServer() as redis:
        async with Program("serve", *options(backend, tmp_path, redis, *knobs)) as program:
            port = (await program.logged("gateway started"))["port"]
            await program.logged("worker started", 2)
            first = await shown(port, authority)
            put(authority.server_pem(), tmp_path)

            async def all_new() -> bool:
                return first not in [await shown(port, authority) for _ in range(20)]

            await until(all_new)
            program.signal(signal.SIGTERM)
            assert await program.ended() == 0


@pytest.mark.parametrize("workers", [1, 2])
async def test_an_unusable_certificate_ends_the_start_with_the_reason(
    backend: ScriptedBackend, knobs: list[str], tmp_path: Path, workers: int
) -> None:
    (tmp_path / "key.pem").unlink()
    with RedisServer() as redis:
        more = options(backend, tmp_path, redis, *knobs) if workers == 2 else settings(backend.url, *knobs)
        ran = await run("serve", *more)
    assert ran.code == 2, ran.said
    assert f"server.tls.key_file: {tmp_path}/key.pem: no such file or directory; the gateway's user" in ran.err
    assert "Traceback" not in ran.said


async def test_another_file_needs_a_restart(
    backend: ScriptedBackend, authority: Authority, knobs: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "gateway.yaml"
    server = "{{port: 0, admin_port: 0, tls: {{cert_file: {0}.pem, key_file: {0}.pem}}}}"
    (tmp_path / "one.pem").write_bytes(authority.server_pem().read_bytes())
    (tmp_path / "two.pem").write_bytes(authority.server_pem().read_bytes())
    written(file, backend.url, server=server.format("one"))
    async with Program("serve", "--config", str(file)) as program:
        port = (await program.logged("gateway started"))["port"]
        first = await shown(port, authority)
        written(file, backend.url, server=server.format("two"))
        kept = await program.logged("knob keeps its old value until a restart")
        assert kept["knob"].startswith("server.tls.")
        assert await shown(port, authority) == first


async def test_check_and_connect_know_of_the_certificate(
    backend: ScriptedBackend, knobs: list[str], tmp_path: Path
) -> None:
    ran = await run("check", *settings(backend.url, *knobs))
    assert (ran.code, f"{tmp_path}/cert.pem ends on " in ran.out) == (0, True), ran.said
    ran = await run("check", "--json", *settings(backend.url, *knobs))
    assert "server.tls.cert_file" in str(json.loads(ran.out))
    ran = await run("connect", "--http", *settings(backend.url, *knobs, "server.port=8443"))
    assert "https://127.0.0.1:8443/mcp" in ran.out
    (tmp_path / "cert.pem").write_text("nothing")
    ran = await run("check", *settings(backend.url, *knobs))
    assert ran.code == 2
    assert "server.tls.cert_file" in ran.err
