"""Every two of the components of deploy/ combine: what they render is valid, and selects and mounts what is its own."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import kubernetes_validate
import pytest
import yaml

from gateway.config.source import load_settings
from tests.kustomize import rendered
from tests.unit.test_deploy import OLDEST_KUBERNETES

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
COMPONENTS: Final = {
    **{folder.name: f"../kubernetes/components/{folder.name}" for folder in DEPLOY.glob("kubernetes/components/*")},
    "monitoring": "../monitoring",
}
PAIRS: Final = [*itertools.combinations(sorted(COMPONENTS), 2)]
OVERLAYS: Final = ("one-service", "twelve-services-ha")
NAME: Final = "shop-jsonrpc-mcp-gateway"
OWN: Final = ("PodMonitor", "PrometheusRule", "HTTPRoute", "Certificate")
"""Kinds that operators add, of which Kubernetes itself has no schema."""
INSTANCE: Final = "app.kubernetes.io/instance"

Resources: TypeAlias = list[dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deploy")
    shutil.copytree(DEPLOY, folder, dirs_exist_ok=True)
    return folder


def combined(folder: Path, *components: str) -> Resources:
    """What an overlay with a prefix renders."""
    mine = folder / "-".join(("mine", *components))
    mine.mkdir(exist_ok=True)
    paths = [COMPONENTS[component] for component in components]
    text = yaml.safe_dump(
        {"namespace": "mcp", "namePrefix": "shop-", "resources": ["../kubernetes/base"], "components": paths}
    )
    (mine / "kustomization.yaml").write_text(text)
    return rendered(mine)


def only(resources: Resources, kind: str) -> dict[str, Any]:
    (found,) = [resource for resource in resources if resource["kind"] == kind]
    return found


def selected(value: Any) -> Iterator[str]:
    """Each instance that a selector or a label names, wherever it stands."""
    if isinstance(value, dict):
        yield from (text for key, text in value.items() if key == INSTANCE)
        for child in value.values():
            yield from selected(child)
    elif isinstance(value, list):
        for child in value:
            yield from selected(child)


@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
def test_two_components_render_valid_resources_of_this_gateway_alone(folder: Path, pair: tuple[str, str]) -> None:
    resources = combined(folder, *pair)
    assert {name for resource in resources for name in selected(resource)} == {NAME}
    for resource in resources:
        assert resource["metadata"]["namespace"] == "mcp"
        if resource["kind"] not in OWN:
            kubernetes_validate.validate(resource, OLDEST_KUBERNETES, strict=True)
    pod = only(resources, "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    names = [variable["name"] for variable in container["env"]]
    assert len(names) == len(set(names))


def test_what_leads_to_the_gateway_leads_to_its_service(folder: Path) -> None:
    ingress = only(combined(folder, "ingress"), "Ingress")
    (rule,) = ingress["spec"]["rules"]
    assert rule["http"]["paths"][0]["backend"]["service"] == {"name": NAME, "port": {"name": "http"}}
    (route,) = only(combined(folder, "gateway-api"), "HTTPRoute")["spec"]["rules"]
    assert route["backendRefs"] == [{"name": NAME, "port": 80}]
    assert route["timeouts"] == {"request": "0s", "backendRequest": "0s"}
    scaler = only(combined(folder, "high-availability"), "HorizontalPodAutoscaler")
    assert scaler["spec"]["scaleTargetRef"]["name"] == NAME


def test_the_certificate_is_the_one_that_the_ingress_shows(folder: Path) -> None:
    resources = combined(folder, "ingress", "cert-manager")
    (tls,) = only(resources, "Ingress")["spec"]["tls"]
    certificate = only(resources, "Certificate")["spec"]
    assert (certificate["secretName"], certificate["dnsNames"]) == (tls["secretName"], tls["hosts"])


def test_what_goes_out_is_names_services_issuers_and_the_store(folder: Path) -> None:
    spec = only(combined(folder, "egress"), "NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    ports = {port["port"] for rule in spec["egress"] for port in rule["ports"]}
    assert ports == {53, 80, 443, 6379}
    cut = [block["ipBlock"].get("except", []) for rule in spec["egress"] for block in rule["to"] if "ipBlock" in block]
    assert "169.254.0.0/16" in cut[0]


@pytest.mark.parametrize("version", [OLDEST_KUBERNETES, "1.33", kubernetes_validate.latest_version()])
@pytest.mark.parametrize("name", OVERLAYS)
def test_a_finished_example_is_valid_to_the_letter(folder: Path, name: str, version: str) -> None:
    for resource in rendered(folder / "kubernetes" / "overlays" / name):
        if resource["kind"] not in OWN:
            kubernetes_validate.validate(resource, version, strict=True)


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_configuration_of_a_finished_example_is_one_that_the_gateway_takes(
    folder: Path, name: str, tmp_path: Path
) -> None:
    resources = rendered(folder / "kubernetes" / "overlays" / name)
    pod = only(resources, "Deployment")["spec"]["template"]["spec"]
    maps = {one["metadata"]["name"]: one["data"] for one in resources if one["kind"] == "ConfigMap"}
    (config,) = [volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume]
    (container,) = pod["containers"]
    environ = {variable["name"]: variable["value"] for variable in container["env"]}
    for variable in [name for name in environ if name.endswith("_FILE")]:
        secret = tmp_path / variable
        secret.write_text("0123456789abcdef" * 4)
        environ[variable] = str(secret)
    file = tmp_path / "gateway.yaml"
    file.write_text(maps[config]["gateway.yaml"])
    made = load_settings(file, environ=environ)
    assert len(made.by_mount) == (12 if name.startswith("twelve") else 1)
    assert made.store.is_shared == name.endswith("ha")


def test_memory_and_time_of_the_pod_are_enough_for_the_gateways_own_bounds(folder: Path) -> None:
    resources = combined(folder, "high-availability")
    pod = only(resources, "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    server = load_settings(None, ["backend.url=http://127.0.0.1:1/", "auth.mode=off"], environ={}).server
    limit = int(container["resources"]["limits"]["memory"].removesuffix("Mi")) * 1024**2
    assert limit >= 180 * 1024**2 + 1.5 * server.max_buffered  # docs/scaling.md, "Connections and memory"
    needed = container["lifecycle"]["preStop"]["sleep"]["seconds"] + server.drain_delay + server.shutdown_timeout
    assert pod["terminationGracePeriodSeconds"] > needed + 1
