"""Ten reloads, callers, sockets, streams, files or starts later there is as much as before: objects, subscribers,
connections and descriptors."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final, TypeAlias

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.config.source import load_settings
from gateway.settings.store import StoreSettings
from gateway.store import ServerStore
from gateway.store.memory import MemoryStore
from gateway.store.redis import RedisStore
from gateway.store.redis_client import make_client
from tests.authorization.token_endpoint import OWN, TokenEndpoint
from tests.contract.transports import Json, WebSocketStand
from tests.fault.methods import METHODS, openrpc
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Front, front, ground
from tests.otlp import Collector
from tests.protocol.grouped import grouped
from tests.protocol.official import MODERN
from tests.protocol.test_audit import rotate
from tests.redis_server import RedisServer
from tests.waiting import PATIENCE, until

SUM: Final = {"a": 2, "b": 3}
FIRST: Final = 3
"""Rounds after which there is nearly all that is made once, or kept for a few."""
ROUNDS: Final = 10
OF_TIMERS: Final = ("<class 'gateway.http_client.session._Exchange'>",)
"""Classes whose objects asyncio keeps with a timer of aiohttp that was cancelled, until its time has come."""

Subscribers: TypeAlias = set[Callable[[], None]]


class CountedMemory(MemoryStore):
    """The store in memory, which says how many subscribers it has."""

    def __init__(self) -> None:
        super().__init__()
        self.subscribers: Subscribers = set()

    def subscribe(self, topic: str, receive: Callable[[bytes], None]) -> Callable[[], None]:
        return counted(self.subscribers, super().subscribe(topic, receive))


class CountedRedis(RedisStore):
    """The same of a store in Redis."""

    def __init__(self, server: RedisServer) -> None:
        super().__init__(make_client(StoreSettings(url=server.url)), slow=PATIENCE)
        self.subscribers: Subscribers = set()

    def subscribe(self, topic: str, receive: Callable[[bytes], None]) -> Callable[[], None]:
        return counted(self.subscribers, super().subscribe(topic, receive))


def counted(subscribers: Subscribers, unsubscribe: Callable[[], None]) -> Callable[[], None]:
    """Keep what ends a subscription among ``subscribers`` until it is called."""

    def end() -> None:
        subscribers.discard(end)
        unsubscribe()

    subscribers.add(end)
    return end


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(params=["memory", "redis"])
def store(request: pytest.FixtureRequest, redis: RedisServer) -> CountedMemory | CountedRedis:
    return CountedMemory() if request.param == "memory" else CountedRedis(redis)


Round: TypeAlias = Callable[[int], Awaitable[None]]
Opened: TypeAlias = tuple[Round, Callable[[], int]]
"""What happens in a round, and how many connections those behind the gateway see."""


async def add(gateway: Front, **headers: str) -> None:
    for surface in SURFACES:
        assert (await gateway.call(surface, "add", SUM, headers)).value == {"sum": 5}


@asynccontextmanager
async def reloads_of_a_service(folder: Path, store: ServerStore) -> AsyncIterator[Opened]:
    async with ScriptedBackend() as backend, front(backend.url, store=store) as gateway:

        async def again(number: int) -> None:
            assert gateway.gateway is not None
            knobs = ground(backend.url, f"limits.discovery={500 + number % 2}/minute")
            await gateway.gateway.reload(load_settings(None, knobs, environ={}))
            await add(gateway)

        yield again, lambda: backend.open_connections


@asynccontextmanager
async def reloads_of_a_group(folder: Path, store: ServerStore) -> AsyncIterator[Opened]:
    async with grouped(store=store) as it:

        async def again(number: int) -> None:
            await it.reload(f"groups.all.limits.discovery={500 + number % 2}/minute")
            assert await it.names() == ["crm_add", "shop_echo"]
            assert (await it.client().call(MODERN, "crm.add", SUM)).status == 200

        yield again, lambda: sum(backend.open_connections for backend in it.backends.values())


def answered(message: Json) -> Json:
    return openrpc(METHODS) if message["method"] == "rpc.discover" else {"sum": 5}


@asynccontextmanager
async def before_a_socket(store: ServerStore, *knobs: str) -> AsyncIterator[tuple[WebSocketStand, Front]]:
    stand = WebSocketStand()
    stand.result = answered
    await stand.open()
    try:
        async with front(stand.url, "backend.listing.dialect=openrpc", *knobs, store=store) as gateway:
            yield stand, gateway
    finally:
        await stand.close()


@asynccontextmanager
async def credentials_of_a_socket(folder: Path, store: ServerStore) -> AsyncIterator[Opened]:
    """Each call gets a token of its own, since each token is about to end."""
    endpoint, application = TokenEndpoint(), web.Application()
    endpoint.answer = lambda form: (200, endpoint.grant(form, expires_in=1))
    application.router.add_post("/token", endpoint.serve)
    async with TestServer(application) as server:
        endpoint.url = str(server.make_url("/token"))
        async with before_a_socket(store, OWN, *endpoint.knobs()) as (stand, gateway):

            async def again(number: int) -> None:
                given = len(endpoint.forms)
                await add(gateway)
                assert len(endpoint.forms) == given + len(SURFACES)

            yield again, lambda: stand.listener.open_connections


@asynccontextmanager
async def sockets_that_end(folder: Path, store: ServerStore) -> AsyncIterator[Opened]:
    async with before_a_socket(store) as (stand, gateway):

        async def again(number: int) -> None:
            await stand.close()
            await stand.open()
            await until(lambda: gateway.call("modern", "add", SUM), lambda called: not called.failed)

        yield again, lambda: stand.listener.open_connections


@asynccontextmanager
async def streams_that_end(folder: Path, store: ServerStore) -> AsyncIterator[Opened]:
    async with grouped(store=store) as it:

        async def again(number: int) -> None:
            for place in ("all", "crm"):
                async with it.client(at=place).listen({"toolsListChanged": True}) as stream:
                    await stream.message()

        yield again, lambda: sum(backend.open_connections for backend in it.backends.values())


@asynccontextmanager
async def rotations_of_the_audit(folder: Path, store: ServerStore) -> AsyncIterator[Opened]:
    file = folder / "audit.jsonl"
    async with (
        ScriptedBackend() as backend,
        front(backend.url, f"telemetry.audit.to={file}", "telemetry.audit.required=true", store=store) as gateway,
    ):

        async def again(number: int) -> None:
            for part in "abc":
                rotate(file, folder / f"{number}{part}")
            await add(gateway)

        yield again, lambda: backend.open_connections


ROWS: Final = [
    reloads_of_a_service, reloads_of_a_group, credentials_of_a_socket, sockets_that_end, streams_that_end,
    rotations_of_the_audit,
]  # fmt: skip


def held() -> Counter[str]:
    """How many objects of each class of ours there are, and how many descriptors."""
    gc.collect()
    kinds = Counter(str(type(one)) for one in gc.get_objects())
    found = Counter({kind: count for kind, count in kinds.items() if kind.startswith("<class 'gateway.")})
    for kind in OF_TIMERS:
        found.pop(kind, None)
    found["descriptors"] = len([*Path("/proc/self/fd").iterdir()])
    return found


def grown(now: Counter[str], before: Counter[str]) -> dict[str, int]:
    """Of what there is more by most of the rounds. Caches that are still being filled grow by fewer."""
    return {what: more for what, more in (now - before).items() if more > ROUNDS // 2}


@pytest.mark.parametrize("row", ROWS, ids=[row.__name__ for row in ROWS])
async def test_ten_rounds_later_there_is_as_much_as_before(
    row: Callable[[Path, ServerStore], AbstractAsyncContextManager[Opened]],
    tmp_path: Path,
    store: CountedMemory | CountedRedis,
) -> None:
    async with row(tmp_path, store) as (again, connections):

        def all_of_it() -> Counter[str]:
            return held() + Counter(subscribers=len(store.subscribers), connections=connections())

        for number in range(FIRST):
            await again(number)
        before = all_of_it()
        for number in range(FIRST, FIRST + ROUNDS):
            await again(number)
        await until(lambda: grown(all_of_it(), before), lambda more: not more)


async def test_ten_starts_later_there_is_as_much_as_before(
    tmp_path: Path, redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef" * 2)
    secret.chmod(0o600)
    async with ScriptedBackend() as backend, Collector() as collector:
        for name, value in collector.environ.items():
            monkeypatch.setenv(name, value)

        async def again() -> None:
            shared = (f"store.url={redis.url}", f"server.secret_file={secret}")
            telemetry = (f"telemetry.audit.to={tmp_path}/audit.jsonl", "telemetry.traces=on")
            async with front(backend.url, *shared, *telemetry) as gateway:
                await add(gateway)

        def all_of_it() -> Counter[str]:
            clients = redis.control.info("clients")["connected_clients"]
            return held() + Counter(connections=backend.open_connections, of_redis=clients)

        for _ in range(FIRST):
            await again()
        before = all_of_it()
        for _ in range(ROUNDS):
            await again()
        await until(lambda: grown(all_of_it(), before), lambda more: not more)
