"""Measure one service: how much the gateway has to be told, how much it then knows, and whether its calls are right."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from lab.reach.rows import Call, Row
from tests.front import SURFACES, Front, Surface, front
from tests.program import run, settings
from tests.services.process import Service

Class: TypeAlias = Literal["URL alone", "one hint", "file", "appliance", "mistake", "no"]
CLASSES: Final[tuple[Class, ...]] = ("URL alone", "one hint", "file", "appliance", "mistake", "no")
NOT_COUNTED: Final[tuple[Class, ...]] = ("appliance", "mistake")
"""In the shares."""
_TYPES: Final = frozenset(("type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"))
_FAULTS_SHOWN: Final = 3


@dataclass(frozen=True)
class Measured:
    """Hold what a service came to. ``arguments`` counts those of all tools, ``typed`` those of them with a type.
    ``faults`` say in words what went wrong."""

    service: str
    version: str
    kind: Class
    tools: int = 0
    typed: int = 0
    arguments: int = 0
    right: int = 0
    made: int = 0
    faults: tuple[str, ...] = ()

    @property
    def is_typed(self) -> bool:
        """Tell whether at least half of the arguments have a type. Tools without arguments have nothing to type."""
        return self.tools > 0 and 2 * self.typed >= self.arguments


async def measure(row: Row) -> Measured:
    """Start the service, measure it, and stop it. Raise ServiceMissing, ServiceFailed."""
    with row.start() as service:
        if row.told:
            return await _told(row, service.url)
        said, pinned = "", await _pin(service.url) if row.pinned else ()
        for kind, more in _attempts(row):
            if kind == "one hint" and row.hint is not None and row.hint.said not in said:
                return Measured(row.service, row.version(), "no", faults=(f"check does not say {row.hint.said!r}",))
            known = (*row.credentials, *pinned, *more)
            ran = await run("check", *settings(service.url, *known))
            said = " ".join(ran.said.split())
            if ran.code == 0:
                return await _called(row, "appliance" if row.appliance else kind, service, known)
    return Measured(row.service, row.version(), "no", faults=(said,))


async def _told(row: Row, url: str) -> Measured:
    """Return whether `check` says what a mistake is, and what to do."""
    said = " ".join((await run("check", *settings(url))).said.split())
    lacking = [words for words in row.told if words not in said.partition("cause ")[2]]
    faults = tuple(f"check does not say {words!r}: {said}" for words in lacking)
    return Measured(row.service, row.version(), "mistake", right=0 if lacking else 1, made=1, faults=faults)


async def _pin(url: str) -> tuple[str, ...]:
    """Return the knob that pins a certificate, as `check` prints it."""
    found = re.search(r"backend\.tls\.fingerprint: ([0-9A-F:]{95})", (await run("check", *settings(url))).said)
    return () if found is None else (f"backend.tls.fingerprint={found[1]}",)


def _attempts(row: Row) -> Iterator[tuple[Class, tuple[str, ...]]]:
    """Yield what to tell the gateway besides the URL, the least first."""
    yield "URL alone", ()
    if row.hint is not None:
        yield "one hint", row.hint.settings
    if row.file is not None:
        yield "file", (f"backend.listing={{dialect: static, file: {row.file}}}", *row.more)


async def _called(row: Row, kind: Class, service: Service, known: Sequence[str]) -> Measured:
    async with front(service.url, "telemetry.log.level=error", "catalog.search=false", *known) as gateway:
        tools = await gateway.tools()
        typed, arguments = count_types(tools)
        right, made, faults = 0, 0, []
        for call in row.calls:
            for wrong in await _outcomes(gateway, call, row.at_once):
                made += 1
                right += wrong is None
                faults += [] if wrong is None else [f"{call.tool}{dict(call.arguments)}: {wrong}"]
            await asyncio.sleep(row.pause)
    if row.complaint and row.complaint in service.output:
        right, faults = 0, [f"its output has {row.complaint!r}", *faults]
    return Measured(
        row.service, row.version(), kind, len(tools), typed, arguments, right, made, tuple(faults[:_FAULTS_SHOWN])
    )


async def _outcomes(gateway: Front, call: Call, at_once: int) -> list[str | None]:
    """Return None for each right result of a call, and else what came in its place. Every surface is called."""
    turns = asyncio.Semaphore(at_once)

    async def outcome(surface: Surface) -> str | None:
        async with turns:
            called = await gateway.call(surface, call.tool, call.arguments)
        try:
            right = not called.failed and call.is_right(called.value)
        except (LookupError, TypeError, ValueError):  # a result of another shape, or a tool that does not exist
            right = False
        return None if right else called.text

    return await asyncio.gather(*(outcome(surface) for surface in SURFACES for _ in range(call.repeats)))


def count_types(tools: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many of the arguments of MCP tools have a type, and how many there are.

    The one array that stands for unknown params counts as an argument without a type.
    """
    typed = arguments = 0
    for tool in tools.values():
        for name, schema in tool["inputSchema"].get("properties", {}).items():
            arguments += 1
            typed += bool(_TYPES & schema.keys()) and not _stands_for_params(name, schema)
    return typed, arguments


def _stands_for_params(name: str, schema: Mapping[str, Any]) -> bool:
    return name == "params" and schema in ({"type": "array"}, {"type": ["array", "object"]})
