"""Calls while Redis fails over: one master, two replicas, three Sentinels, and two gateways that share it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.authorization.stand import Bearer
from tests.fault.ledger import Ledger, service
from tests.fault.load import Callers, addresses, session
from tests.program import Program, settings
from tests.redis_server import RedisServer
from tests.waiting import until, wait_until

CALLS: Final = 3000
_RATE: Final = 100.0
"""Calls a second."""
_KILLED_AFTER: Final = CALLS // 3
_NAME: Final = "gateway"
_USED: Final = "the shared store is available"
_PATIENCE: Final = 60.0


@dataclass(frozen=True)
class FailedOver:
    """What callers saw. ``away`` is the seconds from the end of the master until both gateways used the new one,
    ``promoted`` those until the Sentinels had made one."""

    calls: int
    right: int
    wrong: int
    twice: int
    lost: int
    refused: int
    promoted: float
    away: float
    complaints: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Return whether all calls were made, no answer was wrong, no call ran twice, and none was lost."""
        return self.calls >= CALLS and not (self.wrong or self.twice or self.lost)


@dataclass(frozen=True)
class Fleet:
    """The servers of Redis, started. ``sentinels`` watch all others."""

    master: RedisServer
    replicas: tuple[RedisServer, ...]
    sentinels: tuple[RedisServer, ...]

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/{_NAME}/0"

    def has_new_master(self) -> bool:
        """Return whether one of the replicas is the master now."""
        return any(one.control.info("replication")["role"] == "master" for one in self.replicas)


@contextmanager
def fleet(folder: Path) -> Iterator[Fleet]:
    """Start one master, two replicas of it, and three Sentinels of which two must agree."""
    with ExitStack() as stack:
        master = stack.enter_context(RedisServer("--repl-diskless-sync-delay", "0", folder=folder))
        options = ("--replicaof", f"127.0.0.1 {master.port}")
        replicas = tuple(stack.enter_context(RedisServer(*options, folder=folder)) for _ in range(2))
        for replica in replicas:  # before the Sentinels look, which they do every ten seconds only
            wait_until(partial(_follows, replica))
        sentinels = []
        for number in range(3):
            config = folder / f"sentinel-{number}.conf"
            config.write_text(
                f"sentinel monitor {_NAME} 127.0.0.1 {master.port} 2\n"
                f"sentinel down-after-milliseconds {_NAME} 1000\n"
                f"sentinel failover-timeout {_NAME} 5000\n"
            )
            sentinels.append(stack.enter_context(RedisServer(sentinel=config, folder=folder)))
        for sentinel in sentinels:
            wait_until(partial(_knows_all, sentinel))
        yield Fleet(master, replicas, tuple(sentinels))


def _follows(replica: RedisServer) -> bool:
    """Return whether a replica has what its master has."""
    return bool(replica.control.info("replication")["master_link_status"] == "up")


def _knows_all(sentinel: RedisServer) -> bool:
    """Return whether a Sentinel has found the replicas and the other Sentinels."""
    known: Any = sentinel.control.sentinel_master(_NAME)
    return bool(known["num-slaves"] == 2 and known["num-other-sentinels"] == 2)


async def fail_over() -> FailedOver:
    """Make :data:`CALLS` calls through both gateways, and kill the master at a third of them."""
    ledger = Ledger()
    with tempfile.TemporaryDirectory(prefix="gateway-failover-") as folder, fleet(Path(folder)) as redis:
        async with _gateways(Path(folder), redis.url, ledger) as (programs, clients):
            clock = asyncio.get_running_loop().time
            calling = asyncio.create_task(Callers(ledger, clients, _RATE).calls(CALLS / _RATE))
            await until(lambda: len(ledger.told) >= _KILLED_AFTER, within=_PATIENCE)
            used = [program.output.count(_USED) for program in programs]
            killed = clock()
            redis.master.kill()
            await until(redis.has_new_master, within=_PATIENCE)
            promoted = clock() - killed
            for program, before in zip(programs, used, strict=True):
                await program.logged(_USED, before + 1)
            away = clock() - killed
            await calling
    return FailedOver(
        calls=len(ledger.told),
        right=ledger.count("right"),
        wrong=len(ledger.wrong),
        twice=len(ledger.twice),
        lost=len(ledger.lost),
        refused=ledger.count("unsent"),
        promoted=promoted,
        away=away,
        complaints=(*ledger.complaints[:3], *map(str, ledger.failures.items())),
    )


@asynccontextmanager
async def _gateways(folder: Path, store: str, ledger: Ledger) -> AsyncIterator[tuple[list[Program], list[Bearer]]]:
    """Start two gateways with one store, and give ten callers of each."""
    secret = folder / "secret"
    secret.write_text("0123456789abcdef" * 2)
    secret.chmod(0o600)
    async with AsyncExitStack() as stack:
        backend = await stack.enter_async_context(service(ledger))
        # Each caller uses half of this: a limit that counted calls again after the failover would refuse some.
        shared = (f"store.url={store}", f"server.secret_file={secret}", "limits.invocation=600/minute")
        programs, clients = [], []
        for network in (1, 2):
            program = await stack.enter_async_context(Program("serve", *settings(backend.url, *shared)))
            port = (await program.logged("gateway started"))["port"]
            await program.logged(_USED)
            await program.logged("listing refreshed")
            sessions = [await stack.enter_async_context(session(one)) for one in addresses(network, 10)]
            clients += [Bearer(one, port, None) for one in sessions]
            programs.append(program)
        yield programs, clients
