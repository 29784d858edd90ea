"""The gateway as a program, with all on: tokens, limits that are lifted, schema checks, a line of log per request."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gateway.settings import Settings
from lab.bench.backend import Backend
from lab.bench.load import Lane
from lab.bench.machine import Process, free_port, program
from lab.bench.work import Workload
from tests import orders

CONNECTIONS: Final = 1024
"""Of which the one caller gets a sixth for one tool."""
_LIFTED: Final = "100000000/minute"
SERVICES: Final = 12
_SECRET: Final = "a secret of at least thirty-two bytes"


def resource(port: int, mount: str = "") -> str:
    """The identifier of a service of a gateway at this port, which its tokens have as their audience."""
    return f"http://127.0.0.1:{port}{mount}/mcp"


def has_knob(section: str, name: str = "") -> bool:
    """Whether this gateway has a knob, so that a row can say that it has not."""
    found = Settings.model_fields.get(section)
    return found is not None and (not name or name in getattr(found.annotation, "model_fields", {}))


@dataclass(frozen=True)
class Plan:
    """What is not as usual. ``services`` are mounts, each with its path at the service and its number of tools; none is
    one service at the root; ``telemetry`` has more knobs of that section. ``traces`` are the OTEL_* variables of a
    gateway that traces. ``service`` has other knobs of the backend."""

    tools: int = 20
    services: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    auth: bool = True
    logs: bool = True
    path: str = "jsonrpc"
    server: Mapping[str, Any] = field(default_factory=dict)
    store: str = ""
    telemetry: Mapping[str, Any] = field(default_factory=dict)
    traces: Mapping[str, str] = field(default_factory=dict)
    service: Mapping[str, Any] = field(default_factory=dict)


_USUAL: Final = Plan()
_TRACES: Final[tuple[dict[str, str], ...]] = ({}, {"traces": "on"})


@dataclass(frozen=True)
class Gateway:
    """A gateway that is not started yet: its process, its public and its admin port, and who signs for it."""

    process: Process
    port: int
    admin_port: int
    backend: Backend | None

    def lane(self, name: str, workload: Workload, mount: str = "") -> Lane:
        """What asks this gateway, with a token where it wants one."""
        if self.backend is not None and not workload.variants:
            workload = workload.of(self.token(mount))
        return Lane(name, self.process, self.port, workload.at(mount))

    def token(self, mount: str = "", subject: str = "ann") -> str:
        """An access token for a service of this gateway."""
        assert self.backend is not None
        return self.backend.token(resource(self.port, mount), subject)

    def callers(self, name: str, workload: Workload, count: int) -> Lane:
        """As many callers, who take turns."""
        tokens = tuple(("", self.token(subject=f"user-{number}")) for number in range(count))
        return Lane(name, self.process, self.port, _with(workload, tokens))

    def mounts(self, name: str, workload: Workload, mounts: list[str]) -> Lane:
        """One caller, who asks the services in turn."""
        return Lane(name, self.process, self.port, _with(workload, tuple((m, self.token(m)) for m in mounts)))


def _with(workload: Workload, variants: tuple[tuple[str, str], ...]) -> Workload:
    return Workload(workload.path, workload.message, workload.headers, workload.check, variants)


def redis(folder: Path, core: int) -> tuple[Process, str]:
    """A Redis on ``core`` that is not started yet, and its URL. Raises :class:`Unusable` where there is no program."""
    port = free_port()
    command = [program("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    return Process([*command, "--dir", folder], core, folder / f"{port}.log"), f"redis://127.0.0.1:{port}"


class Gateways:
    """Makes gateways in front of one backend, on ``core``; their files go to ``folder``."""

    def __init__(self, backend: Backend, folder: Path, core: int) -> None:
        self.backend = backend
        self.folder = folder
        self.core = core

    def make(
        self, plan: Plan = _USUAL, *, core: int | str | None = None, python: str | Path = sys.executable
    ) -> Gateway:
        """A gateway that is not started yet."""
        port, admin_port = free_port(), free_port()
        config = self.folder / f"gateway-{port}.yaml"
        config.write_text(json.dumps(self._settings(plan, port, admin_port), indent=1))  # JSON is YAML
        command: list[str | Path] = [python, "-m", "gateway", "serve", "--config", config]
        process = Process(command, self.core if core is None else core, self.folder / f"{port}.log", plan.traces)
        return Gateway(process, port, admin_port, self.backend if plan.auth else None)

    def _settings(self, plan: Plan, port: int, admin_port: int) -> dict[str, Any]:
        auth = {"mode": "jwt", "issuers": [{"issuer": self.backend.issuer}]} if plan.auth else {"mode": "off"}
        settings: dict[str, Any] = {
            "server": {"port": port, "admin_port": admin_port, **plan.server},
            "auth": auth,
            # one caller asks for everything here
            "limits": {"discovery": _LIFTED, "invocation": _LIFTED, "concurrent": 100_000, "streams": 100_000},
            "telemetry": {
                "log": {"level": "info" if plan.logs else "warning"},
                **plan.telemetry,
                **_TRACES[bool(plan.traces)],
            },
            "catalog": {"page_size": 5000, "search": False},
        }
        if plan.store:
            secret = self.folder / "secret"
            secret.write_text(_SECRET)
            secret.chmod(0o600)
            settings["store"] = {"url": plan.store}
            settings["server"]["secret_file"] = str(secret)
        if plan.services:
            services = {
                mount.strip("/"): {"backend": self._backend(*where, resource(port, mount))}
                for mount, where in plan.services.items()
            }
            return settings | {"services": services}
        backend = self._backend(plan.path, plan.tools, resource(port) if plan.auth else None)
        return settings | {"backend": backend | dict(plan.service)}

    def _backend(self, path: str, tools: int, audience: str | None) -> dict[str, Any]:
        listing = self.folder / f"openrpc-{tools}.json"
        listing.write_text(json.dumps(orders.openrpc(tools)))
        return {
            "url": self.backend.url(path),
            "connections": CONNECTIONS,
            "credentials": {"backend_audience": audience},
            "listing": {"dialect": "static", "file": str(listing)},
        }
