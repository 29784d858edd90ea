"""Look at what is rendered, and at the replicas that run from it."""

from __future__ import annotations

import re

import aiohttp

from tests.deploy.load import Caller
from tests.deploy.proofs import Proofs
from tests.deploy.services import SERVICES
from tests.deploy.world import World


async def row(it: World, proofs: Proofs) -> None:
    proofs.head("The overlay for twelve services, rendered by kustomize, as processes")
    manifests, pod = it.cluster.manifests, it.cluster.pods[0]
    command = " ".join(manifests.command(pod.image))
    proofs.prove("the container's command, from the image", command, "args" not in manifests.container)
    table = {path: folder.name for path, folder in pod.table.paths.items()}
    proofs.prove("one table maps paths, and no others", ", ".join(table), len(table) == 1 + len(manifests.volumes()))
    proofs.prove("and ports", ", ".join(pod.table.variables()), len(pod.table.ports) == 2)
    changed = pod.environment().items() - manifests.environment(pod.image).items()
    names = {name for name, value in changed} - pod.table.variables().keys() - {"HOSTNAME"}
    mapped = {name: pod.table.map(value) for name, value in manifests.environment(pod.image).items()}
    proofs.prove(
        f"of {len(mapped)} variables, those with a path that is mapped", ", ".join(sorted(names)),
        all(pod.environment()[name] == value for name, value in mapped.items()),
    )  # fmt: skip
    proofs.prove(
        "replicas ready by their own probes",
        len([one for one in it.cluster.pods if one.ready]),
        len(it.cluster.pods) == 3,
    )
    kinds = len({service.name for service in it.services.values()})
    proofs.prove("services, and kinds of real services", (len(SERVICES), kinds), kinds >= len(SERVICES) == 12)
    proofs.prove(
        "replicas in Redis, with TLS, as a user with the documented rights",
        it.redis.replicas(),
        it.redis.replicas() == 3,
    )
    for one in it.cluster.pods:
        async with aiohttp.ClientSession() as session, session.get(f"{one.admin}/readyz?verbose") as answer:
            listed = re.findall(r"(?m)^(\w+): (\d+) tools", await answer.text())
        found = ", ".join(f"{name} {count}" for name, count in listed)
        proofs.prove(f"{one.name} has tools of each service", found, {name for name, _ in listed} == SERVICES.keys())
    nobody = await Caller(it.load.session, it.load.port, None, "/crm").list("rest")
    proofs.prove("without a token", nobody.status, nobody.status == 401)
    stranger = Caller(it.load.session, it.load.port, it.load.tokens["crm", "editor"], "/books")
    foreign = await stranger.list("rest")
    proofs.prove("with a token for another service", foreign.status, foreign.status == 401)
