"""The world of ``make soak``: a gateway as a process, whose service and issuer stand behind fault proxies."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.authorization.issuer import ForgedIssuer
from tests.authorization.stand import RESOURCE
from tests.fault.behaviours import Behaviour, Honest, result
from tests.fault.issuers import issuer_behind_proxy
from tests.fault.ledger import METHODS, Ledger, service
from tests.fault.methods import Rpc, openrpc
from tests.fault.proxy import FaultProxy
from tests.fault.scripted import ScriptedBackend
from tests.program import Program

LISTING: Final = "rpc.discover"
_LIFETIME: Final = 20.0


@dataclass
class World:
    """All of it, running: one issuer signs its tokens, another one is asked about them. ``offered`` has each set of
    tools that the service has ever listed, the last one last; ``wrong_lists`` the listings that were none of them."""

    program: Program
    port: int
    admin_port: int
    file: Path
    ledger: Ledger
    signing: ForgedIssuer
    asked: ForgedIssuer
    issuer_proxies: tuple[FaultProxy, ...]
    backend: ScriptedBackend
    proxy: FaultProxy
    listing: Behaviour = field(default_factory=Honest)
    offered: list[frozenset[str]] = field(default_factory=list)
    wrong_lists: list[str] = field(default_factory=list)
    reloads: int = 0
    _tokens: int = 0

    def change_catalog(self) -> None:
        """One tool goes, and another one comes."""
        methods = (*METHODS, Rpc(f"tool_{len(self.offered)}"))
        self.offered.append(frozenset(method.name for method in methods))
        self.listing = result(openrpc(methods))
        self.backend.on(LISTING, self.listing)

    def reload(self) -> None:
        """Change the configuration, and say so."""
        self.reloads += 1
        write(self.file, self.proxy.url("/jsonrpc"), self.signing, self.asked, self.reloads)
        self.program.signal(signal.SIGHUP)

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
        """Calls, streams and tasks, as the gateway counts them."""
        url = f"http://127.0.0.1:{self.admin_port}/readyz?verbose"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            words = (await answer.text()).splitlines()[-1].removeprefix("under way: ").split()
        return int(words[0]), int(words[2]), int(words[4])

    def descriptors(self) -> int:
        """Files and sockets that the process has open."""
        return len(list(Path(f"/proc/{self.program.pid}/fd").iterdir()))


def write(file: Path, url: str, signing: ForgedIssuer, asked: ForgedIssuer, version: int) -> None:
    """Replace the configuration in one step; ``version`` makes it differ."""
    tree: dict[str, Any] = {
        "server": {"port": 0, "admin_port": 0, "public_url": RESOURCE.removesuffix("/mcp")},
        "backend": {
            "url": url,
            "timeout": "3s",
            "listing": {"dialect": "openrpc"},
            "credentials": {"backend_audience": RESOURCE},
        },
        "catalog": {"ttl": "1s", "notify_interval": "1s", "page_size": 100 + version % 7},
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
async def world(folder: Path) -> AsyncIterator[World]:
    ledger = Ledger()
    async with AsyncExitStack() as stack:
        signing, first = await stack.enter_async_context(issuer_behind_proxy())
        asked, second = await stack.enter_async_context(issuer_behind_proxy())
        backend = await stack.enter_async_context(service(ledger))
        proxy = await stack.enter_async_context(FaultProxy(backend.port))
        file = folder / "gateway.yaml"
        write(file, proxy.url("/jsonrpc"), signing, asked, 0)
        program = await stack.enter_async_context(Program("serve", "--config", str(file)))
        started = await program.logged("gateway started")
        ports = (started["port"], started["admin_port"])
        it = World(program, *ports, file, ledger, signing, asked, (first, second), backend, proxy)
        it.change_catalog()
        yield it
