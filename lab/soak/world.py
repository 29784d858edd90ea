"""The world of ``make soak``: a gateway as a process, or replicas of it behind nginx with a Redis, whose service and
issuers stand behind fault proxies."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.authorization.issuer import ForgedIssuer
from tests.authorization.stand import RESOURCE
from tests.fault.behaviours import Behaviour, Honest, result
from tests.fault.issuers import issuer_behind_proxy
from tests.fault.ledger import METHODS, WORK, Ledger, service
from tests.fault.methods import Rpc, openrpc
from tests.fault.proxy import FaultProxy
from tests.fault.scripted import ScriptedBackend
from tests.nginx import Nginx
from tests.program import Program
from tests.redis_server import RedisServer
from tests.services.process import free_port

LISTING: Final = "rpc.discover"
AGREED: Final = Rpc("agreed", WORK.params, WORK.result, "Work, once a person has agreed")
_LIFETIME: Final = 20.0


@dataclass
class World:
    """All of it, running: one issuer signs its tokens, another one is asked about them. ``offered`` has each set of
    tools that the service has ever listed, the last one last; ``wrong_lists`` the listings that were none of them.

    ``replicas`` are the gateways, and ``port`` is that of nginx where they are several; ``shared`` is what they have in
    common, and ``redis`` their store. ``lines`` are what those have said that are over, and ``nginx_answers`` counts
    the answers that came of no gateway."""

    file: Path
    replicas: list[Program]
    admin_ports: list[int]
    port: int
    ledger: Ledger
    signing: ForgedIssuer
    asked: ForgedIssuer
    issuer_proxies: tuple[FaultProxy, ...]
    backend: ScriptedBackend
    proxy: FaultProxy
    shared: dict[str, Any]
    redis: RedisServer | None = None
    listing: Behaviour = field(default_factory=Honest)
    offered: list[frozenset[str]] = field(default_factory=list)
    wrong_lists: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    nginx_answers: int = 0
    reloads: int = 0
    _tokens: int = 0

    def change_catalog(self) -> None:
        """One tool goes, and another one comes."""
        methods = (*METHODS, AGREED, Rpc(f"tool_{len(self.offered)}"))
        self.offered.append(frozenset(method.name for method in methods))
        self.listing = result(openrpc(methods))
        self.backend.on(LISTING, self.listing)

    def reload(self) -> None:
        """Change the configuration, and say so."""
        self.reloads += 1
        write(self.file, self.proxy.url("/jsonrpc"), self.signing, self.asked, self.reloads, self.shared)
        for program in self.replicas:
            program.signal(signal.SIGHUP)

    async def restart(self, stack: AsyncExitStack) -> list[int]:
        """Replace one replica after the other by a new one. Return the exit codes of those that are over."""
        codes = []
        for number, port in enumerate(self.shared["ports"]):
            program = self.replicas.pop(0)
            program.signal(signal.SIGTERM)
            codes.append(await program.ended())
            self.lines += program.lines
            self.admin_ports.pop(0)
            await self.start(stack, port)
            assert len(self.replicas) == len(self.shared["ports"]), number
        return codes

    async def start(self, stack: AsyncExitStack, port: int) -> dict[str, Any]:
        """Start one more replica at a port, 0 for any. Return what its log says of the start."""
        options = ("--config", str(self.file), "--set", f"server.port={port}")
        program = await stack.enter_async_context(Program("serve", *options))
        started = await program.logged("gateway started")
        self.replicas.append(program)
        self.admin_ports.append(started["admin_port"])
        return started

    def token(self, subject: str, *, opaque: bool, lifetime: float = _LIFETIME) -> str:
        """A new access token; an opaque one is known to its issuer alone."""
        self._tokens += 1
        issuer = self.asked if opaque else self.signing
        claims = issuer.claims(sub=subject, jti=str(self._tokens))
        claims["exp"] = claims["iat"] + int(lifetime)
        if not opaque:
            return issuer.sign(claims)
        token = f"opaque-{self._tokens}"
        expired = lifetime < 0
        issuer.introspections[token] = {"active": False} if expired else {"active": True, **claims}
        return token

    async def under_way(self) -> tuple[int, int, int]:
        """Calls, streams and tasks, as the gateways count them."""
        counts = [await _under_way(port) for port in self.admin_ports]
        calls, streams, tasks = (sum(each) for each in zip(*counts, strict=True))
        return calls, streams, tasks

    def descriptors(self) -> int:
        """Files and sockets that the processes have open."""
        return sum(len(list(Path(f"/proc/{program.pid}/fd").iterdir())) for program in self.replicas)

    def memory(self) -> int:
        """The bytes of memory that the processes hold."""
        return sum(program.memory() for program in self.replicas)

    def all_lines(self) -> list[str]:
        """What all of them have said."""
        return [*self.lines, *(line for program in self.replicas for line in program.lines)]


async def _under_way(admin_port: int) -> tuple[int, int, int]:
    url = f"http://127.0.0.1:{admin_port}/readyz?verbose"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        words = (await answer.text()).splitlines()[-1].removeprefix("under way: ").split()
    return int(words[0]), int(words[2]), int(words[4])


def write(
    file: Path, url: str, signing: ForgedIssuer, asked: ForgedIssuer, version: int, shared: Mapping[str, Any]
) -> None:
    """Replace the configuration in one step; ``version`` makes it differ."""
    public_url = RESOURCE.removesuffix("/mcp")
    tree: dict[str, Any] = {
        "server": {"port": 0, "admin_port": 0, "public_url": public_url, **shared.get("server", {})},
        "store": shared.get("store", {}),
        "backend": {
            "url": url,
            "timeout": "3s",
            "listing": {"dialect": "openrpc"},
            "credentials": {"backend_audience": RESOURCE},
        },
        "catalog": {
            "ttl": "1s",
            "page_size": 100 + version % 7,
            "tools": {"agreed": {"confirm": True}},
        },
        "auth": {
            "issuers": [{"issuer": signing.issuer}, {"issuer": asked.issuer, "introspection": {"client_id": "gw"}}]
        },
        "limits": {"discovery": "100000/minute"},
        "mcp": {"heartbeat": "1s"},
    }
    temporary = file.with_name(".new")
    temporary.write_text(json.dumps(tree))  # JSON is YAML
    temporary.replace(file)


@asynccontextmanager
async def world(folder: Path, replicas: int = 1) -> AsyncIterator[World]:
    ledger = Ledger()
    async with AsyncExitStack() as stack:
        signing, first = await stack.enter_async_context(issuer_behind_proxy())
        asked, second = await stack.enter_async_context(issuer_behind_proxy())
        backend = await stack.enter_async_context(service(ledger))
        proxy = await stack.enter_async_context(FaultProxy(backend.port))
        file = folder / "gateway.yaml"
        redis = stack.enter_context(RedisServer()) if replicas > 1 else None
        shared = _in_common(folder, redis, replicas)
        write(file, proxy.url("/jsonrpc"), signing, asked, 0, shared)
        proxies = first, second
        it = World(file, [], [], 0, ledger, signing, asked, proxies, backend, proxy, shared, redis)
        # One after the other: restart() expects them in the order of their ports.
        started = [await it.start(stack, port) for port in shared["ports"]]
        it.port = started[0]["port"]
        if redis is not None:
            # A request that was not sent yet may go to the other replica; one that was sent goes nowhere else.
            told = "proxy_buffering off; proxy_read_timeout 30s;"
            it.port = (await stack.enter_async_context(Nginx(shared["ports"], told))).port
        it.change_catalog()
        yield it


def _in_common(folder: Path, redis: RedisServer | None, replicas: int) -> dict[str, Any]:
    if redis is None:
        return {"ports": [0]}
    secret = folder / "secret"
    secret.write_text("0123456789abcdef" * 2)
    secret.chmod(0o600)
    server = {"secret_file": str(secret), "drain_delay": "500ms"}
    return {"ports": [free_port() for _ in range(replicas)], "server": server, "store": {"url": redis.url}}
