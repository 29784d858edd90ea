"""Look at what is rendered, and at the replicas that run from it."""

from __future__ import annotations

import re
from functools import partial
from typing import Final

import aiohttp

from lab.deploy.kubelet import Pod
from lab.deploy.load import Caller
from lab.deploy.proofs import Proofs
from lab.deploy.services import SERVICES
from lab.deploy.world import World
from tests.waiting import until

OF_CALLERS: Final = "wiki"
"""The service that lists to its callers only, each what it may call."""


async def row(it: World, proofs: Proofs) -> None:
    proofs.head("The overlay for twelve services, rendered by kustomize, as processes")
    _table(it, proofs)
    await _replicas(it, proofs)
    await _tokens(it, proofs)


def _table(it: World, proofs: Proofs) -> None:
    """Prove that one table is all that differs from a container."""
    manifests, pod = it.cluster.manifests, it.cluster.pods[0]
    command = " ".join(manifests.command(pod.image))
    proofs.prove("the container's command, from the image", command, "args" not in manifests.container)
    table = {path: folder.name for path, folder in pod.table.paths.items()}
    proofs.prove("one table maps paths, and no others", ", ".join(table), len(table) == 1 + len(manifests.volumes()))
    proofs.prove("and ports", ", ".join(pod.table.variables()), len(pod.table.ports) == 2)
    given = manifests.environment(pod.image)
    mapped = {name: pod.table.map(value) for name, value in given.items()}
    names = ", ".join(sorted(name for name in given if mapped[name] != given[name]))
    whole = {**mapped, **pod.table.variables(), "HOSTNAME": pod.name}
    proofs.prove(f"of {len(given)} variables, those with a path that is mapped", names, pod.environment() == whole)


async def _replicas(it: World, proofs: Proofs) -> None:
    ready = sum(pod.ready for pod in it.cluster.pods)
    proofs.prove("replicas ready by their own probes", ready, ready == 3)
    kinds = len({service.name for service in it.services.values()})
    proofs.prove("services, and kinds of real services", (len(SERVICES), kinds), kinds >= len(SERVICES) == 12)
    sharing = it.redis.replicas()
    proofs.prove("replicas in Redis, with TLS, as a user with the documented rights", sharing, sharing == 3)
    for pod in it.cluster.pods:
        # A pod gets ready before all have listed: a slow service does not keep the others from their callers.
        listed = await until(partial(_listed, pod), lambda listed: listed.keys() == SERVICES.keys() - {OF_CALLERS})
        found = ", ".join(f"{name} {count}" for name, count in listed.items())
        proofs.prove(f"{pod.name} has tools of each service that lists to everybody", found, all(listed.values()))


async def _listed(pod: Pod) -> dict[str, int]:
    """Return how many tools a replica has, by service that it has listed."""
    async with aiohttp.ClientSession() as session, session.get(f"{pod.admin}/readyz?verbose") as answer:
        return {name: int(count) for name, count in re.findall(r"(?m)^(\w+): (\d+) tools", await answer.text())}


async def _tokens(it: World, proofs: Proofs) -> None:
    """Prove that tokens are asked for and looked at."""

    async def status(token: str | None, service: str) -> int:
        return (await Caller(it.load.session, it.load.port, token, f"/{service}").list("rest")).status

    own, nobody = await status(it.load.tokens[OF_CALLERS, "editor"], OF_CALLERS), await status(None, "crm")
    proofs.prove(f"{OF_CALLERS} lists to its callers: with a token", own, own == 200)
    proofs.prove("without a token", nobody, nobody == 401)
    foreign = await status(it.load.tokens["crm", "editor"], "books")
    proofs.prove("with a token for another service", foreign, foreign == 401)
