"""The kustomize component of deploy/monitoring fits the base: it finds the pods, and Prometheus gets to their port."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.kustomize import rendered
from tests.monitoring import DASHBOARD, FOLDER, groups

DEPLOY = FOLDER.parent
OWN = {"PodMonitor", "PrometheusRule"}  # the operator's, of which Kubernetes itself has no schema
OVERLAYS = {
    "plain": "resources: [../kubernetes/base]\ncomponents: [../monitoring]\n",
    "shop": "namespace: mcp\nnamePrefix: shop-\nresources: [../kubernetes/base]\ncomponents: [../monitoring]\n",
    "services": "namespace: mcp\nnameSuffix: -crm\nresources: [../kubernetes/base]\n"
    "components: [../kubernetes/components/several-services, ../monitoring]\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deploy")
    shutil.copytree(DEPLOY, folder, dirs_exist_ok=True)
    return folder


def overlay(folder: Path, name: str, text: str) -> list[dict[str, Any]]:
    (folder / name).mkdir()
    (folder / name / "kustomization.yaml").write_text(text)
    return rendered(folder / name)


@pytest.fixture(scope="module")
def gateways(folder: Path) -> dict[str, list[dict[str, Any]]]:
    return {name: overlay(folder, name, text) for name, text in OVERLAYS.items()}


def only(resources: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [resource for resource in resources if resource["kind"] == kind]
    return found


def pods(resources: list[dict[str, Any]]) -> dict[str, Any]:
    template: dict[str, Any] = only(resources, "Deployment")["spec"]["template"]
    return template


def jobs(resources: list[dict[str, Any]]) -> Iterator[str]:
    """The job of each scraped pod, as the operator takes it from the pod's label."""
    yield pods(resources)["metadata"]["labels"][only(resources, "PodMonitor")["spec"]["jobLabel"]]


def test_what_kubernetes_knows_of_it_is_valid(gateways: dict[str, list[dict[str, Any]]]) -> None:
    for resources in gateways.values():
        assert {resource["kind"] for resource in resources} >= OWN
        for resource in resources:
            if resource["kind"] not in OWN:
                kubernetes_validate.validate(resource, "1.30", strict=True)


def test_a_monitor_finds_its_own_pods_and_their_port(gateways: dict[str, list[dict[str, Any]]]) -> None:
    for name, resources in gateways.items():
        monitor = only(resources, "PodMonitor")
        assert monitor["spec"].keys() == {"jobLabel", "selector", "podMetricsEndpoints"}
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        assert endpoint == {"port": "admin", "path": "/metrics", "interval": "15s"}
        (container,) = pods(resources)["spec"]["containers"]
        assert endpoint["port"] in [port["name"] for port in container["ports"]]
        for other, others in gateways.items():
            found = monitor["spec"]["selector"]["matchLabels"].items() <= pods(others)["metadata"]["labels"].items()
            assert found == (name == other), f"{name} scrapes the pods of {other}"


def test_prometheus_alone_gets_to_the_admin_port(gateways: dict[str, list[dict[str, Any]]]) -> None:
    for resources in gateways.values():
        clients, prometheus = only(resources, "NetworkPolicy")["spec"]["ingress"]
        assert [port["port"] for port in clients["ports"]] == ["http"]
        assert [port["port"] for port in prometheus["ports"]] == ["admin"]
        assert prometheus["from"] == [
            {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}}
        ]


def test_the_rules_find_every_gateway_by_its_job(gateways: dict[str, list[dict[str, Any]]]) -> None:
    for resources in gateways.values():
        rule = only(resources, "PrometheusRule")
        assert rule["spec"] == {"groups": groups()}
        (pattern,) = set(re.findall(r'job=~"([^"]+)"', str(rule["spec"])))
        assert [job for job in jobs(resources) if not re.fullmatch(pattern, job)] == []


def test_the_dashboard_is_a_config_map_that_grafana_reads(gateways: dict[str, list[dict[str, Any]]]) -> None:
    for resources in gateways.values():
        labeled = [resource for resource in resources if "grafana_dashboard" in resource["metadata"].get("labels", {})]
        (found,) = labeled
        assert found["data"] == {"jsonrpc-mcp-gateway.json": DASHBOARD.read_text()}
        assert found["metadata"]["name"].startswith(("jsonrpc-", "shop-"))
        assert len(DASHBOARD.read_text()) < 256 * 1024, "kubectl apply keeps a copy in an annotation of that size"


def test_all_of_the_folder_is_in_its_recipe() -> None:
    recipe = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    files = [file.rpartition("=")[2] for file in recipe["configMapGenerator"][0]["files"]]
    named = {*recipe["resources"], *recipe["configurations"], *files, "kustomization.yaml", "rules.yaml"}
    assert named == {file.name for file in FOLDER.iterdir()}


def test_the_patches_of_the_page_are_good(folder: Path) -> None:
    page = (DEPLOY.parent / "docs" / "kubernetes.md").read_text().split("## Monitoring")[1].split("\n## ")[0]
    resources = overlay(folder, "page", "\n".join(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)))
    for kind in OWN:
        assert only(resources, kind)["metadata"]["labels"]["release"] == "prometheus"
