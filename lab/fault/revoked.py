"""Rows of ``make fault``: keys are taken away in each way while the configuration is faulty."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import aiohttp

from gateway.auth.api_keys import digest_of, new_key
from gateway.process.key_files import GONE
from lab.fault.table import Figure, Line, Row
from tests.authorization.stand import Bearer
from tests.configuring import put
from tests.e2e.test_workers import both, two_workers
from tests.fault.ledger import Ledger, service
from tests.program import Program, settings
from tests.protocol.official import MODERN
from tests.waiting import until

_MOST: Final = 2.0
"""Seconds until what was taken away is refused; of a file that is gone, beside the time for which it may be."""
_CONNECTIONS: Final = 8
"""New connections that must all be refused: the system gives each worker some."""
_REFUSED: Final = "configuration refused, the old one stays"


class _KeyFile:
    """A key file, and what is taken away in it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "keys.yaml"
        self._entries: dict[str, tuple[str, str]] = {}

    def add(self, name: str) -> str:
        key = new_key()
        self._entries[name] = digest_of(key), "scopes: [read]"
        return key

    def write(self, *, fault: str = "", in_place: bool = False) -> None:
        lines = (f"- {{name: {name}, sha256: '{of[0]}', {of[1]}}}\n" for name, of in self._entries.items())
        text = "".join(lines) + fault
        if in_place:
            self.file.write_text(text, encoding="utf-8")
        else:
            put(self.file, text)

    def remove(self, name: str, *, fault: str = "", in_place: bool = False) -> None:
        del self._entries[name]
        self.write(fault=fault, in_place=in_place)

    def change(self, name: str, rest: str) -> None:
        self._entries[name] = self._entries[name][0], rest
        self.write()


@asynccontextmanager
async def _gateway(workers: int, config: Path, *knobs: str) -> AsyncIterator[tuple[Program, int, str]]:
    """Start a gateway. Yield it, its public port, and the URL of its admin port."""
    async with service(Ledger()) as backend:
        if workers == 2:
            async with two_workers(backend, config.parent, *knobs, config=config) as (program, front, admin):
                await both(admin)
                yield program, front.port, admin
            return
        async with Program("serve", "--config", str(config), *settings(backend.url, *knobs)) as program:
            started = await program.logged("gateway started")
            yield program, started["port"], f"http://127.0.0.1:{started['admin_port']}"


async def revoked(workers: int, *, hangs: bool = False) -> Line:
    """Measure until a key is refused, for each way to take it, while the configuration has a fault, or a reload waits
    for a pipe that nobody writes."""
    with tempfile.TemporaryDirectory() as folder:
        keys, config = _KeyFile(Path(folder)), Path(folder) / "gateway.yaml"
        put(config, "")
        ways: dict[str, Callable[[str], object]] = {
            "taken out": keys.remove,
            "taken out of a file with a fault": partial(keys.remove, fault="- {name: eve, sha256: short}\n"),
            "taken out in place": partial(keys.remove, in_place=True),
            "fewer scopes": lambda name: keys.change(name, "scopes: []"),
            "an earlier end": lambda name: keys.change(name, "scopes: [read], expires: '2020-01-01'"),
            "SIGHUP": keys.remove,
            "/reload": keys.remove,
            "the file is gone": lambda _: keys.file.unlink(),
        }
        shown = {way: keys.add(f"key{number}") for number, way in enumerate(ways)}
        keys.write()
        knobs = ("auth.mode=keys", f"auth.keys.file={keys.file}", "auth.scopes.list=[read]",
                 "limits.discovery=100000/minute")  # fmt: skip
        figures = []
        async with _gateway(workers, config, *knobs) as (program, port, admin):
            if hangs:
                os.mkfifo(pipe := Path(folder) / "ca.pem")
                put(config, f"backend: {{tls: {{ca_file: {pipe}}}}}\n")
                del ways["/reload"]  # it is answered after the wait
                await asyncio.sleep(1.0)
            else:
                put(config, "nonsense: 1\n")
                await program.logged(_REFUSED, workers)
            for number, (way, take) in enumerate(ways.items()):
                most = _MOST + (GONE if way == "the file is gone" else 0.0)
                assert await _answers(port, shown[way]) == {200}, way
                begun = asyncio.get_running_loop().time()
                take(f"key{number}")
                if way == "SIGHUP":
                    program.signal(signal.SIGHUP)
                elif way == "/reload":
                    await _reload(admin)
                await until(partial(_answers, port, shown[way]), lambda seen: 200 not in seen, within=most + 5.0)
                figures.append(Figure(way, asyncio.get_running_loop().time() - begun, most, " s"))
            if hangs:
                begun = asyncio.get_running_loop().time()
                program.signal(signal.SIGTERM)
                assert await program.ended() == 0
                figures.append(Figure("SIGTERM", asyncio.get_running_loop().time() - begun, _MOST, " s"))
    return Line(figures=tuple(figures))


async def _answers(port: int, key: str) -> set[int]:
    """Return the statuses of lists with a key, each on a connection of its own."""
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        client = Bearer(session, port, key)
        return {(await client.list(MODERN)).status for _ in range(_CONNECTIONS)}


async def _reload(admin: str) -> None:
    async with aiohttp.ClientSession() as session, session.post(f"{admin}/reload"):
        pass


ROWS: Final[dict[str, Row]] = {
    "keys are revoked while the configuration is faulty": partial(revoked, 1),
    "keys are revoked while a reload hangs": partial(revoked, 1, hangs=True),
    "keys are revoked while the configuration is faulty, two workers": partial(revoked, 2),
}
