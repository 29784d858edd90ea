"""What is under deploy/ is valid for Kubernetes and agrees with the settings."""

import asyncio
import json
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import kubernetes_validate
import pytest
import yaml

from gateway import __version__, cli
from gateway.config.source import load_settings
from gateway.credentials import credential_modes
from gateway.credentials.none import NoCredential
from gateway.http_server.accepting import listen
from gateway.settings import Settings, is_loopback
from gateway.web.admin import AdminHandler
from tests.kustomize import Resources, container_of, environment, render
from tests.protocol.bounds import wide

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
BASE = DEPLOY / "kubernetes" / "base"
CONFIG = ROOT / "config" / "gateway.yaml"
OLDEST_KUBERNETES = "1.30"  # the first that has the sleep of preStop


@pytest.fixture(scope="module")
def resources() -> Resources:
    return render(BASE)


@pytest.fixture(scope="module")
def pod(resources: Resources) -> dict[str, Any]:
    return resources["Deployment"]["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def container(resources: Resources) -> dict[str, Any]:
    return container_of(resources)


@pytest.fixture(scope="module")
def settings(resources: Resources, container: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """What the pod has: the ConfigMap's file and the Deployment's environment."""
    file = tmp_path_factory.mktemp("etc") / "gateway.yaml"
    file.write_text(resources["ConfigMap"]["data"]["gateway.yaml"])
    return load_settings(file, environ=environment(container))


def instructions() -> list[list[tuple[str, str]]]:
    """The Dockerfile's instructions by stage; what comes before the first stage is stage 0."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", "")
    stages: list[list[tuple[str, str]]] = [[]]
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _, argument = line.partition(" ")
        if name == "FROM":
            stages.append([])
        stages[-1].append((name, argument.strip()))
    return stages


def only(stage: list[tuple[str, str]], name: str) -> str:
    (argument,) = [argument for known, argument in stage if known == name]
    return argument


def seconds_to_stop(settings: Settings) -> float:
    """How long the process may take from SIGTERM to its end."""
    return settings.server.drain_delay + settings.server.shutdown_timeout + 1


# Kubernetes


@pytest.mark.parametrize("version", [OLDEST_KUBERNETES, kubernetes_validate.latest_version()])
def test_every_resource_is_valid_to_the_letter(resources: Resources, version: str) -> None:
    assert set(resources) == {"ConfigMap", "Deployment", "NetworkPolicy", "Service", "ServiceAccount"}
    for resource in resources.values():
        kubernetes_validate.validate(resource, version, strict=True)


def test_the_copy_of_the_configuration_is_fresh() -> None:
    assert (BASE / "gateway.yaml").read_bytes() == CONFIG.read_bytes(), (
        "stale: cp config/gateway.yaml deploy/kubernetes/base/gateway.yaml"
    )


def test_all_of_the_base_is_in_its_recipe() -> None:
    recipe = yaml.safe_load((BASE / "kustomization.yaml").read_text())
    named = {
        *recipe["resources"],
        *recipe["configurations"],
        *recipe["configMapGenerator"][0]["files"],
        "kustomization.yaml",
    }
    assert named == {file.name for file in BASE.iterdir()}


def test_configuration_and_environment_load_together(settings: Settings) -> None:
    assert settings.server.host == settings.server.admin_host == "0.0.0.0"
    assert settings.server.allowed_hosts == ("jsonrpc-mcp-gateway",)


def test_the_base_lets_nobody_in_without_a_token_and_its_examples_fit_together(settings: Settings) -> None:
    assert settings.auth.mode == "jwt"
    assert settings.auth.anonymous == "none"
    assert not settings.auth.allow_unauthenticated


def test_what_an_overlay_has_to_say_is_nobodys_until_then(settings: Settings) -> None:
    (issuer,) = settings.auth.issuers
    audience = settings.backend.credentials.backend_audience
    for url in (settings.backend.url, settings.server.origin, issuer.issuer, audience):
        assert (urlsplit(url).hostname or "").endswith(".example.com")


def test_authentication_is_left_to_another_only_by_a_component(tmp_path: Path) -> None:
    shutil.copytree(DEPLOY / "kubernetes", tmp_path / "kubernetes")
    mine = tmp_path / "kubernetes" / "mine" / "kustomization.yaml"
    mine.parent.mkdir()
    mine.write_text("resources: [../base]\ncomponents: [../components/unauthenticated]\n")
    settings = load_settings(BASE / "gateway.yaml", environ=environment(container_of(render(mine.parent))))
    assert settings.auth.mode == "off"
    assert settings.auth.allow_unauthenticated
    assert credential_modes(settings.by_mount[""]).calls is NoCredential


def test_the_environment_says_nothing_of_tools_and_limits_since_a_reload_of_the_file_could_not_change_it(
    container: dict[str, Any],
) -> None:
    sections = {name.split("__")[1] for name in environment(container) if name.startswith("GATEWAY__")}
    assert sections == {"SERVER", "BACKEND", "AUTH"}


def test_ports_are_those_of_the_settings(resources: Resources, container: dict[str, Any], settings: Settings) -> None:
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": settings.server.port, "admin": settings.server.admin_port}
    (port,) = resources["Service"]["spec"]["ports"]
    assert port["targetPort"] == "http"
    (rule,) = resources["NetworkPolicy"]["spec"]["ingress"]
    assert [port["port"] for port in rule["ports"]] == ["http"]
    assert rule["from"]


def admin(unready: str | None) -> AdminHandler:
    async def renew() -> str:
        return ""

    async def metrics(accept: str) -> tuple[bytes, str]:
        return accept.encode(), "text/plain"

    return AdminHandler(lambda: unready, tuple, renew, metrics)


def test_probes_ask_for_paths_of_the_admin_port(container: dict[str, Any]) -> None:
    asked = {name: container[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert {name: probe["path"] for name, probe in asked.items()} == {
        "startupProbe": "/livez",
        "readinessProbe": "/readyz",
        "livenessProbe": "/livez",
    }
    assert {probe["path"] for probe in asked.values()} <= admin(None).routes.keys()
    assert {probe["port"] for probe in asked.values()} == {"admin"}


def test_selectors_find_the_pod(resources: Resources, pod: dict[str, Any]) -> None:
    labels = resources["Deployment"]["spec"]["template"]["metadata"]["labels"]
    selectors = [
        resources["Deployment"]["spec"]["selector"]["matchLabels"],
        resources["Service"]["spec"]["selector"],
        resources["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        *(spread["labelSelector"]["matchLabels"] for spread in pod["topologySpreadConstraints"]),
    ]
    for selector in selectors:
        assert selector
        assert selector.items() <= labels.items()


def test_the_configuration_is_mounted_as_the_folder_that_the_image_reads(
    resources: Resources, pod: dict[str, Any], container: dict[str, Any]
) -> None:
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["config"]["configMap"]["name"] == resources["ConfigMap"]["metadata"]["name"]
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    folder = str(Path(json.loads(only(instructions()[-1], "CMD"))[-1]).parent)
    assert mounts["config"] == {"name": "config", "mountPath": folder, "readOnly": True}
    assert mounts["tmp"]["mountPath"] == "/tmp"
    assert volumes["tmp"]["emptyDir"].keys() == {"medium", "sizeLimit"}


def test_the_pod_has_no_rights_that_it_does_not_need(
    resources: Resources, pod: dict[str, Any], container: dict[str, Any]
) -> None:
    user = int(only(instructions()[-1], "USER").partition(":")[0])
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "fsGroup": user,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False
    assert resources["ServiceAccount"]["automountServiceAccountToken"] is False
    assert pod["serviceAccountName"] == resources["ServiceAccount"]["metadata"]["name"]
    assert pod["enableServiceLinks"] is False
    assert container["resources"]["limits"].keys() == {"memory"}
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}


def test_a_rollout_cuts_nothing_off(
    resources: Resources, pod: dict[str, Any], container: dict[str, Any], settings: Settings
) -> None:
    sleep = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert sleep > 0
    assert sleep + seconds_to_stop(settings) < pod["terminationGracePeriodSeconds"]
    assert settings.server.drain_delay == 0, "preStop is the delay, and its answers need not say anything"
    assert resources["Deployment"]["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_the_overlay_of_the_page_is_good(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "deployment.md").read_text()
    (overlay,) = [
        block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "kind: Kustomization" in block
    ]
    shutil.copytree(BASE, tmp_path / "base")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kustomization.yaml").write_text(overlay)
    changed = render(tmp_path / "mine")
    for resource in changed.values():
        kubernetes_validate.validate(resource, OLDEST_KUBERNETES, strict=True)
    loaded = load_settings(BASE / "gateway.yaml", environ=environment(container_of(changed)))
    assert loaded.backend.url == "https://drupal.web.svc/jsonrpc"
    assert loaded.server.host == "0.0.0.0"
    assert loaded.server.trusted_proxies
    assert [issuer.issuer for issuer in loaded.auth.issuers] == ["https://login.mysite.org"]


# Image


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
    assert not [argument for name, argument in final if name == "RUN"]
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


async def test_the_health_check_tells_a_live_gateway_from_a_dead_one() -> None:
    python, *arguments = json.loads(only(instructions()[-1], "HEALTHCHECK").partition(" CMD ")[2])
    assert python == "python"

    async def status(port: int | None) -> int:
        surroundings = {**os.environ, "HTTP_PROXY": "http://127.0.0.1:9", "GATEWAY__SERVER__ADMIN_PORT": str(port)}
        process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, env=surroundings, stderr=asyncio.subprocess.DEVNULL
        )
        return await process.wait()

    port = await listen(admin("not ready"), "127.0.0.1", 0, wide())
    assert await status(port.number) == 0
    await port.close()
    assert await status(port.number) != 0


def test_the_build_gets_what_it_copies_and_nothing_else() -> None:
    copied = set()
    for name, argument in instructions()[1]:
        if name == "COPY":
            copied |= {source.removesuffix("/") for source in argument.split()[:-1]}
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    assert {line.removeprefix("!") for line in lines if line.startswith("!")} == copied
    assert all((ROOT / name).exists() for name in copied)


def test_images_are_named_after_the_version(container: dict[str, Any]) -> None:
    image = f"jsonrpc-mcp-gateway:{__version__}"
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["gateway"]
    assert service["image"] == image
    assert service["build"]["args"]["VERSION"] == __version__
    assert container["image"] == image


# Compose


def test_compose_has_a_backend_by_environment_and_is_published_on_loopback_only() -> None:
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["gateway"]
    given = {
        name: re.sub(r"^\$\{BACKEND_URL:\?.*\}$", "http://backend/jsonrpc", value)
        for name, value in service["environment"].items()
    }
    settings = load_settings(CONFIG, environ=given)
    assert settings.backend.url == "http://backend/jsonrpc"
    assert settings.auth.mode == "off"
    assert is_loopback(settings.server.admin_host), "where the health check of the image asks"
    assert service["ports"] == [f"127.0.0.1:{settings.server.port}:{settings.server.port}"]
    assert float(service["stop_grace_period"].removesuffix("s")) > seconds_to_stop(settings)
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    (volume,) = service["volumes"]
    assert volume.endswith(":/etc/gateway:ro")
    assert (DEPLOY / "../config").samefile(CONFIG.parent)
