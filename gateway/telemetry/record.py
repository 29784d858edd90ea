"""Hold what one request was and came to, and end it: the one source of the log line and of the metrics.

Each HTTP request has a record, and each message of a batch has one of its own beside it. The steps of a request note
what they learn. They find the record in :data:`RECORD`: each request runs in a task of its own, and the tasks that it
starts have its record too. docs/deployment.md says what each field of the line means.
"""

from __future__ import annotations

import random
import re
import time
from bisect import bisect_left
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, Protocol

from msgspec import Struct, field
from multidict import MultiMapping, istr

from gateway.errors import GatewayError, InputRequired, ToolFault
from gateway.telemetry import cells, logs
from gateway.telemetry.trace_context import Trace, is_sampled, trace_id
from gateway.text import printable


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
BATCH: Final = "batch"
"""The method of a record that stands for a whole batch."""
CALL: Final = "tools/call"
"""MCP's method, which calls on other surfaces have too."""
_GIVEN_ID: Final = re.compile(r"[A-Za-z0-9._~:/+=@-]{1,128}")
_SHORT: Final = 64
_LONG: Final = 256


class ServiceExchange(Struct, eq=False, gc=False):
    """Hold one exchange of a call with the service. ``began`` is of :func:`time.perf_counter`, ``seconds`` how long it
    took, ``error`` the word of its failure, "" without one, and ``code`` that of the service's JSON-RPC error."""

    began: float
    seconds: float
    error: str = ""
    code: int = 0


class Record(Struct, eq=False):
    """Hold what a request was and came to, as it came: :meth:`fields` cuts and cleans what a stranger chose.

    ``surface`` is mcp, rest, tool, jsonrpc or stdio, "" for a path that is none of these. ``tool`` is the name that was
    given, or of the tool that was found; ``ran`` says that its call was not refused. ``code`` is the JSON-RPC error
    code of the response, 0 without one. ``status`` stays 0 where no response was sent, and for a message of a batch.
    ``service_time`` is the sum of all exchanges with the service, ``queue_time`` that of the waits for a turn, both in
    seconds. ``resends`` is how often the call was sent again. ``limit`` names the limit that refused the request,
    ``token_refused`` says why its token was. ``consent`` is the Unix time at which a person agreed to the call, 0
    without. ``trace`` are headers for the service, ``memory`` counts what the request takes. ``started`` and ``ended``
    are of :func:`time.perf_counter`.
    """

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
    started: float = 0.0
    ended: float = 0.0
    surface: str = ""
    revision: str = ""
    address: str = ""
    client_id: str = ""
    rpc_id: object = None
    code: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    ran: bool = False
    queue_time: float = 0.0
    exchanges: list[ServiceExchange] = field(default_factory=list)
    resends: int = 0
    limit: str = ""
    token_refused: str = ""
    consent: float = 0.0
    counted: int = 0
    """How many of the ``exchanges`` the metrics have."""

    def __post_init__(self) -> None:
        self.started = self.started or time.perf_counter()

    @property
    def seconds(self) -> float:
        """Return how long the request took, once it has ended."""
        return self.ended - self.started

    @property
    def sampled(self) -> bool:
        """Return whether its trace is recorded."""
        return self.trace is not None and is_sampled(self.trace)

    def part(self) -> Record:
        """Return the record of one message of this batch."""
        return Record(
            self.request_id, self.http, self.path, self.service, self.era, client=self.client, issuer=self.issuer,
            subject=self.subject, trace=self.trace, memory=self.memory, surface=self.surface, revision=self.revision,
            address=self.address, client_id=self.client_id,
        )  # fmt: skip

    def note_outcome(self, outcome: str) -> None:
        """Note how a request failed. The first failure that is noted counts."""
        self.outcome = self.outcome or outcome

    def note_error(self, error: GatewayError) -> None:
        """Note the error of the response. With ``backend.errors: passed`` its code is the service's own."""
        self.outcome = self.outcome or error.slug
        passed = error.service_error if isinstance(error, ToolFault) else None
        self.code = passed.code if passed else error.code

    def note_failure(self, error: str, code: int = 0) -> None:
        """Note why the last exchange with the service failed, as in a :class:`ServiceExchange`. The first reason
        counts."""
        if self.exchanges and not self.exchanges[-1].error:
            self.exchanges[-1].error, self.exchanges[-1].code = error, code

    def note_introspection(self, seconds: float) -> None:
        """Note that an issuer was asked about the caller's token. Requests with the same token wait for one answer."""
        _observe((cells.INTROSPECTION, self.service), seconds)

    def fields(self) -> dict[str, Any]:
        """Return the fields of the line, the same each time."""
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
            "ms": int((self.ended - self.started) * 100_000) / 100,
            "service_ms": int(self.service_time * 100_000) / 100,
        }


_NOBODY: Final = Record("")
"""The record of work that belongs to no request. Nobody reads it."""
RECORD: Final[ContextVar[Record]] = ContextVar("request", default=_NOBODY)
"""The record of the request that a task works for. Set it once at the beginning: the task ends with its request."""


def end(record: Record) -> None:
    """End a record, once: each sink reads it now, and nothing that is noted later reaches a sink but an exchange."""
    record.ended = time.perf_counter()
    for sink in SINKS:
        sink(record)


def _write_line(record: Record) -> None:
    if logs.threshold <= logs.INFO:
        logs.write_info("request", record.fields())


def _count(record: Record) -> None:
    """Count a request, its exchanges with the service, and the call of a tool that ran and was answered."""
    outcome, code, seconds = record.outcome or OK, record.code, record.ended - record.started
    method, label = cells.METHODS.get(record.method, cells.OTHER), cells.code_label(code) if code else ""
    key = (cells.OPERATION, record.service, record.surface, method, outcome, label, record.revision)
    bucket = _observe(key, seconds)
    if record.trace is not None and record.sampled:
        cells.EXEMPLARS[key, bucket] = trace_id(record.trace), seconds, time.time()
    if record.exchanges:
        count_exchanges(record)
    if record.ran and outcome not in (CLIENT_CLOSED, CANCELLED):
        _count_tool(record, outcome != OK and (outcome != InputRequired.slug or code != 0))
    if record.token_refused:
        cells.count(cells.TOKENS, record.service, record.token_refused)
    if record.limit:
        cells.count(cells.LIMIT, record.service, record.limit)
    if record.queue_time:
        _observe((cells.QUEUE_WAIT, record.service), record.queue_time)
    for _ in range(record.resends):
        cells.count(cells.RESENDS, record.service)


def _count_tool(record: Record, failed: bool) -> None:
    named, tool = cells.TOOLS.get(record.service), record.tool
    if named is not None and tool in named:
        named[tool] = True
    else:
        tool = cells.OTHER
    key = (cells.TOOL, record.service, tool)
    if (cell := cells.CELLS.get(key)) is None:
        cell = cells.CELLS[key] = [0, 0, 0.0]
    cell[failed] += 1
    cell[2] += record.ended - record.started


def count_exchanges(record: Record) -> None:
    """Count the exchanges that are new since the last time: a call may outlive its request."""
    for one in record.exchanges[record.counted :]:
        label = cells.code_label(one.code) if one.code else ""
        _observe((cells.EXCHANGE, record.service, label or one.error, label), one.seconds)
    record.counted = len(record.exchanges)


def _observe(key: cells.Key, seconds: float) -> int:
    """Add a value to a histogram. Return the number of its bucket."""
    if (cell := cells.CELLS.get(key)) is None:
        cell = cells.CELLS[key] = [0] * (len(cells.BUCKETS) + 1) + [0.0]
    bucket = bisect_left(cells.BUCKETS, seconds)
    cell[bucket] += 1
    cell[-1] += seconds
    return bucket


SINKS: Final[list[Callable[[Record], None]]] = [_write_line, _count]
"""What reads each record at its end, in this order. None may raise."""


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
