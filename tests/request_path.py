"""Which files of the gateway a request goes through, and how often it goes from one to another.

``python -m tests.request_path`` counts one warm ``tools/call`` and one warm ``tools/list`` of MCP 2026-07-28 with
``auth.mode: off`` and logs at level warning, from the first byte to the last. A *change* is a function that begins in
another file than the function before it; what a coroutine does after a wait is no new beginning. Transport
(:data:`TRANSPORT`) is counted apart from what is ours. ``--steps`` prints the functions, too. Exit code: 0 where the
targets are met, 1 where one is missed.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

from gateway.telemetry import logs
from tests.fault.scripted import ScriptedBackend
from tests.front import Front, front

_GATEWAY: Final = f"{Path(__file__).parents[1] / 'gateway'}/"


TRANSPORT: Final = ("http_server/", "http_client/", "concurrency/")


@dataclass(frozen=True)
class Target:
    """The maximum of files that a request goes through, and of changes of file, in what is ours and in transport."""

    files: int
    changes: int
    transport_files: int
    transport_changes: int


TARGETS: Final[Mapping[str, Target]] = {"tools/call": Target(22, 45, 9, 21), "tools/list": Target(14, 26, 7, 16)}
"""Decision 48 says why they are counted in two parts."""


@dataclass
class Count:
    """The functions of the gateway that began, in order, each by its file and its name."""

    begun: list[tuple[str, str]] = field(default_factory=list)

    def part(self, *, transport: bool) -> Count:
        """Return the functions of transport alone, or of ours."""
        return Count([one for one in self.begun if one[0].startswith(TRANSPORT) == transport])

    @property
    def files(self) -> Counter[str]:
        """How many functions began in each file."""
        return Counter(file for file, _ in self.begun)

    @property
    def changes(self) -> int:
        return sum(one[0] != other[0] for one, other in itertools.pairwise(self.begun))

    def meets(self, target: Target) -> bool:
        own, transport = self.part(transport=False), self.part(transport=True)
        return (
            len(own.files) <= target.files
            and own.changes <= target.changes
            and len(transport.files) <= target.transport_files
            and transport.changes <= target.transport_changes
        )


@contextmanager
def counting() -> Iterator[Count]:
    """Count what runs in this thread meanwhile."""
    count = Count()
    frames: dict[int, FrameType] = {}  # held, so that no other gets the id of one that has ended

    def note(frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(_GATEWAY) and id(frame) not in frames:
            frames[id(frame)] = frame
            count.begun.append((file.removeprefix(_GATEWAY), frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        yield count
    finally:
        sys.setprofile(None)


async def counted() -> dict[str, Count]:
    """A count for each request of :data:`TARGETS`, the second of its kind."""
    counts: dict[str, Count] = {}
    try:
        async with ScriptedBackend() as backend, front(backend.url, "telemetry.log.level=warning") as it:
            for method in TARGETS:
                await _ask(it, method)
                with counting() as counts[method]:
                    await _ask(it, method)
    finally:
        logs.set_level("info")  # of the process, and so of the tests that follow
    return counts


async def _ask(it: Front, method: str) -> None:
    if method == "tools/list":
        assert "add" in await it.tools()
    else:
        assert (await it.call("modern", "add", {"a": 2, "b": 3})).value == {"sum": 5}


def table(method: str, count: Count, target: Target) -> Iterator[str]:
    """The count as lines, in two parts: the sum first, then each file and how many of its functions began."""
    bounds = {
        "transport": (target.transport_files, target.transport_changes),
        "ours": (target.files, target.changes),
    }
    for part, (files, changes) in bounds.items():
        own = count.part(transport=part == "transport")
        sums = f"{len(own.files)} files, {own.changes} changes of file"
        yield f"{method}, {part}: {sums} (at most {files} files and {changes} changes)"
        for file, functions in own.files.most_common():
            yield f"  {functions:3}  {file}"


def main() -> int:
    logs.configure("warning", "json")
    counts = asyncio.run(counted())
    for method, count in counts.items():
        print("\n".join(table(method, count, TARGETS[method])))
    if "--steps" in sys.argv[1:]:
        for method, count in counts.items():
            print(f"\n{method}", *(f"  {file}  {function}" for file, function in count.begun), sep="\n")
    return 0 if all(count.meets(TARGETS[method]) for method, count in counts.items()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
