"""Roll to an older version of the gateway and back, while everybody calls: both share one Redis. No call fails."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gateway.config.source import load_settings
from gateway.signing import SigningKeys, read_secrets
from gateway.store import ResourceStore
from gateway.store.choice import make_store
from lab.deploy.killed import SERVED
from lab.deploy.kubelet import Pod
from lab.deploy.load import Load
from lab.deploy.manifests import Image
from lab.deploy.older import COMMIT
from lab.deploy.proofs import Proofs
from lab.deploy.rolled import everybody
from lab.deploy.world import World
from tests.waiting import until

LEAST: Final = 1000
"""Calls that each version answers while both serve, in each direction."""
_UNAVAILABLE: Final = "the shared store is unavailable"
_SLOW: Final = "no answer within"
_KEYS: Final = """
import json, sys
from pathlib import Path
from gateway.config.source import load_settings
from gateway.discovery.shared_listing import backend_digest
services = load_settings(Path(sys.argv[1])).by_mount.values()
print(json.dumps([f"listing:{backend_digest(service)}" for service in services]))
"""
"""A program that each version runs as its own: a setting more makes another key."""
_UNREAD: Final = ("a listing in the shared store cannot be read", "was not sealed with this secret")


async def row(it: World, proofs: Proofs, older: Image) -> None:
    newer = it.cluster.image
    proofs.head(f"Under load: two versions share one Redis, the one of commit {COMMIT[:8]} and this one")
    everybody(it.load, SERVED)
    await it.load.more(200)
    await _roll(it, proofs, older, "this version to the older one")
    await _roll(it, proofs, newer, "the older version to this one")
    await it.load.end()


async def _roll(it: World, proofs: Proofs, image: Image, words: str) -> None:
    """Roll, and hold on while one replica is new, until there were enough calls. The replicas find documents of forms
    that they do not know in Redis."""
    start, others = len(it.load.calls), list(it.cluster.pods)
    seen = {pod.name: len(pod.lines) for pod in others}
    unknown = await _make_unknown(it, others[0].image, image)
    first = await it.cluster.replace(others[0], image)
    both = len(it.load.calls)
    addresses = {f"127.0.0.1:{first.port}"}, {f"127.0.0.1:{pod.port}" for pod in others[1:]}
    await until(lambda: min(_answered(it.load, both, some) for some in addresses) >= LEAST)
    by_new, by_old = (_answered(it.load, both, some) for some in addresses)
    for pod in others[1:]:
        await it.cluster.replace(pod, image)
    await it.cluster.settle()
    calls = it.load.calls[start:]
    proofs.prove(f"{words}: calls in all", len(calls), len(calls) >= 2 * LEAST)
    found = f"{by_new} by the one that is new, {by_old} by the others"
    proofs.prove("calls while both versions served", found, min(by_new, by_old) >= LEAST)
    proofs.none("calls that are not 200 with the right result", [call for call in calls if call.told != "right"])
    proofs.honest(it.load, calls)
    _judge_documents(proofs, unknown, {pod: pod.lines[seen.get(pod.name, 0) :] for pod in (*others, *it.cluster.pods)})


def _judge_documents(proofs: Proofs, unknown: int, logs: Mapping[Pod, list[dict[str, Any]]]) -> None:
    proofs.prove("documents of unknown forms, put where replicas look for shared listings", unknown, unknown)
    misses = Counter(
        COMMIT[:8] if COMMIT in str(pod.image.prefix) else "this one"
        for pod, lines in logs.items()
        for line in lines
        if any(words in line["event"] for words in _UNREAD)
    )
    found = ", ".join(f"{version}: {count}" for version, count in misses.items())
    proofs.prove("misses that each version's replicas logged", found, len(misses) == 2)
    # A busy machine may take 100 ms for an answer of Redis, which is no fault of a document.
    lost = [line for lines in logs.values() for line in lines if _UNAVAILABLE in line["event"]]
    proofs.none("losses of Redis but for slowness", [line for line in lost if _SLOW not in line["reason"]])
    proofs.none("errors in the logs of replicas", [line for pod in logs for line in pod.errors()])


def _answered(load: Load, start: int, addresses: set[str]) -> int:
    return sum(call.replica in addresses for call in load.calls[start:])


async def _make_unknown(it: World, *images: Image) -> int:
    """Put documents of a form that no version knows into Redis, where each of these versions looks for shared listings.
    Some are sealed as the gateway seals, others with another secret. Of every third, the replicas that run hear by a
    notice that it is new. Return how many there are."""
    pod = it.cluster.pods[0]
    settings = load_settings(Path(pod.command()[-1]), environ=pod.environment())
    keys = read_secrets(settings.server.secret_file), (b"a secret that no replica has",)
    mounts = [service.mount_id for service in settings.by_mount.values()]
    places = {pair for image in images for pair in zip(mounts, await _listing_keys(pod, image), strict=True)}
    redis = make_store(settings.store)
    await redis.open()
    try:
        for number, (mount, key) in enumerate(sorted(places)):
            own, strange = (ResourceStore(redis, SigningKeys(some, mount)) for some in keys)
            await (own if number % 4 < 2 else strange).put(key, b"a form of a later version", 3600)
            await own.publish("later", b"a topic that nobody knows")
            if number % 3 == 0:
                await own.publish(key, b"\xff a notice of a later version")
    finally:
        await redis.close()
    return len(places)


async def _listing_keys(pod: Pod, image: Image) -> list[str]:
    """Return where this version looks for the listing of each service, in the order of the configuration."""
    python = str(image.prefix / "bin" / "python")
    run = await asyncio.create_subprocess_exec(
        python, "-P", "-c", _KEYS, pod.command()[-1], env=pod.environment(), stdout=asyncio.subprocess.PIPE
    )
    keys: list[str] = json.loads((await run.communicate())[0])
    return keys
