"""Write one line for each request: what was asked, who asked, how it ended, and how long it took.

The steps of a request note what they learn in its record. They find it in :data:`RECORD`: each request runs in a task
of its own, and the tasks that it starts have its record too. docs/deployment.md says what each field means.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final, Protocol, TypeAlias, TypeGuard

from msgspec import Struct, field
from multidict import MultiMapping, istr

from gateway.telemetry import logs
from gateway.text import printable

# Read W3C trace context and baggage as headers for the service. What is malformed is dropped.
#
# The rest is passed on as it came, also a context of a later version: the gateway adds nothing to the trace.
Trace: TypeAlias = Mapping[str, str]

PARENT: Final[str] = istr("traceparent")
# W3C Trace Context §3.2.2: version 00 ends with the flags. A later one may go on behind a hyphen (§4, "Versioning").
_PARENT_FORM: Final = re.compile(
    r"(?!ff|00.{54})[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[!-~]{0,200})?"
)
# §3.3: members, of which some may be empty.
_STATE_MEMBER: Final = re.compile(r"[a-z0-9][a-z0-9_*/@-]{0,255}=[ -+\--<>-~]{0,255}[!-+\--<>-~]")
_MOST_MEMBERS: Final = 32
_MAX_STATE: Final = 512
# W3C Baggage §3.3.1: a "key", a token, and its "value", then properties. Nothing is tried twice, whatever comes.
_KEY: Final = r"[ \t]*+[A-Za-z0-9!#$%&'*+.^_`|~-]++[ \t]*+"
_VALUE: Final = r"=[ \t]*+[!#-+\--:<-\[\]-~]*+[ \t]*+"
_BAGGAGE_MEMBER: Final = re.compile(f"{_KEY}{_VALUE}(?:;{_KEY}(?:{_VALUE})?+)*+")
_MAX_BAGGAGE: Final = 4096


def trace_of_http(headers: MultiMapping[str]) -> Trace:
    """Return the trace context in headers that have a :data:`PARENT`. Two parents are none (§3.2), but a state may be
    divided (§3.3.1)."""
    parents = headers.getall(PARENT)
    return _trace(parents[0], ",".join(headers.getall("tracestate", ()))) if len(parents) == 1 else {}


def trace_of_meta(meta: Mapping[str, Any], ambient: Trace | None) -> Trace:
    """Return the trace context in a ``_meta``, or the ``ambient`` one where it has none, and the members of its baggage
    that are well-formed."""
    trace = _trace(meta.get("traceparent"), meta.get("tracestate")) or ambient or {}
    baggage = meta.get("baggage")
    if not isinstance(baggage, str) or len(baggage) > _MAX_BAGGAGE:
        return trace
    members = ",".join(filter(_BAGGAGE_MEMBER.fullmatch, baggage.split(","))).strip(" \t")
    return {**trace, "baggage": members} if members else trace


def trace_id(trace: Trace) -> str:
    """Return the id of a trace, "" without one."""
    return trace.get("traceparent", "")[3:35]


def _trace(parent: object, state: object) -> Trace:
    """Return the headers. A state has no meaning without its parent (§3.3)."""
    if not (isinstance(parent, str) and _PARENT_FORM.fullmatch(parent)):
        return {}
    return {"traceparent": parent, "tracestate": state} if _is_state(state) else {"traceparent": parent}


def _is_state(state: object) -> TypeGuard[str]:
    if not isinstance(state, str) or len(state) > _MAX_STATE:
        return False
    members = [member.strip(" \t") for member in state.split(",")]
    return len(members) <= _MOST_MEMBERS and any(members) and all(map(_STATE_MEMBER.fullmatch, filter(None, members)))


# Count the memory that one exchange with a client takes: its body, what is made of it, and the service's response.
class Room(Protocol):
    """Count what all exchanges take: :class:`gateway.http_server.held_bytes.HeldBytes`."""

    def take(self, owner: str, size: int, own: int, *, is_text: bool) -> bool: ...

    def remove(self, owner: str, size: int) -> None: ...


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
            self.room.remove(self.owner, self.size - size)
            self.size = size

    def end(self, _: object = None) -> None:
        """Note that one of the users has ended."""
        self.users -= 1
        if not self.users:
            self.shrink(0)


REQUEST_ID: Final[str] = istr("X-Request-Id")
OK: Final = "ok"
CLIENT_CLOSED: Final = "left"
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
