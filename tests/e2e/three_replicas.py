"""Three gateways, each a process of its own, with one Redis, behind one nginx that gives each the next request in turn.

async with three_replicas(folder) as it:
    answers = [await it.client("open").modern("tools/list") for _ in range(3)]
    assert len(replicas_of(answers)) == 3

``open`` is for everybody, ``own`` lists to each caller what its backend shows to that caller's token, ``proved`` wants
tokens that are bound to a key, and ``limited`` allows few listings.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiohttp import ClientSession
from redis.asyncio import Redis
from redis.asyncio.client import PubSub

from tests.authorization.issuer import ForgedIssuer
from tests.authorization.stand import PUBLIC, Bearer, Listings
from tests.fault.methods import ADD, ECHO, Rpc, RpcFailure
from tests.fault.scripted import ScriptedBackend
from tests.nginx import Nginx
from tests.program import Program
from tests.protocol.talk import Answer
from tests.redis_server import RedisServer

COUNT: Final = 3
REPLICA: Final = "X-Replica"
"""The header in which nginx says whom it asked."""
LISTINGS: Final = 20
"""How many listings a minute ``limited`` allows."""
_NUMBER: Final = {"type": "number"}


class Positional(Rpc):
    """Takes params by position alone."""

    def __call__(self, params: object) -> object:
        if not isinstance(params, list):
            raise RpcFailure(-32602, "Invalid params")
        return super().__call__(params)


SUBTRACT: Final = Positional("subtract", {"a": _NUMBER, "b": _NUMBER}, run=lambda a, b: a - b)
BROKEN: Final = Rpc("broken", {}, {"type": "object", "required": ["there"]}, run=dict)
SLOW: Final = Rpc("slow")
DROP: Final = Rpc("drop", {}, {"type": "string"}, run=lambda: "dropped")
"""It wants a person's consent."""
METHODS: Final = (ADD, BROKEN, DROP, ECHO, SLOW, SUBTRACT)


@dataclass(frozen=True)
class Replicas:
    """All of it, running. ``listings`` are what the backend of ``own`` shows to whom."""

    port: int
    admin_ports: tuple[int, ...]
    programs: tuple[Program, ...]
    session: ClientSession
    issuer: ForgedIssuer
    backend: ScriptedBackend
    own: ScriptedBackend
    listings: Listings
    redis: RedisServer

    def client(self, service: str, token: str | None = None) -> Bearer:
        """A client of nginx."""
        return Bearer(self.session, self.port, token, f"/{service}")

    async def refresh(self, replica: int) -> None:
        """Have one replica refresh its listings."""
        async with self.session.post(f"http://127.0.0.1:{self.admin_ports[replica]}/refresh") as answer:
            assert answer.status == 200, await answer.text()

    @asynccontextmanager
    async def heard(self) -> AsyncIterator[PubSub]:
        """Hear the notices of the replicas, as each of them does."""
        redis = Redis(port=self.redis.port, protocol=2)
        async with redis, redis.pubsub() as pubsub:
            await pubsub.subscribe("jsonrpc-mcp-gateway:notices")
            await pubsub.get_message(timeout=None)  # that it has subscribed
            yield pubsub


def replicas_of(answers: Iterable[Answer]) -> set[str]:
    """Who gave these answers."""
    return {answer.headers[REPLICA] for answer in answers}


def _configuration(redis: RedisServer, secret: Path, open: str, own: str, issuer: str) -> dict[str, Any]:
    issuers = [{"issuer": issuer}]
    read_only = {"annotations": {"readOnlyHint": True}}
    listing = {"dialect": "openrpc"}
    free = {"auth": {"mode": "off"}, "backend": {"url": open, "listing": listing}}
    return {
        "server": {"port": 0, "admin_port": 0, "public_url": PUBLIC, "secret_file": str(secret)},
        "store": {"url": redis.url},
        "catalog": {"ttl": "1h", "page_size": 2},
        "mcp": {"heartbeat": "200ms"},
        "limits": {"discovery": "100000/minute", "invocation": "100000/minute"},
        "services": {
            "open": {**free, "catalog": {"tools": {"drop": {"confirm": True}, "subtract": read_only}}},
            "own": {
                "backend": {
                    "url": own,
                    "listing": listing,
                    "credentials": {"mode": "same_resource", "backend_audience": f"{PUBLIC}/own/mcp"},
                },
                "auth": {"issuers": issuers},
            },
            "proved": {
                "backend": {"url": open, "listing": listing, "credentials": {"mode": "none"}},
                "auth": {"issuers": issuers, "dpop": "require"},
            },
            "limited": {**free, "limits": {"discovery": f"{LISTINGS}/minute"}},
        },
    }


@asynccontextmanager
async def three_replicas(folder: Path) -> AsyncIterator[Replicas]:
    """Start them all, and end them."""
    secret, file = folder / "secret", folder / "gateway.yaml"
    secret.write_text("0123456789abcdef" * 2)
    secret.chmod(0o600)
    async with AsyncExitStack() as stack:
        redis = stack.enter_context(RedisServer())
        issuer = await stack.enter_async_context(ForgedIssuer(f"{PUBLIC}/own/mcp"))
        backend = await stack.enter_async_context(ScriptedBackend(METHODS))
        own = await stack.enter_async_context(ScriptedBackend(METHODS))
        listings = Listings([method.listed() for method in METHODS])
        own.on("rpc.discover", listings)
        file.write_text(json.dumps(_configuration(redis, secret, backend.url, own.url, issuer.issuer)))
        programs = [Program("serve", "--config", str(file)) for _ in range(COUNT)]
        await asyncio.gather(*(stack.enter_async_context(program) for program in programs))
        started = [await program.logged("gateway started") for program in programs]
        for program in programs:
            await program.logged("listing refreshed", 3)  # that of ``own`` is each caller's
        # Buffering is off for streams by their own header; nginx repeats no POST that it has sent unless told to.
        told = f"add_header {REPLICA} $upstream_addr always;"
        nginx = await stack.enter_async_context(Nginx([one["port"] for one in started], told))
        session = await stack.enter_async_context(ClientSession())
        admin_ports = tuple(one["admin_port"] for one in started)
        yield Replicas(nginx.port, admin_ports, tuple(programs), session, issuer, backend, own, listings, redis)
