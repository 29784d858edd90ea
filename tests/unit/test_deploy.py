"""What is under deploy/ is valid for Kubernetes and agrees with the settings."""

import json
import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kubernetes_validate
import pytest
import yaml

from gateway.config.source import load_settings
from gateway.credentials import credential_modes
from gateway.credentials.fixed import NoCredential
from gateway.settings import Settings
from gateway.settings.server import AdminPageSettings
from gateway.web.admin import AdminHandler
from gateway.web.admin_page import AdminPage
from tests.dockerfile import DEPLOY, instructions, only
from tests.kustomize import Resources, container_of, environment, render, rendered

ROOT = Path(__file__).parents[2]
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
    async def refresh_listings() -> str:
        return ""

    async def metrics(accept: str) -> tuple[bytes, str]:
        return accept.encode(), "text/plain"

    async def details() -> dict[str, Any]:
        return {}

    page = AdminPage(AdminPageSettings(), lambda: ({}, {}), details)
    return AdminHandler(lambda: unready, tuple, refresh_listings, metrics, page)


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


def test_the_secrets_of_the_page_are_those_that_the_example_mounts() -> None:
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    commands = re.findall(r"^kubectl -n mcp create secret generic (\S+) (.+)$", page, re.MULTILINE)
    made = {name: set(re.findall(r"--from-file=(\S+)", files)) for name, files in commands}
    overlay = rendered(DEPLOY / "kubernetes" / "overlays" / "twelve-services-ha")
    (found,) = [resource for resource in overlay if resource["kind"] == "Deployment"]
    deployment, volumes = container_of({"Deployment": found}), found["spec"]["template"]["spec"]["volumes"]
    secrets = {volume["name"]: volume["secret"]["secretName"] for volume in volumes if "secret" in volume}
    assert made.keys() == set(secrets.values())
    for mount in deployment["volumeMounts"]:
        if mount["name"] in secrets:
            read = [value for value in environment(deployment).values() if value.startswith(mount["mountPath"] + "/")]
            assert {Path(value).name for value in read} == made[secrets[mount["name"]]]


def test_the_commands_of_the_page_name_what_there_is() -> None:
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    (source,) = re.findall(r"^cp -r (\S+) deploy/kubernetes/overlays/mine$", page, re.MULTILINE)
    resources = render(ROOT / source)
    assert f"deployment/{resources['Deployment']['metadata']['name']}" in page
    assert {resource["metadata"]["namespace"] for resource in resources.values()} == {"mcp"}


def test_the_overlay_of_the_page_is_good(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "kubernetes.md").read_text()
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
