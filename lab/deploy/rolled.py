"""Change services and secrets and roll all replicas, while everybody calls. No call fails."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import urllib.request
from typing import Final

from lab.deploy.load import Caller, Load
from lab.deploy.proofs import Proofs
from lab.deploy.services import ALL, GONE, LATER, SERVICES, SLOW
from lab.deploy.world import OWN, PEOPLE, REDIS, SIGNING, World
from tests.authorization.stand import Answer
from tests.protocol.official import LEGACY
from tests.protocol.talk import legacy_headers, request
from tests.waiting import until

LEAST: Final = 5000
"""Calls in all."""
RELOADED: Final = '"event":"configuration reloaded"'
KEPT: Final = '"event":"knob keeps its old value until a restart"'
AT_START: Final = '"event":"a file changed that is read at the start: restart to use it"'
_SLOW_RATE: Final = 1.5


def everybody(load: Load, services: tuple[str, ...] = tuple(SERVICES)) -> None:
    """Have all people call all services, and two of them at a time for calls that take a while."""
    for name in services:
        load.begin(name, ALL[name], PEOPLE)
    load.begin("books", SLOW, PEOPLE * 2, _SLOW_RATE)


async def row(it: World, proofs: Proofs) -> None:
    proofs.head("Under load: a service comes, one goes, secrets are replaced, all replicas are rolled with SIGTERM")
    start = len(it.load.calls)
    everybody(it.load)
    await it.load.more(300)
    session = await _caller(it).initialize(LEGACY[0])
    await _add(it, proofs)
    gone_from = await _remove(it, proofs)
    await _rotate_own(it, proofs)
    await _rotate_and_roll(it, proofs)
    answer = await _in_session(it, session)
    proofs.prove(
        "a session from before the roll, signed with the old secret, is good", answer.status, answer.status == 200
    )
    await it.load.more(max(200, start + LEAST - len(it.load.calls)))
    await it.load.end()
    _judge(it, proofs, start, gone_from)


def _caller(it: World) -> Caller:
    return Caller(it.load.session, it.load.port, it.load.tokens["crm", "editor"], "/crm")


async def _in_session(it: World, session: str) -> Answer:
    return await _caller(it).mcp(request("tools/list", {}), legacy_headers(LEGACY[0], session))


async def everywhere(it: World, event: str, before: dict[str, int]) -> None:
    """Wait until each replica has logged an event once more."""
    await until(lambda: all(pod.count(event) > before[pod.name] for pod in it.cluster.pods))


def counts(it: World, event: str) -> dict[str, int]:
    return {pod.name: pod.count(event) for pod in it.cluster.pods}


async def _add(it: World, proofs: Proofs) -> None:
    before = counts(it, RELOADED)
    it.cluster.apply(it.render(*SERVICES, LATER))
    await everywhere(it, RELOADED, before)
    it.load.begin(LATER, ALL[LATER], PEOPLE)
    proofs.prove("a service is added by a change of the ConfigMap, without a restart", LATER, True)
    await it.load.more(200)


async def _remove(it: World, proofs: Proofs) -> float:
    """Return from when on all replicas know."""
    before = counts(it, RELOADED)
    it.load.removed.add(GONE)
    it.cluster.apply(it.render(*(name for name in (*SERVICES, LATER) if name != GONE)))
    await everywhere(it, RELOADED, before)
    proofs.prove("a service is removed likewise", GONE, True)
    return asyncio.get_running_loop().time()


def _basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"gateway:{password}".encode()).decode()


async def _rotate_own(it: World, proofs: Proofs) -> None:
    """Replace the password that ``books`` is shown: a reload applies it."""
    before = counts(it, RELOADED)
    it.cluster.change_secret(OWN, books=b"second-of-books")
    await everywhere(it, RELOADED, before)
    old, new = _basic("first-of-books"), _basic("second-of-books")
    shown = it.shown[old]
    await it.load.more(200)
    found = f"{it.shown[new]} requests with the new one, {it.shown[old] - shown} with the old one since"
    holds = shown and it.shown[new] and it.shown[old] == shown
    proofs.prove("a service's password is replaced by a link swap, and used at once", found, holds)


async def _rotate_and_roll(it: World, proofs: Proofs) -> None:
    """Replace Redis's password and the signing secret, which need a restart: both old and new are good meanwhile."""
    kept, at_start = counts(it, KEPT), counts(it, AT_START)
    old = it.cluster.secret(SIGNING, "secret")
    it.redis.allow("first-of-redis", "second-of-redis")
    it.cluster.change_secret(REDIS, password=b"second-of-redis")
    it.cluster.change_secret(SIGNING, secret=secrets.token_hex(32).encode() + b"\n" + old)
    await everywhere(it, KEPT, kept)
    await everywhere(it, AT_START, at_start)
    proofs.prove("Redis's password and the signing secret: each replica says that they need a restart", "logged", True)
    await it.cluster.roll(it.cluster.image)
    ended = [pod.exit_codes for pod in it.cluster.ended]
    proofs.prove("replicas rolled, exit codes", ended, ended == [[0]] * len(it.cluster.pods))
    it.redis.allow("second-of-redis")
    cut = it.redis.server.control.execute_command("CLIENT", "KILL", "USER", "gateway")  # type: ignore[no-untyped-call]
    await until(lambda: it.redis.replicas() == len(it.cluster.pods))
    proofs.prove(
        "the old password of Redis is taken away: replicas connect with the new one", f"{cut} connections cut", cut
    )


def _judge(it: World, proofs: Proofs, start: int, gone_from: float) -> None:
    calls = it.load.calls[start:]
    proofs.prove("calls in all", len(calls), len(calls) >= LEAST)
    proofs.surfaces(calls)
    gone = [call for call in calls if call.told == "gone"]
    proofs.none("calls that are not 200 with the right result", [c for c in calls if c.told not in ("right", "gone")])
    proofs.prove("404 for the removed service, counted apart", len(gone), gone)
    late = [call for call in calls if call.service == GONE and call.began > gone_from and call.told != "gone"]
    proofs.none("answers of the removed service after all replicas knew", late)
    proofs.honest(it.load, calls)
    names = pets(it)
    right = [call.number for call in calls if call.service == "tickets" and call.told == "right"]
    twice = len(names) - len(set(names))
    found = f"{len(right)} calls, {len(names)} entries, {twice} twice"
    proofs.prove("a service's own ledger agrees (tickets)", found, not twice and set(right) <= set(names))
    pods = [*it.cluster.pods, *it.cluster.ended]
    proofs.none("restarts, and probes that failed for good", [p.name for p in pods if p.restarts or p.failed_probes])
    proofs.none("what Redis refused a user with the documented rights (ACL LOG)", it.redis.denied())
    proofs.none("errors in the logs of replicas", [line for pod in pods for line in pod.errors()])


def pets(it: World) -> list[str]:
    """Return the names that ``tickets`` has."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "list_pets", "params": {"limit": 10**6}}).encode()
    sent = urllib.request.Request(it.services["tickets"].url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(sent, timeout=30) as answer:
        return [pet["name"] for pet in json.load(answer)["result"] if pet["name"].isdigit()]
