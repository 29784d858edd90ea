"""Run a pod as the kubelet does: volumes that are swapped by a symbolic link, probes, restarts, preStop and the end."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp

from lab.deploy.manifests import PREFIX, Image, Manifests, Table
from tests.services.process import free_port

Contents = Mapping[str, Mapping[str, bytes]]
"""The files of each ConfigMap or Secret, by its name."""
HOST: Final = "127.0.0.1"
_MOST_RESTARTS: Final = 3
_BACK_OFF: Final = 10.0
"""Seconds until a container is started again that has ended twice."""


def publish(folder: Path, files: Mapping[str, bytes], mode: int) -> None:
    """Write a volume as the kubelet does (its AtomicWriter): the files in a new folder, ``..data`` a link to it that is
    renamed over the one before, and a link through ``..data`` for each file."""
    now = time.time_ns()
    stamp = folder / f"..{datetime.fromtimestamp(now // 10**9, UTC):%Y_%m_%d_%H_%M_%S}.{now % 10**9:09}"
    stamp.mkdir(parents=True)
    for name, content in files.items():
        (stamp / name).write_bytes(content)
        (stamp / name).chmod(mode)
    data, new = folder / "..data", folder / "..data_tmp"
    before = folder / data.readlink() if data.is_symlink() else None
    new.symlink_to(stamp.name)
    new.replace(data)
    for name in files:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    for link in folder.iterdir():
        if not link.name.startswith("..") and link.name not in files:
            link.unlink()
    if before is not None:
        shutil.rmtree(before)


class Pod:
    """One pod: its container is a process of this machine. ``changed`` is called when it becomes ready, or no longer
    is; ``contents`` are the ConfigMaps and Secrets that exist when it starts."""

    def __init__(
        self,
        name: str,
        manifests: Manifests,
        image: Image,
        folder: Path,
        contents: Contents,
        changed: Callable[[], Any],
    ) -> None:
        self.name = name
        self.image = image
        self.ready = False
        self.is_ending = False
        self.restarts = 0
        self.exit_codes: list[int] = []
        self.failed_probes: list[str] = []
        self._news = asyncio.Event()
        self._manifests = manifests
        self._changed = changed
        self._folder = folder
        self._volumes = manifests.volumes()
        ports = {one["name"]: free_port() for one in manifests.container["ports"]}
        mounts = {path: folder / path.strip("/").replace("/", "-") for path in self._volumes}
        self.table = Table({PREFIX: image.prefix, **mounts}, ports)
        self.sync(contents)
        self._process: asyncio.subprocess.Process | None = None
        self._life = asyncio.create_task(self._live())

    @property
    def port(self) -> int:
        """The port to which the route leads."""
        return self.table.ports[self._manifests.served_port]

    @property
    def admin(self) -> str:
        return f"http://{HOST}:{self.table.ports['admin']}"

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What the container has logged, its restarts included."""
        text = (self._folder / "log").read_text(errors="replace")
        return [json.loads(line) if line.startswith("{") else {"event": line} for line in text.splitlines()]

    def logged(self, words: str) -> list[dict[str, Any]]:
        """Return the lines whose event has these words."""
        return [line for line in self.lines if words in line["event"]]

    def count(self, text: str) -> int:
        """Return how often a text is in the log."""
        return (self._folder / "log").read_text(errors="replace").count(text)

    def errors(self) -> list[dict[str, Any]]:
        """Return the lines that say that the gateway failed, and those that are none of the log's."""
        return [line for line in self.lines if line.get("level") not in ("debug", "info", "warning")]

    def command(self) -> list[str]:
        return [self.table.map(word) for word in self._manifests.command(self.image)]

    def environment(self) -> dict[str, str]:
        """Return what the process is given, and nothing else."""
        environ = {name: self.table.map(value) for name, value in self._manifests.environment(self.image).items()}
        return {**environ, "HOSTNAME": self.name, **self.table.variables()}

    def sync(self, contents: Contents) -> None:
        """Bring the volumes up to date with the ConfigMaps and Secrets."""
        for path, (kind, name, mode) in self._volumes.items():
            folder = self.table.paths[path]
            if kind == "emptyDir":
                folder.mkdir(parents=True, exist_ok=True)
                continue
            data = folder / "..data"
            files = contents[name]
            if {file.name: file.read_bytes() for file in data.iterdir()} != files if data.exists() else True:
                publish(folder, files, mode)

    def kill(self) -> None:
        """End the process as ``kill -9`` does. The kubelet starts another one."""
        assert self._process is not None
        self._process.kill()

    async def until_ready(self) -> None:
        """Wait. Raises AssertionError where the container ends again and again."""
        most = self.restarts + _MOST_RESTARTS
        while not self.ready:
            self._news.clear()
            news = asyncio.create_task(self._news.wait())
            await asyncio.wait([news, self._life], return_when=asyncio.FIRST_COMPLETED)
            news.cancel()
            assert not self._life.done(), f"{self.name} has ended:\n{self._tail()}"
            assert self.restarts < most, f"{self.name} ends with {self.exit_codes}:\n{self._tail()}"

    async def end(self) -> None:
        """Delete the pod: preStop, SIGTERM, and SIGKILL when its grace period is over."""
        self.is_ending = True
        self._set_ready(False)
        grace = self._manifests.pod["terminationGracePeriodSeconds"]
        pause = self._manifests.container["lifecycle"]["preStop"]["sleep"]["seconds"]
        begun = time.monotonic()
        await asyncio.sleep(pause)
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace - (time.monotonic() - begun)):
                await asyncio.shield(self._life)
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await self._life

    async def abandon(self) -> None:
        """End at once, for the end of a test that failed."""
        self.is_ending = True
        while not self._life.done():  # the process may be about to start
            self._signal(signal.SIGKILL)
            await asyncio.wait([self._life], timeout=0.1)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def _live(self) -> None:
        """Run the container, again after each end that nobody asked for (``restartPolicy: Always``)."""
        while not self.is_ending:
            self._process = await self._start()
            probing = asyncio.create_task(self._probe_all())
            self.exit_codes.append(await self._process.wait())
            probing.cancel()
            self._set_ready(False)
            if not self.is_ending:
                self.restarts += 1
                await asyncio.sleep(_BACK_OFF if self.restarts > 1 else 0)

    async def _start(self) -> asyncio.subprocess.Process:
        command, environ = self.command(), self.environment()
        program = shutil.which(command[0], path=environ["PATH"])
        assert program is not None, f"{command[0]} is not in {environ['PATH']}"
        with (self._folder / "log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                program,
                *command[1:],
                env=environ,
                cwd="/",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    async def _probe_all(self) -> None:
        """Probe for the start, and then for readiness and life, each as its own part of the manifest says."""
        container = self._manifests.container
        async with aiohttp.ClientSession(headers={"User-Agent": "kube-probe/1.30"}) as session:
            if not await self._passes(session, container["startupProbe"]):
                self._fail("startupProbe")
                return
            await asyncio.gather(
                self._watch(session, container["readinessProbe"], self._set_ready, forever=True),
                self._watch(session, container["livenessProbe"], self._note_life),
            )

    def _note_life(self, lives: bool) -> None:
        if not lives:
            self._fail("livenessProbe")

    async def _passes(self, session: aiohttp.ClientSession, probe: Mapping[str, Any]) -> bool:
        for _ in range(probe["failureThreshold"]):
            if await self._ask(session, probe):
                return True
            await asyncio.sleep(probe["periodSeconds"])
        return False

    async def _watch(
        self,
        session: aiohttp.ClientSession,
        probe: Mapping[str, Any],
        tell: Callable[[bool], object],
        *,
        forever: bool = False,
    ) -> None:
        """Tell each time whether a probe holds: after one success, and after as many failures as its threshold."""
        failures = 0
        while True:
            if await self._ask(session, probe):
                failures = 0
                tell(True)
            else:
                failures += 1
                if failures >= probe["failureThreshold"]:
                    tell(False)
                    if not forever:
                        return
            await asyncio.sleep(probe["periodSeconds"])

    async def _ask(self, session: aiohttp.ClientSession, probe: Mapping[str, Any]) -> bool:
        """Send one request: a status from 200 to 399 within the time is a success."""
        url = f"http://{HOST}:{self.table.ports[self._manifests.port_of(probe)]}{probe['httpGet']['path']}"
        timeout = aiohttp.ClientTimeout(total=probe["timeoutSeconds"])
        try:
            async with session.get(url, timeout=timeout, allow_redirects=False) as answer:
                return 200 <= answer.status < 400
        except (aiohttp.ClientError, TimeoutError):
            return False

    def _fail(self, probe: str) -> None:
        """Restart the container."""
        self.failed_probes.append(probe)
        self._signal(signal.SIGTERM)

    def _set_ready(self, ready: bool) -> None:
        ready = ready and not self.is_ending
        if ready != self.ready:
            self.ready = ready
            self._changed()
        self._news.set()

    def _tail(self) -> str:
        return "\n".join((self._folder / "log").read_text(errors="replace").splitlines()[-20:])
