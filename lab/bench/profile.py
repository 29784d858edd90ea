"""Where the time of a call goes: py-spy looks at the gateway from outside, some hundred times a second, while it works.

A sample belongs to the part of the gateway whose code is innermost in it. What has none is the event loop's, with all
that the kernel does for it.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from lab.bench.load import Lane
from lab.bench.machine import Unusable, program
from lab.bench.peers import environments

STAGES: Final = {
    "event loop, sockets and kernel": (),
    "HTTP: read the request, write the answer": ("gateway/http_server/",),
    "HTTP: route, check headers, find the caller": ("gateway/web/", "gateway/process/"),
    "token": ("gateway/auth/",),
    "limits": ("gateway/limits", "gateway/store/"),
    "protocol: eras, headers against body, envelope": ("gateway/mcp/",),
    "invocation: look up the tool, check arguments, shape the result": ("gateway/invocation/", "gateway/schema/"),
    "JSON": ("gateway/jsonrpc/",),
    "send to the service and read its answer": ("gateway/backend/", "gateway/http_client/", "gateway/credentials/"),
    "line of log": ("gateway/telemetry/",),
    "other parts of the gateway": ("gateway/",),
}
"""Each stage with the paths of its code; the first that fits counts."""
_LOOPS: Final = ("asyncio/runners.py", "uvloop/")
"""Where the event loop was started: what is outside of it started the program, and does no work of a call."""
_LOOP = next(iter(STAGES))
_RATE: Final = 250
_TOO_FEW: Final = 200


def shares(lane: Lane, seconds: int, core: int, folder: Path) -> dict[str, float]:
    """The share of each stage in the time of the lane's process, under load. Raises :class:`Unusable`."""
    found = folder / "profile.txt"
    spy = environments.python("profile").with_name("py-spy")
    command: list[str | Path] = [program("taskset"), "-c", str(core), spy, "record"]
    command += ["--pid", str(lane.process.pid), "--nonblocking"]
    command += ["--rate", str(_RATE), "--duration", str(seconds), "--format", "raw", "--output", found]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as watching:
        lane.run(seconds, 32, core, folder)
        said, _ = watching.communicate(timeout=30)
    if not found.exists():
        raise Unusable(f"py-spy could not look at the gateway: {said[-300:]}")
    return shares_of(found.read_text().splitlines())


def shares_of(stacks: Iterable[str]) -> dict[str, float]:
    """The share of each stage in stacks as py-spy writes them: ``frame;frame;frame COUNT``, the outermost first."""
    counted: Counter[str] = Counter()
    for stack in stacks:
        frames, _, count = stack.rpartition(" ")
        counted[stage_of(frames.split(";"))] += int(count)
    total = counted.total()
    if total < _TOO_FEW:
        raise Unusable(f"py-spy saw the gateway only {total} times")
    return {stage: counted[stage] / total for stage in STAGES}


def stage_of(frames: list[str]) -> str:
    """The stage that a stack belongs to."""
    started = max((at for at, frame in enumerate(frames) if any(loop in frame for loop in _LOOPS)), default=-1)
    frames = frames[started + 1 :]
    for frame in reversed(frames):
        for stage, paths in STAGES.items():
            if any(path in frame for path in paths):
                return stage
    return _LOOP
