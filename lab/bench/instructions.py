"""Count the machine instructions of a request: ``python -m lab.bench.instructions``.

Times differ from run to run by a third where others use the machine. This count differs by a few in a hundred. It says
nothing of the kernel, of caches and of waiting: ``make bench`` does. callgrind runs the program, fifty times slower
than usual.
"""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from lab.bench import lanes, work
from lab.bench.field import Field
from lab.bench.gateways import Plan
from lab.bench.load import Lane
from lab.bench.machine import Process, Unusable, free_port, program, two_cores

REQUESTS: Final = 320
CONNECTIONS: Final = 16
_WARM: Final = 4
"""Requests of each connection before the count begins."""
_PATIENCE: Final = 150.0
_SETTLING: Final = 0.5
"""Seconds in which the thread of the log writes its lines: nothing tells when it has."""
_NO_CREDENTIAL: Final = "gateway, no credential sent"
_SOCKET: Final = "gateway, the same over a WebSocket"
_STREAM: Final = "gateway, the same over TCP"
MOST_OVER_HTTP: Final = {_SOCKET: 1.15, _STREAM: 1.05}
"""Instructions of a call, as a multiple of those over HTTP. Frames are read in Python (decision 21)."""
_COUNTED: Final = "counted.*"
_TOTAL: Final = "totals: "


def main() -> None:
    load_core, core = two_cores()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        port = free_port()
        command = [sys.executable, "-m", "lab.bench.collector", str(port)]
        collector = Process(command, load_core, folder / "collector.log")
        sockets = (free_port(), free_port())
        command = [sys.executable, "-m", "lab.bench.socket_backend", *map(str, sockets)]
        talking = Process(command, load_core, folder / "sockets.log")
        with Field(folder, load_core, core, ()) as field, collector, talking:
            slow_python = _slow_python(folder)
            found = {}
            for kind, start in _kinds(field, folder, slow_python, port, sockets).items():
                found[kind] = _count(start(), folder) / REQUESTS
                _print(kind, found[kind])
            # Of 320 requests chance samples none or ten, so this is computed.
            for wire, most in MOST_OVER_HTTP.items():
                share = found[wire] / found[_NO_CREDENTIAL]
                print(f"{wire}: {share:.2f} times one over HTTP (at most {most})")
            _print("gateway, traces of 1 % of the calls", 0.99 * found[_traced(0)] + 0.01 * found[_traced(1)])


def _print(kind: str, instructions: float) -> None:
    print(f"{kind:40} {instructions / 1000:8,.1f} thousand instructions", flush=True)


def _traced(ratio: int) -> str:
    return f"gateway, traces of {ratio:.0%} of the calls"


def _slow_python(folder: Path) -> Path:
    """Return a program that runs Python under callgrind, which counts nothing until it is told to."""
    counted = folder / "counted.%p"
    command = [program("valgrind"), "--tool=callgrind", "-q", "--instr-atstart=no", f"--callgrind-out-file={counted}"]
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nexec {shlex.join([*command, sys.executable])} "$@"\n')
    script.chmod(0o700)
    return script


def _kinds(
    field: Field, folder: Path, python: Path, collector: int, sockets: tuple[int, int]
) -> dict[str, Callable[[], Lane]]:
    listing = work.listing(20)

    def gateway(workload: work.Workload, **telemetry: dict[str, str]) -> Callable[[], Lane]:
        return lambda: field.gateways.make(Plan(telemetry=telemetry), python=python).lane("", workload)

    def audited(arguments: str) -> Callable[[], Lane]:
        file = folder / f"audit-{arguments}.jsonl"
        return gateway(work.MODERN_CALL, audit={"to": str(file), "arguments": arguments})

    def static(server: str) -> Lane:
        plain = field.gateways.make()
        with plain.process:
            lane = plain.lane("", listing)
            plain.process.wait_until(lane.answers)
            page = folder / "page.json"
            page.write_bytes(lane.ask()[1])
        port = free_port()
        process = field.program([python, "-m", f"lab.bench.{server}", str(port), page], port)
        return Lane("", process, port, listing)

    def traced(ratio: int, port: int) -> Callable[[], Lane]:
        variables = {
            "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
            "OTEL_TRACES_SAMPLER_ARG": str(ratio),
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
        }
        return lambda: field.gateways.make(Plan(traces=variables), python=python).lane("", work.MODERN_CALL)

    def uncredited(url: str) -> Callable[[], Lane]:
        service = {"url": url, "credentials": {"mode": "none"}}
        return lambda: field.gateways.make(Plan(service=service), python=python).lane("", work.MODERN_CALL)

    return {
        "bare aiohttp proxy, call": lambda: field.bare_lane(python),
        lanes.GATEWAY: gateway(work.MODERN_CALL),
        "gateway, 2025-06-18": gateway(work.LEGACY_CALL),
        "gateway, audit without arguments": audited("none"),
        "gateway, audit with digests": audited("digest"),
        "the least server, list of 20": lambda: static("least_server"),
        lanes.STATIC: lambda: static("static_answer"),
        lanes.LISTED: gateway(listing),
        _NO_CREDENTIAL: uncredited(field.backend.url()),
        _SOCKET: uncredited(f"ws://127.0.0.1:{sockets[0]}/jsonrpc"),
        _STREAM: uncredited(f"tcp://127.0.0.1:{sockets[1]}"),
        _traced(0): traced(0, collector),
        _traced(1): traced(1, collector),
    }


def _count(lane: Lane, folder: Path) -> int:
    """Return the instructions of all requests together."""
    process = lane.process
    with ExitStack() as stack:
        stack.enter_context(process)
        process.wait_until(lane.answers, pause=0.5, within=_PATIENCE)
        address = ("127.0.0.1", lane.port)
        connections = [stack.enter_context(socket.create_connection(address)) for _ in range(CONNECTIONS)]
        threads = stack.enter_context(ThreadPoolExecutor(CONNECTIONS))

        def ask(each: int) -> None:
            list(threads.map(partial(_ask_often, lane, each), connections))

        ask(_WARM)
        time.sleep(_SETTLING)
        _tell(process, "--instr=on")
        ask(REQUESTS // CONNECTIONS)
        time.sleep(_SETTLING)
        _tell(process, "--instr=off")
        _tell(process, "--dump")
        found = [line for path in folder.glob(_COUNTED) for line in path.read_text().splitlines()]
        for path in folder.glob(_COUNTED):
            path.unlink()
    return max((int(line.removeprefix(_TOTAL)) for line in found if line.startswith(_TOTAL)), default=0)


def _tell(process: Process, what: str) -> None:
    subprocess.run([program("callgrind_control"), what, str(process.pid)], check=True, capture_output=True, timeout=60)


def _ask_often(lane: Lane, times: int, connection: socket.socket) -> None:
    for _ in range(times):
        _ask(connection, lane)


def _ask(connection: socket.socket, lane: Lane) -> None:
    """Send the request and read its answer, which has a Content-Length here."""
    connection.sendall(lane.request_bytes())
    head, _, body = _read_until(connection, b"\r\n\r\n").partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    if b" 200 " not in lines[0]:
        raise Unusable(f"{lane.name}: {lines[0].decode()}")
    length = next(int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
    while len(body) < length:
        body += connection.recv(65536)


def _read_until(connection: socket.socket, end: bytes) -> bytes:
    raw = b""
    while end not in raw:
        raw += connection.recv(65536)
    return raw


if __name__ == "__main__":
    try:
        main()
    except Unusable as reason:
        sys.exit(f"cannot measure: {reason}")
