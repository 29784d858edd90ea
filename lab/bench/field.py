"""Everybody who takes part, started, and who of them is asked what: the lanes of :mod:`lab.bench.lanes` by name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from lab.bench import lanes, work
from lab.bench.backend import RESULTS, Backend, plain_proxy
from lab.bench.gateways import Gateway, Gateways, Plan, has_knob, redis
from lab.bench.load import Lane
from lab.bench.machine import Process, Unusable, free_port
from lab.bench.peers import environments
from lab.bench.peers.contextforge import ContextForge
from lab.bench.work import Workload

_MANY: Final = 8
"""Connections for results of 1 MB, of which more would only wait."""
_PATIENCE: Final = 90.0
"""Seconds for a peer that makes its database first."""
_FEW: Final = 4
"""Connections for a peer that answers some ten requests a second."""
_SIZES: Final = {"/slow": ("slow", 20), "/large": ("large", 20), "/huge": ("huge", 20), "/many": ("jsonrpc", 200)}


@dataclass(frozen=True)
class Stretch:
    """A lane, under load from so many connections; ``least`` is the seconds without which it has no figures."""

    lane: Lane
    connections: int = 32
    least: int = 1


class Field:
    """Everybody who is asked in one of the ``wanted`` lanes; ``with`` ends what it started. Files go to ``folder``.

    ``stretches`` are the lanes that can run, ``missing`` says why others cannot, ``idle`` is what each program had in
    memory (bytes) before anybody asked, and ``main`` is the gateway with all on.
    """

    def __init__(self, folder: Path, load_core: int, core: int, wanted: Iterable[str]) -> None:
        self.folder = folder
        self.wanted = frozenset(wanted)
        self.stretches: dict[str, Stretch] = {}
        self.missing: dict[str, str] = {}
        self.idle: dict[str, int] = {}
        self.backend = Backend(folder, load_core)
        self.gateways = Gateways(self.backend, folder, core)
        self.main: Gateway = self.gateways.make()
        self._core = core
        self._load_core = load_core
        self._both = f"{load_core},{core}"
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        backend = self.backend
        direct = Lane(lanes.SLOW_DIRECT, backend.process, backend.port, _plain("slow"))
        self._stack.enter_context(backend.process)
        backend.process.wait_until(direct.answers)
        self._add(direct, 50)
        self._add(replace(direct, name=lanes.BURST_DIRECT), 50)
        self._start_main()
        self._start_bare()
        self._start_statics()
        self._start_switches()
        self._start_sizes()
        self._start_services()
        for names, start in self._peers():
            if self.wanted.isdisjoint(names):
                continue
            try:
                start()
            except (Unusable, OSError) as reason:
                self.missing.update(dict.fromkeys(names, str(reason)))

    def _add(self, lane: Lane, connections: int = 32) -> None:
        if lane.name in self.wanted:
            self.stretches[lane.name] = Stretch(lane, connections)

    def _up(self, process: Process, *found: Lane) -> None:
        """Start a process, wait until its first lane answers, and take its lanes."""
        if self.wanted.isdisjoint(lane.name for lane in found):
            return
        self._stack.enter_context(process)
        process.wait_until(found[0].answers)
        for lane in found:
            self.idle.setdefault(lane.name, process.memory())
            if not lane.answers():
                raise Unusable(f"{lane.name}: {lane.ask()}")
            self._add(lane)

    def _at_connections(self, name: str) -> None:
        """The same lane again with few and with many connections."""
        if name in self.stretches:
            lane = self.stretches[name].lane
            for count in lanes.CONNECTIONS:
                self._add(Lane(lanes.at(name, count), lane.process, lane.port, lane.workload), count)

    def program(self, command: list[str | Path], port: int) -> Process:
        return Process(command, self._core, self.folder / f"{port}.log")

    def _start_main(self) -> None:
        main = self.main
        found = [
            main.lane(lanes.GATEWAY, work.MODERN_CALL),
            main.lane("gateway, 2025-06-18", work.LEGACY_CALL),
            main.lane("gateway, REST", work.REST_CALL),
            main.lane("gateway, /jsonrpc", work.PLAIN_CALL),
            main.lane(lanes.LISTED, work.LIST),
            main.lane(lanes.paid(lanes.GATEWAY, "1 kB"), work.MODERN_CALL),
            main.lane(lanes.served(1), work.MODERN_CALL),
        ]
        self._up(main.process, *found)
        self._at_connections(lanes.GATEWAY)
        # Ten thousand tokens stay in its memory: the other lanes are asked of a gateway without them.
        many = self.gateways.make()
        wanted = [count for count in lanes.CALLERS if lanes.called_by(count) in self.wanted]
        self._up(many.process, *(many.callers(lanes.called_by(count), work.MODERN_CALL, count) for count in wanted))

    def bare_lane(self, python: str | Path = sys.executable) -> Lane:
        """Return the lane of a bare proxy that is not started yet."""
        process, port = self._bare(python)
        return Lane(lanes.BARE, process, port, _plain("jsonrpc"))

    def _bare(self, python: str | Path = sys.executable) -> tuple[Process, int]:
        port = free_port()
        urls = [self.backend.url(path) for path in RESULTS]
        return self.program([python, "-m", "lab.bench.bare_proxy", str(port), *urls], port), port

    def _start_bare(self) -> None:
        bare = self.bare_lane()
        process, port = bare.process, bare.port
        self._up(process, bare)
        self._at_connections(lanes.BARE)
        self._add(Lane(lanes.SLOW_BARE, process, port, _plain("slow")), 50)
        for payload, path in lanes.PAYLOADS.items():
            many = _MANY if path == "huge" else 32
            self._add(Lane(lanes.paid(lanes.BARE, payload), process, port, _plain(path)), many)

    def _start_statics(self) -> None:
        """aiohttp answering the bytes of each list, whatever is asked."""
        for tools in lanes.TOOLS:
            if lanes.static(tools) not in self.wanted:
                continue
            gateway = self.main
            if tools != lanes.TOOLS[0]:
                gateway = self.gateways.make(Plan(tools=tools))
                self._up(gateway.process, gateway.lane(lanes.listed(tools), work.listing(tools)))
            _, body, _ = gateway.lane("", work.listing(tools)).ask()
            port, page = free_port(), self.folder / f"page-{tools}.json"
            page.write_bytes(body)
            process = self.program([sys.executable, "-m", "lab.bench.static_answer", str(port), page], port)
            self._up(process, Lane(lanes.static(tools), process, port, work.listing(tools)))

    def _one(self, name: str, plan: Plan, core: str | None = None) -> None:
        """A gateway of its own for one lane."""
        gateway = self.gateways.make(plan, core=core)
        self._up(gateway.process, gateway.lane(name, work.MODERN_CALL))

    def _start_switches(self) -> None:
        self._one("gateway, no log lines", Plan(logs=False))
        self._one("gateway, no tokens", Plan(auth=False))
        self._one("gateway, neither", Plan(auth=False, logs=False))
        shared = (lanes.SHARED, lanes.ONE_WORKER, lanes.TWO_WORKERS)
        if self.wanted.isdisjoint(shared):
            return
        try:
            server, store = redis(self.folder, self._load_core)
        except Unusable as reason:
            self.missing |= dict.fromkeys(shared, str(reason))
            return
        self._stack.enter_context(server)
        self._one(lanes.SHARED, Plan(store=store))
        if has_knob("server", "workers"):
            for name, count in ((lanes.ONE_WORKER, 1), (lanes.TWO_WORKERS, 2)):
                self._one(name, Plan(server={"workers": count}, store=store), self._both)
        else:
            self.missing |= dict.fromkeys(shared[1:], "this gateway has no knob server.workers")

    def _start_sizes(self) -> None:
        """One gateway with a service for each size and pace."""
        sizes = self.gateways.make(Plan(services=_SIZES))

        def lane(name: str, path: str) -> Lane:
            right = work.tool_result(RESULTS[path])
            return sizes.lane(name, work.MODERN_CALL.answered(right), f"/{path}")

        payloads = [(lanes.paid(lanes.GATEWAY, payload), path) for payload, path in lanes.PAYLOADS.items()]
        found = [lane(lanes.SLOW, "slow"), *(lane(name, path) for name, path in payloads if path != "jsonrpc")]
        self._up(sizes.process, *found)
        for each, connections in zip(found, (50, 32, _MANY), strict=True):
            self._add(each, connections)
        self._add(replace(found[0], name=lanes.BURST), 50)

    def _start_services(self) -> None:
        for count in lanes.SERVICES[1:]:
            mounts = [f"/s{number}" for number in range(count)]
            gateway = self.gateways.make(Plan(services=dict.fromkeys(mounts, ("jsonrpc", 20))))
            self._up(gateway.process, gateway.mounts(lanes.served(count), work.MODERN_CALL, mounts))

    def _peers(self) -> list[tuple[tuple[str, ...], Callable[[], None]]]:
        """Who may be missing: the lanes, and what starts them."""
        nginx = tuple(lanes.at(lanes.NGINX, count) for count in lanes.CONNECTIONS)
        node = tuple(lanes.at(lanes.NODE, count) for count in lanes.CONNECTIONS)
        return [
            (nginx, self._start_nginx),
            ((*node, lanes.TYPESCRIPT), self._start_node),
            ((lanes.FASTMCP, lanes.NEWEST), self._start_fastmcp),
            ((lanes.SDK,), self._start_sdk),
            ((lanes.MCP_PROXY,), self._start_mcp_proxy),
            ((lanes.CONTEXTFORGE,), self._start_contextforge),
            *(
                (
                    tuple(lanes.on_python(lane, version) for lane in (lanes.BARE, lanes.GATEWAY)),
                    lambda version=version: self._start_python(version),
                )
                for version in lanes.PYTHONS
            ),
        ]

    def _start_nginx(self) -> None:
        port = free_port()
        process = plain_proxy(self.folder, port, self.backend, self._core)
        self._up(process, Lane(lanes.NGINX, process, port, work.PLAIN_CALL))
        self._at_connections(lanes.NGINX)

    def _start_node(self) -> None:
        environments.node_modules()
        for name, script, asked in (
            (lanes.NODE, "undici_proxy.mjs", work.PLAIN_CALL),
            (lanes.TYPESCRIPT, "mcp_server.mjs", work.MODERN_CALL),
        ):
            port = free_port()
            file = environments.HERE / "node" / script
            process = self.program([environments.NODE, file, str(port), self.backend.url()], port)
            self._up(process, Lane(name, process, port, asked))
        self._at_connections(lanes.NODE)

    def _start_fastmcp(self) -> None:
        port = free_port()
        script = environments.HERE / "fastmcp_server.py"
        process = self.program([environments.python("fastmcp"), script, str(port), self.backend.url()], port)
        best = Lane(lanes.FASTMCP, process, port, work.LEGACY_CALL)
        self._up(process, best, Lane(lanes.NEWEST, process, port, work.MODERN_CALL))

    def _start_sdk(self) -> None:
        port = free_port()
        process = self.program([*_sdk_server(), str(port), self.backend.url()], port)
        self._up(process, Lane(lanes.SDK, process, port, work.MODERN_CALL))

    def _start_mcp_proxy(self) -> None:
        port = free_port()
        proxy = environments.python("mcp_proxy").with_name("mcp-proxy")
        options = ("--port", str(port), "--stateless", "--log-level", "ERROR", "--")
        process = self.program([proxy, *options, *_sdk_server(), "stdio", self.backend.url()], port)
        self._up(process, Lane(lanes.MCP_PROXY, process, port, work.LEGACY_CALL))

    def _start_contextforge(self) -> None:
        peer = ContextForge(self.backend.url(), self.folder, self._core)
        self._stack.enter_context(peer.process)
        peer.process.wait_until(peer.is_up, within=_PATIENCE)
        peer.register()
        lane = peer.lane(lanes.CONTEXTFORGE)
        peer.process.wait_until(lane.answers)
        self.idle[lane.name] = peer.process.memory()
        if lane.name in self.wanted:
            self.stretches[lane.name] = Stretch(lane, _FEW, least=3)

    def _start_python(self, version: str) -> None:
        python = environments.project(version)
        process, port = self._bare(python)
        self._up(process, Lane(lanes.on_python(lanes.BARE, version), process, port, _plain("jsonrpc")))
        gateway = self.gateways.make(python=python)
        self._up(gateway.process, gateway.lane(lanes.on_python(lanes.GATEWAY, version), work.MODERN_CALL))


def _plain(path: str) -> Workload:
    """What a proxy that does nothing else is asked."""
    plain = work.PLAIN_CALL
    return Workload(f"/{path}", plain.message, plain.headers, work.rpc_result(RESULTS[path]))


def _sdk_server() -> tuple[str | Path, ...]:
    """Return how the server of the Python SDK is started, without its arguments."""
    return environments.python("mcp"), environments.HERE / "mcp_server.py"
