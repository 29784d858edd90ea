"""The recipe of the image: what it installs, who runs it, how it starts; and Compose, which builds it."""

import json
import re
import tomllib
from pathlib import Path

import click
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gateway import __version__, cli
from gateway.config.source import load_settings
from lab.image.lock import EXTRAS, ROOT, RUNTIME, project
from tests.compose import composed
from tests.dockerfile import DEPLOY, instructions, only
from tests.kustomize import container_of, render

CONFIG = ROOT / "config" / "gateway.yaml"


def test_every_stage_is_made_from_the_base_that_the_build_names() -> None:
    before, *stages = instructions()
    name, _, base = only(before, "ARG").partition("=")
    assert name == "BASE"
    assert "." not in base.partition("/")[0] or "/" not in base, "a registry host"
    assert [only(stage, "FROM").partition(" ")[0] for stage in stages] == ["${BASE}", "${BASE}"]


def test_the_image_is_nobodys_and_stops_on_sigterm() -> None:
    final = instructions()[-1]
    assert only(final, "USER") == "65532:65532"
    assert only(final, "STOPSIGNAL") == "SIGTERM"
    assert {"PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1"} <= set(only(final, "ENV").split())
    removes = only(final, "RUN")
    assert removes.startswith("find / -xdev ")
    assert removes.endswith(" -exec rm -rf {} +")
    assert int(only(final, "EXPOSE")) == load_settings(CONFIG, ["backend.credentials.mode=none"], {}).server.port


def test_the_image_starts_the_program_without_a_shell() -> None:
    final = instructions()[-1]
    (program,) = json.loads(only(final, "ENTRYPOINT"))
    assert program in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    command, *arguments = json.loads(only(final, "CMD"))
    with click.Context(cli.main) as group:
        made = cli.main.get_command(group, command)
    assert made is not None
    context = made.make_context(command, arguments)
    assert context.params["named"] == (Path("/etc/gateway/gateway.yaml"),)


def test_the_health_check_is_the_command_for_it() -> None:
    program, command = json.loads(only(instructions()[-1], "HEALTHCHECK").partition(" CMD ")[2])
    assert [program] == json.loads(only(instructions()[-1], "ENTRYPOINT"))
    assert command in cli.COMMANDS


def test_the_build_gets_what_it_copies_and_nothing_else() -> None:
    copied = set()
    for name, argument in instructions()[1]:
        if name == "COPY":
            copied |= {source.removesuffix("/") for source in argument.split()[:-1]}
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    assert {line.removeprefix("!") for line in lines if line.startswith("!")} == copied
    assert all((ROOT / name).exists() for name in copied)


def test_the_image_installs_by_hash_what_the_project_asks_for() -> None:
    locked = {
        canonicalize_name(name): version
        for name, version in re.findall(r"^([\w.-]+)==([^ ;]+)", RUNTIME.read_text(), re.MULTILINE)
    }
    declared = project()["project"]
    wanted = [
        *declared["dependencies"],
        *(line for extra in EXTRAS for line in declared["optional-dependencies"][extra]),
    ]
    for requirement in map(Requirement, wanted):
        version = locked.get(canonicalize_name(requirement.name), "0")
        assert version in requirement.specifier, f"{requirement}: locked {version}: run make lock"
    installs = [argument for _, argument in instructions()[1] if "install" in argument and "-r /locked" in argument]
    assert installs
    assert all("--require-hashes" in install and "--only-binary :all:" in install for install in installs)


def test_images_are_named_after_the_version() -> None:
    image = f"jsonrpc-mcp-gateway:{__version__}"
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["gateway"]
    assert service["image"] == image
    assert service["build"]["args"]["VERSION"] == __version__
    assert container_of(render(DEPLOY / "kubernetes" / "base"))["image"] == image


# Compose


def test_compose_has_a_backend_by_environment_and_is_published_on_loopback_only() -> None:
    service = composed("compose.yaml", {"BACKEND_URL": "http://backend/jsonrpc"})["services"]["gateway"]
    settings = load_settings(CONFIG, environ=service["environment"])
    assert settings.backend is not None
    assert settings.backend.url == "http://backend/jsonrpc"
    assert settings.auth.mode == "off"
    assert settings.server.admin_host == "0.0.0.0", (
        "for Prometheus; loopback, where the health check asks, is part of it"
    )
    assert service["ports"] == [f"127.0.0.1:{settings.server.port}:{settings.server.port}"]
    assert (
        float(service["stop_grace_period"].removesuffix("s"))
        > settings.server.drain_delay + settings.server.shutdown_timeout + 1
    )
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["volumes"] == ["../config:/etc/gateway:ro"]
    assert (DEPLOY / "../config").samefile(CONFIG.parent)
