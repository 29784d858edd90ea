"""All that the deployment needs beside it: services, an authorization server, Redis, and what an operator writes."""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml

from lab.deploy.cluster import Cluster
from lab.deploy.load import Counted, Load
from lab.deploy.manifests import Image, Manifests
from lab.deploy.services import ALL, SERVICES, SITE_SCOPES, entry, resource
from tests.authorization.servers import OidcProvider, Resource, oidc_provider
from tests.dockerfile import DEPLOY
from tests.fault.proxy import FaultProxy
from tests.redis_server import RedisServer
from tests.services import launch
from tests.services.process import Service, free_port
from tests.tls import Authority

PEOPLE: Final = ("admin", "editor")
"""Who calls; the site knows both."""
SIGNING: Final = "jsonrpc-mcp-gateway-secret"
REDIS: Final = "jsonrpc-mcp-gateway-redis"
OWN: Final = "service-passwords"
_PAGE: Final = DEPLOY.parent / "docs" / "scaling.md"
_OVERLAY: Final = """
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../twelve-services-ha]
configMapGenerator:
  - name: jsonrpc-mcp-gateway
    behavior: merge
    files: [gateway.yaml]
    options: {disableNameSuffixHash: true}
patches:
  - patch: |
      apiVersion: apps/v1
      kind: Deployment
      metadata:
        name: jsonrpc-mcp-gateway
      spec:
        template:
          spec:
            containers:
              - name: gateway
                env:
                  - {name: GATEWAY__AUTH__ISSUERS, value: "[{issuer: @issuer@}]"}
                  - {name: GATEWAY__SERVER__TRUSTED_PROXIES, value: "[127.0.0.0/8]"}
                  - {name: GATEWAY__STORE__URL, value: "rediss://gateway@127.0.0.1:@redis@/0"}
                  - name: GATEWAY__SERVICES__BOOKS__BACKEND__CREDENTIALS__PASSWORD_FILE
                    value: /run/secrets/services/books
                volumeMounts:
                  - {name: services, mountPath: /run/secrets/services, readOnly: true}
            volumes:
              - name: services
                secret: {secretName: service-passwords, defaultMode: 0440}
"""


@dataclass
class SharedRedis:
    """A Redis that gateways reach with TLS and as a user with the rights of docs/scaling.md alone. ``server`` has a
    plain port as well, for the test, whose password no gateway knows."""

    server: RedisServer
    tls_port: int
    passwords: list[str]

    def allow(self, *passwords: str) -> None:
        """Let the gateways' user have these passwords, and no other."""
        found = re.search(r"It needs `([^`]+)`, keys `([^`]+)`, and the channel `([^`]+)`", _PAGE.read_text())
        assert found is not None, "docs/scaling.md does not say what rights the user needs"
        rights, keys, channel = found.groups()
        words = ["reset", "on", *(f">{word}" for word in passwords), f"~{keys}", f"&{channel}", "-@all"]
        self.server.control.execute_command("ACL", "SETUSER", "gateway", *words, *rights.split())  # type: ignore[no-untyped-call]
        self.passwords = list(passwords)

    def replicas(self) -> int:
        """Return how many gateways are subscribed to notices."""
        (_, count), *_ = self.server.control.pubsub_numsub("jsonrpc-mcp-gateway:notices")
        return int(count)

    def denied(self) -> list[Any]:
        """Return what Redis has refused: commands, keys, channels, logins."""
        entries: list[Any] = self.server.control.acl_log()
        return entries


@dataclass
class World:
    """All of it, running. ``shown`` counts the credentials that ``books`` was shown."""

    folder: Path
    cluster: Cluster
    load: Load
    redis: SharedRedis
    shown: Counter[str]
    urls: Mapping[str, str]
    services: Mapping[str, Service]

    def render(self, *names: str) -> Manifests:
        """Render the operator's overlay with these services."""
        return render(self.folder, {name: self.urls[name] for name in names})


def render(folder: Path, urls: Mapping[str, str]) -> Manifests:
    """Write the operator's ``gateway.yaml`` with the services at these URLs, and render the overlay."""
    tree = {"limits": {"discovery": "60/minute"}, "services": {name: entry(name, url) for name, url in urls.items()}}
    file = folder / "deploy" / "kubernetes" / "overlays" / "mine" / "gateway.yaml"
    file.write_text(yaml.safe_dump(tree, sort_keys=False))
    return Manifests.of(file.parent)


def write_overlay(folder: Path, issuer: str, redis: int) -> None:
    """Copy deploy/, and write the operator's own overlay beside the finished ones."""
    shutil.copytree(DEPLOY, folder / "deploy", dirs_exist_ok=True)
    mine = folder / "deploy" / "kubernetes" / "overlays" / "mine"
    mine.mkdir()
    text = _OVERLAY.replace("@issuer@", issuer).replace("@redis@", str(redis))
    (mine / "kustomization.yaml").write_text(text)


def start_redis(stack: AsyncExitStack, authority: Authority) -> SharedRedis:
    pem, port = str(authority.server_pem("127.0.0.1")), free_port()
    tls = ("--tls-port", str(port), "--tls-cert-file", pem, "--tls-key-file", pem, "--tls-auth-clients", "no")
    server = RedisServer(*tls, "--tls-ca-cert-file", str(authority.file), password=secrets.token_hex(16))
    redis = SharedRedis(stack.enter_context(server), port, [])
    redis.allow("first-of-redis")
    return redis


async def start_services(stack: AsyncExitStack, issuer: OidcProvider) -> dict[str, Service]:
    """Start all of them side by side."""
    started = {name: kind.start() for name, kind in ALL.items()}
    started["wiki"] = launch.drupal(mcp=True, jwks=issuer.jwks_uri, audience=resource("wiki"))
    for service in started.values():
        stack.callback(service.close)
    await asyncio.gather(*(asyncio.to_thread(service.start) for service in started.values()))
    return started


async def tokens_of(issuer: OidcProvider) -> dict[tuple[str, str], str]:
    """Return an access token of each person for each service."""

    async def one(name: str, person: str) -> str:
        scope = " ".join(SITE_SCOPES)
        return (await issuer.authorization_code(resource=resource(name), scope=scope, person=person)).token

    wanted = [(name, person) for name in ALL for person in PEOPLE]
    return dict(zip(wanted, await asyncio.gather(*(one(*each) for each in wanted)), strict=True))


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    """Start all of it, and end it."""
    async with AsyncExitStack() as stack:
        resources = [Resource(resource(name), SITE_SCOPES) for name in ALL]
        issuer = stack.enter_context(oidc_provider(resources))
        authority = Authority(folder)
        redis = start_redis(stack, authority)
        services = await start_services(stack, issuer)
        runs, shown, urls = Counter[str](), Counter[str](), {}
        for name, service in services.items():
            proxy = await stack.enter_async_context(FaultProxy(service.port))
            proxy.fault = Counted(runs, shown if name == "books" else Counter())
            urls[name] = service.url.replace(f":{service.port}", f":{proxy.port}")
        write_overlay(folder, issuer.issuer, redis.tls_port)
        made = {
            SIGNING: {"secret": secrets.token_hex(32).encode()},
            REDIS: {"password": b"first-of-redis", "ca.crt": authority.file.read_bytes()},
            OWN: {"books": b"first-of-books"},
        }
        session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True))
        await stack.enter_async_context(session)
        manifests = render(folder, {name: urls[name] for name in SERVICES})
        cluster = Cluster(folder, manifests, Image(Path(sys.prefix)), made)
        stack.push_async_callback(cluster.close)
        nginx = await stack.enter_async_context(await cluster.start())
        load = Load(session, nginx.port, await tokens_of(issuer), runs)
        yield World(folder, cluster, load, redis, shown, urls, services)
