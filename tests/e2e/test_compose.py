"""deploy/compose.yaml: valid, readable for the gateway, and started as processes with the same commands and files."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import aiohttp
import jsonschema
import pytest

from gateway.config.source import load_settings
from tests.compose import composed, schema
from tests.dockerfile import DEPLOY
from tests.front import SURFACES, Front
from tests.monitoring import promtool
from tests.program import Program
from tests.redis_server import RedisServer
from tests.services.process import free_port
from tests.waiting import until

FILES = {"compose.yaml": {}, "compose.services.yaml": {"GATEWAY_CONFIG": "./folder"}}
ALL = ("sample", "redis", "monitoring")
SECRET = "0123456789abcdef0123456789abcdef"


def mounted(service: dict[str, Any]) -> dict[str, Path]:
    """What a service mounts of this machine, by the path in its container."""
    pairs = (volume.split(":") for volume in service.get("volumes", ()))
    return {target: DEPLOY / source for source, target, *_ in pairs if source.startswith(".")}


@pytest.mark.parametrize("name", FILES)
def test_the_file_is_valid_by_the_specification(name: str) -> None:
    checker = jsonschema.Draft201909Validator(schema())
    made = composed(name, FILES[name], *ALL)
    del made["name"]  # newer than the schema; the specification has it at the top level
    assert list(checker.iter_errors(made)) == []
    assert list(checker.iter_errors({"services": {"one": {"imge": "x"}}})), "the schema refuses what it does not know"


def test_without_a_profile_the_gateway_is_alone_and_each_profile_adds_one_service() -> None:
    assert list(composed("compose.yaml", {})["services"]) == ["gateway"]
    for profile, service in (("sample", "sample"), ("redis", "redis"), ("monitoring", "prometheus")):
        assert list(composed("compose.yaml", {}, profile)["services"]) == ["gateway", service]


def test_every_service_is_confined_and_reached_from_this_machine_alone() -> None:
    for service in composed("compose.yaml", {}, *ALL)["services"].values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["mem_limit"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
        assert "@" in service["image"] or ":" in service["image"], "a version"


def test_all_that_is_mounted_is_there() -> None:
    services = composed("compose.yaml", {}, *ALL)["services"].values()
    files = {source for service in services for source in mounted(service).values()}
    assert len(files) == 4
    assert [file for file in files if not file.exists()] == []


@pytest.mark.parametrize("profiles", [("sample",), ALL])
def test_the_gateway_reads_what_is_mounted(tmp_path: Path, profiles: tuple[str, ...]) -> None:
    variables = {"STORE_URL": "redis://redis:6379/0", "SIGNING_FILE": "signing"} if "redis" in profiles else {}
    made = composed("compose.yaml", variables, *profiles)
    gateway = made["services"]["gateway"]
    (folder,) = mounted(gateway).values()
    settings = load_settings(folder / "gateway.yaml", environ=gateway["environment"])
    (service,) = settings.by_mount.values()
    assert service.backend.url == "http://sample:8000/jsonrpc"
    assert settings.server.secret_file == ("/run/secrets/signing" if "redis" in profiles else None)
    assert settings.store.url == variables.get("STORE_URL", "memory:")
    assert made["secrets"]["signing"]["file"] == variables.get("SIGNING_FILE", "/dev/null")
    assert gateway["ports"] == [f"127.0.0.1:{settings.server.port}:{settings.server.port}"]


def test_prometheus_takes_its_file_and_asks_the_admin_port(tmp_path: Path) -> None:
    made = composed("compose.yaml", {}, *ALL)["services"]
    files = mounted(made["prometheus"])
    for inside, file in files.items():
        (tmp_path / Path(inside).name).write_bytes(file.read_bytes())
    config = tmp_path / "prometheus.yaml"
    code, said = promtool("check", "config", str(config))
    assert code == 0, said
    assert {Path(inside).parent for inside in files} == {Path("/etc/prometheus")}, "rule_files is relative"
    settings = load_settings(DEPLOY.parent / "config" / "gateway.yaml", environ=made["gateway"]["environment"])
    assert settings.server.admin_host == "0.0.0.0"
    assert f"targets: [gateway:{settings.server.admin_port}]" in config.read_text()


async def test_the_gateway_serves_the_sample_service_with_redis(tmp_path: Path) -> None:
    """The container's environment, with this machine's names and ports in the place of the network's."""
    port, signing = free_port(), tmp_path / "signing"
    signing.write_text(SECRET)
    signing.chmod(0o600)
    with RedisServer() as redis:
        variables = {"BACKEND_URL": f"http://127.0.0.1:{port}/jsonrpc", "STORE_URL": redis.url, "SIGNING_FILE": "x"}
        made = composed("compose.yaml", variables, *ALL)["services"]
        (script,) = mounted(made["sample"]).values()
        _, container, _, _ = made["sample"]["command"]
        assert container.endswith(script.name)
        sample = await asyncio.create_subprocess_exec(sys.executable, str(script), "127.0.0.1", str(port))
        try:
            environ = made["gateway"]["environment"] | {"GATEWAY__SERVER__SECRET_FILE": str(signing)}
            (folder,) = mounted(made["gateway"]).values()
            here = ("--set", "server.port=0", "--set", "server.admin_port=0", "--set", "server.host=127.0.0.1")
            program = Program("serve", "--config", str(folder / "gateway.yaml"), *here, environ=environ)
            async with program, aiohttp.ClientSession() as session:
                await program.logged("the shared store is available")
                await program.logged("listing refreshed")
                gateway = Front((await program.logged("gateway started"))["port"], session)
                await until(gateway.tools, lambda tools: set(tools) == {"add"})
                for surface in SURFACES:
                    assert (await gateway.call(surface, "add", {"a": 2, "b": 3})).value == 5
                assert (await gateway.call("rest", "add", {"a": 2})).failed
        finally:
            sample.kill()
            await sample.wait()
