"""Two gateways in one namespace: each is reached by its own name, and selects its own pods."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.config.source import load_settings
from tests.each import each
from tests.kustomize import Resources, container_of, environment, render

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
OVERLAYS = {
    "plain": "namespace: mcp\nresources: [../base]\n",
    "suffix": "namespace: mcp\nnameSuffix: -crm\nresources: [../base]\n",
    "prefix": "namespace: mcp\nnamePrefix: shop-\nresources: [../base]\ncomponents: [../components/unauthenticated]\n",
    # Several layers, and a label of the operator's own in place of the name.
    "layers": "namePrefix: eu-\nresources: [../suffix]\n",
    "label": """
namespace: mcp
nameSuffix: -hr
resources: [../base]
labels: [{pairs: {app.kubernetes.io/instance: people}, includeSelectors: true}]
""",
}
NAMES = {
    "plain": "jsonrpc-mcp-gateway",
    "suffix": "jsonrpc-mcp-gateway-crm",
    "prefix": "shop-jsonrpc-mcp-gateway",
    "layers": "eu-jsonrpc-mcp-gateway-crm",
    "label": "jsonrpc-mcp-gateway-hr",
}


@pytest.fixture(scope="module")
def gateways(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Resources]:
    folder = tmp_path_factory.mktemp("kubernetes")
    shutil.copytree(DEPLOY, folder, dirs_exist_ok=True)
    for name, text in OVERLAYS.items():
        (folder / name).mkdir()
        (folder / name / "kustomization.yaml").write_text(text)
    return {name: render(folder / name) for name in OVERLAYS}


def selectors(gateway: Resources) -> Iterator[dict[str, str]]:
    pods: dict[str, Any] = gateway["Deployment"]["spec"]["template"]["spec"]
    yield gateway["Service"]["spec"]["selector"]
    yield gateway["Deployment"]["spec"]["selector"]["matchLabels"]
    yield gateway["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"]
    yield from (spread["labelSelector"]["matchLabels"] for spread in pods["topologySpreadConstraints"])


def test_each_selects_its_own_pods_and_no_others(gateways: dict[str, Resources]) -> None:
    for name, gateway in gateways.items():
        for other, resources in gateways.items():
            labels = resources["Deployment"]["spec"]["template"]["metadata"]["labels"]
            for selector in selectors(gateway):
                assert (selector.items() <= labels.items()) == (name == other), f"{name} selects pods of {other}"


def test_nothing_is_named_alike(gateways: dict[str, Resources]) -> None:
    for kind in ("ConfigMap", "Deployment", "NetworkPolicy", "Service", "ServiceAccount"):
        assert len({gateway[kind]["metadata"]["name"] for gateway in gateways.values()}) == len(gateways)


@each("overlay", [*OVERLAYS])
def test_each_is_reached_by_the_name_that_its_service_has_in_the_end(
    gateways: dict[str, Resources], overlay: str
) -> None:
    gateway = gateways[overlay]
    settings = load_settings(DEPLOY / "base" / "gateway.yaml", environ=environment(container_of(gateway)))
    assert gateway["Service"]["metadata"]["name"] == NAMES[overlay]
    assert settings.server.allowed_hosts == (NAMES[overlay],)


def test_without_a_kubectl_that_will_do_the_test_fails_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for version in (None, "v1.26.9"):
        if version is not None:
            old = tmp_path / "kubectl"
            old.write_text(f"""#!/bin/sh\necho '{{"clientVersion": {{"gitVersion": "{version}"}}}}'\n""")
            old.chmod(0o755)
        with pytest.raises(AssertionError, match=r"kubectl 1\.27 or later is missing.*install"):
            render(DEPLOY / "base", fetched=tmp_path / "none")
