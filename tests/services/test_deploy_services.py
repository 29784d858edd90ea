"""The variants of deploy/ with several services, started as they are rendered, before real services."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import yaml

from tests.front import Front
from tests.kustomize import container_of, environment
from tests.program import Program
from tests.services.process import Service
from tests.unit.test_deploy_services import OWN, TWO, compose, overlay, written

HERE = ("server.host=127.0.0.1", "server.admin_host=127.0.0.1", "server.port=0", "server.admin_port=0")
"""What is of the container alone: all of its addresses, and ports that nobody else has there."""
URL = """
patches:
  - patch: |
      apiVersion: apps/v1
      kind: Deployment
      metadata: {{name: jsonrpc-mcp-gateway}}
      spec:
        template:
          spec:
            containers:
              - name: gateway
                env:
                  - {{name: GATEWAY__SERVICES__CRM__BACKEND__URL, value: "{crm}"}}
                  - {{name: GATEWAY__SERVICES__SHOP__BACKEND__URL, value: "{shop}"}}
"""


@asynccontextmanager
async def started(file: Path, environ: Mapping[str, str]) -> AsyncIterator[dict[str, Front]]:
    """The gateway by service, run by ``serve`` with a container's file and environment."""
    options = [option for knob in HERE for option in ("--set", knob)]
    program = Program("serve", "--config", str(file), *options, environ=environ)
    async with program, aiohttp.ClientSession() as session:
        port = (await program.logged("gateway started"))["port"]
        fronts = {"": Front(port, session)}
        for name in ("crm", "shop"):
            fronts[name] = Front(port, session)
            fronts[name].mcp = f"{fronts[name].base}/{name}/mcp"
        yield fronts


async def serves_both(gateway: dict[str, Front]) -> None:
    assert {"add", "echo"} <= (await gateway["crm"].tools()).keys()
    assert {"App.add"} <= (await gateway["shop"].tools("rest")).keys()
    assert (await gateway["crm"].call("modern", "add", {"a": 2, "b": 3})).value == 5
    assert (await gateway[""].post(gateway[""].mcp, {})).status == 404


async def test_the_variant_for_kubernetes_serves_each_service_at_its_path(
    openrpc_app: Service, flask_app: Service, tmp_path: Path
) -> None:
    text = "resources: [../base]\ncomponents: [../components/several-services, ../components/unauthenticated]\n"
    resources = overlay(tmp_path, text + OWN + URL.format(crm=openrpc_app.url, shop=flask_app.url), TWO)
    async with started(written(resources, tmp_path), environment(container_of(resources))) as gateway:
        await serves_both(gateway)


async def test_the_variant_for_compose_serves_each_service_at_its_path(
    openrpc_app: Service, flask_app: Service, tmp_path: Path
) -> None:
    file = tmp_path / "gateway.yaml"
    backends = {"crm": openrpc_app.url, "shop": flask_app.url}
    file.write_text(yaml.safe_dump({"services": {name: {"backend": {"url": url}} for name, url in backends.items()}}))
    async with started(file, compose("compose.services.yaml")["environment"]) as gateway:
        await serves_both(gateway)
