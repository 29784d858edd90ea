"""The variants of deploy/ with several services: without the backend of the only one, and otherwise the same."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from gateway.config.source import load_settings
from tests.kustomize import Resources, container_of, environment, render
from tests.unit.test_deploy import DEPLOY, OLDEST_KUBERNETES

SERVICES = "resources: [../base]\ncomponents: [../components/several-services]\n"
OWN = """
configMapGenerator: [{name: jsonrpc-mcp-gateway, behavior: merge, files: [gateway.yaml]}]
"""
TWO = """
services:
  crm:
    backend:
      url: https://crm.example.com/jsonrpc
      credentials: {backend_audience: https://gw.example.com/crm/mcp}
  shop:
    backend:
      url: https://shop.example.com/jsonrpc
      credentials: {backend_audience: https://gw.example.com/shop/mcp}
"""


def overlay(folder: Path, text: str, file: str | None = None) -> Resources:
    """What kustomize makes of an overlay beside the others, with a ``gateway.yaml`` of its own if there is one."""
    shutil.copytree(DEPLOY / "kubernetes", folder / "kubernetes")
    mine = folder / "kubernetes" / "mine"
    mine.mkdir()
    (mine / "kustomization.yaml").write_text(text)
    if file is not None:
        (mine / "gateway.yaml").write_text(file)
    return render(mine)


def written(resources: Resources, folder: Path) -> Path:
    """The file that the ConfigMap mounts."""
    file = folder / "gateway.yaml"
    file.write_text(resources["ConfigMap"]["data"]["gateway.yaml"])
    return file


@pytest.mark.parametrize("version", [OLDEST_KUBERNETES, kubernetes_validate.latest_version()])
def test_every_resource_of_the_variant_is_valid_to_the_letter(tmp_path: Path, version: str) -> None:
    for resource in overlay(tmp_path, SERVICES + OWN, TWO).values():
        kubernetes_validate.validate(resource, version, strict=True)


def test_the_variants_services_load_and_are_nobodys_until_an_overlay_says_more(tmp_path: Path) -> None:
    resources = overlay(tmp_path, SERVICES + OWN, TWO)
    made = load_settings(written(resources, tmp_path), environ=environment(container_of(resources)))
    assert list(made.by_mount) == ["/crm", "/shop"]
    for service in made.by_mount.values():
        assert service.backend.url == f"https://{service.name}.example.com/jsonrpc"
        assert service.resource == f"https://gw.example.com/{service.name}/mcp"
        assert [issuer.issuer for issuer in service.auth.issuers] == ["https://login.example.com"]
        assert not service.auth.allow_unauthenticated


def test_an_overlay_brings_services_of_its_own(tmp_path: Path) -> None:
    file = "services: {hr: {backend: {url: https://hr.example.org/rpc, credentials: {mode: none}}}}"
    resources = overlay(tmp_path, SERVICES + OWN, file)
    made = load_settings(written(resources, tmp_path), environ=environment(container_of(resources)))
    assert list(made.by_mount) == ["/hr"]


def test_nothing_but_the_backend_and_the_file_differs_from_the_base(tmp_path: Path) -> None:
    one, several = render(DEPLOY / "kubernetes" / "base"), overlay(tmp_path, SERVICES + OWN, TWO)
    before, after = environment(container_of(one)), environment(container_of(several))
    assert before.keys() - after.keys() == {
        "GATEWAY__BACKEND__URL",
        "GATEWAY__BACKEND__CREDENTIALS__BACKEND_AUDIENCE",
    }
    assert after.items() <= before.items()
    for kind in ("NetworkPolicy", "Service", "ServiceAccount"):
        assert one[kind] == several[kind]


def compose(name: str) -> dict[str, Any]:
    service: dict[str, Any] = yaml.safe_load((DEPLOY / name).read_text())["services"]["gateway"]
    return service


def test_composes_variant_differs_in_the_backend_and_asks_for_the_folder() -> None:
    one, several = compose("compose.yaml"), compose("compose.services.yaml")
    for knob in ("BACKEND__URL", "SERVER__ADMIN_HOST", "SERVER__SECRET_FILE", "STORE__URL"):
        del one["environment"][f"GATEWAY__{knob}"]
    del one["secrets"]
    (folder,), (asked,) = one.pop("volumes"), several.pop("volumes")
    assert one == several
    assert folder.endswith(":/etc/gateway:ro")
    assert asked.startswith("${GATEWAY_CONFIG:?set GATEWAY_CONFIG ")
    assert asked.endswith("}:/etc/gateway:ro")
