"""Write one line for each request: what was asked, who asked, how it ended, and how long it took.

The steps of a request note what they learn in its record. They find it in :data:`RECORD`: each request runs in a task
of its own, and the tasks that it starts have its record too. docs/deployment.md says what each field means.
"""

from __future__ import annotations

import random
import re
import time
from contextvars import ContextVar
from typing import Any, Final, Protocol

from msgspec import Struct, field
from multidict import MultiMapping, istr

from gateway.telemetry import logs
from gateway.telemetry.trace_context import Trace, trace_id
from gateway.text import printable


class Room(Protocol):
    """Count what all exchanges take: :class:`gateway.http_server.held_bytes.HeldBytes`."""

    def take(self, owner: str, size: int, own: int, *, is_text: bool) -> bool: ...

    def give_back(self, owner: str, size: int) -> None: ...


class ExchangeMemory(Struct, eq=False, gc=False):
    """Count ``size`` bytes of one exchange, until its ``users`` have ended: itself, and tasks that may outlive it.
    Without a ``room`` nothing is counted."""

    room: Room | None = None
    owner: str = ""
    size: int = 0
    users: int = 1

    def take(self, size: int, *, is_text: bool = False) -> bool:
        """Count bytes that are taken from now on. Return False where there is no room: they must not be taken. There is
        more room for a response that ``is_text``: its call was made, and its bytes were counted while they came."""
        if size and self.room is not None and self.users:
            if not self.room.take(self.owner, size, self.size, is_text=is_text):
                return False
            self.size += size
        return True

    def shrink(self, size: int) -> None:
        """Note that only ``size`` bytes are taken now, if that is less than before."""
        if self.room is not None and size < self.size:
            self.room.give_back(self.owner, self.size - size)
            self.size = size

    def end(self, _: object = None) -> None:
        """Note that one of the users has ended."""
        self.users -= 1
        if not self.users:
            self.shrink(0)


REQUEST_ID: Final[str] = istr("X-Request-Id")
OK: Final = "ok"
LEFT: Final = "left"
"""The outcome of a request whose client hung up before its answer."""
CANCELLED: Final = "cancelled"
TOOL_ERROR: Final = "tool_error"
"""The outcome of a call that was made, and whose result the service itself marks with ``isError``."""
_GIVEN_ID: Final = re.compile(r"[A-Za-z0-9._~:/+=@-]{1,128}")
_SHORT: Final = 64
_LONG: Final = 256


class RequestRecord(Struct, eq=False):
    """Hold what the line says, as it came: :meth:`fields` cuts and cleans what a stranger chose. ``service_time`` is
    the sum of all exchanges with the service, in seconds. ``status`` stays 0 where no answer was sent. ``trace`` are
    headers for the service. ``memory`` counts what the request takes, and is not in the line."""

    request_id: str
    http: str = ""
    path: str = ""
    service: str = ""
    era: str = ""
    method: str = ""
    tool: str = ""
    client: object = ""
    issuer: str = ""
    subject: str = ""
    status: int = 0
    outcome: str = ""
    service_time: float = 0.0
    trace: Trace | None = None
    memory: ExchangeMemory = field(default_factory=ExchangeMemory)

    def note_outcome(self, outcome: str) -> None:
        """Note how a call failed. Of several in one request, the first that failed stands in the line."""
        self.outcome = self.outcome or outcome

    def fields(self, seconds: float) -> dict[str, Any]:
        """Return the fields of the line, the same each time. ``seconds`` is the time of the request."""
        path, method, tool, subject = self.path, self.method, self.tool, self.subject
        client = self.client if isinstance(self.client, str) else ""
        chosen = f"{path}{method}{tool}{client}{subject}"  # looked at as one text, which is fine mostly
        if len(chosen) > 2 * _SHORT or len(method) + len(client) > _SHORT or not chosen.isprintable():
            path, subject, tool = _cut(path, _LONG), _cut(subject, _LONG), _cut(tool, 2 * _SHORT)
            method, client = _cut(method, _SHORT), _cut(client, _SHORT)
        return {
            "request_id": self.request_id,
            "trace_id": trace_id(self.trace) if self.trace else "",
            "http": self.http,
            "path": path,
            "status": self.status,
            "service": self.service,
            "era": self.era,
            "method": method,
            "tool": tool,
            "client": client,
            "issuer": self.issuer,
            "subject": subject,
            "outcome": self.outcome or OK,
            # To the hundredth. round() goes by way of text, and takes ten times as long.
            "ms": int(seconds * 100_000) / 100,
            "service_ms": int(self.service_time * 100_000) / 100,
        }


_NOBODY: Final = RequestRecord("")
"""The record of work that belongs to no request. Nobody reads it."""
RECORD: Final[ContextVar[RequestRecord]] = ContextVar("request", default=_NOBODY)
"""The record of the request that a task works for. Set it once at the beginning: the task ends with its request."""


def write(record: RequestRecord, started: float) -> None:
    """Write the line of a request that began at ``started``, by :func:`time.perf_counter`."""
    if logs.threshold <= logs.INFO:
        logs.write_info("request", record.fields(time.perf_counter() - started))


def request_id(headers: MultiMapping[str], trace: Trace | None) -> str:
    """Return the id that a client gave its request in X-Request-Id, if it is well-formed; else its trace's, or a new
    one."""
    given = headers.get(REQUEST_ID)
    if given is not None and _GIVEN_ID.fullmatch(given):
        return given
    return (trace_id(trace) if trace else "") or new_id()


def new_id() -> str:
    return f"{random.getrandbits(64):016x}"


def client_name(info: object) -> str:
    """Return what a client calls itself in its ``clientInfo``, short and without control characters; "" where it does
    not."""
    name = info.get("name") if isinstance(info, dict) else None
    return _cut(name, _SHORT) if isinstance(name, str) else ""


def _cut(text: str, most: int) -> str:
    """Return a text with at most ``most`` characters and no control characters."""
    if len(text) > most:
        text = text[: most - 1] + "…"
    return text if text.isprintable() else " ".join(printable(text).split())
