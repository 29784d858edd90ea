"""Hold what one request was and came to, and end it: the one source of the log line and of the metrics.

Each HTTP request has a record, and each message of a batch has one beside it. The steps of a request note what they
learn in :data:`RECORD`, which the tasks of the request have too. docs/logs.md says what each field of the line means.
"""

from __future__ import annotations

import random
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import UNSET, Struct, field
from multidict import MultiMapping, istr

from gateway.errors import GatewayError, ToolFault
from gateway.jsonrpc import Id
from gateway.jsonrpc.mending import Mended
from gateway.telemetry import cells, logs
from gateway.telemetry.cells import BUCKETS, CELLS, KNOWN, METHODS, OTHER, REQUEST, SENT, SENT_SUM, SUM, TOOLS
from gateway.telemetry.exchange_memory import ExchangeMemory
from gateway.telemetry.trace_context import Span, Trace, is_sampled, trace_id
from gateway.text import mask_keys, printable

REQUEST_ID: Final[str] = istr("X-Request-Id")
OK: Final = "ok"
CLIENT_CLOSED: Final = "left"  # the outcome of a request whose client hung up before its response
CANCELLED: Final = "cancelled"
TOOL_ERROR: Final = "tool_error"
"""The outcome of a call that was made, and whose result the service itself marks with ``isError``."""
INTROSPECTION: Final = "introspect token"
BATCH: Final = "batch"  # the method of a record that stands for a whole batch
CALL: Final = "tools/call"  # MCP's method, which calls on other surfaces have too
_GIVEN_ID: Final = re.compile(r"(?!.*jmg_)[A-Za-z0-9._~:/+=@-]{1,128}")
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
    """Hold what a request was and came to, as it came: :meth:`line` cuts and cleans what a stranger chose.

    ``surface`` is mcp, rest, tool, jsonrpc or stdio, "" for a path that is none of these. ``tool`` is the name that was
    given, or of the tool that was found; ``ran`` says that its call was not refused. ``code`` is the JSON-RPC error
    code of the response, 0 without one. ``status`` stays 0 where no response was sent, and for a message of a batch.
    ``service_time`` is the sum of all exchanges with the service, ``queue_time`` that of the waits for a turn, both in
    seconds. ``resends`` is how often the call was sent again. ``limit`` names the limit that refused the request,
    ``token_refused`` says why its token was. ``consent`` is the Unix time at which a person agreed to the call, 0
    without. ``rpc_method`` is the service's method, ``arguments`` what the audit shows of a call's, and ``call_id``
    joins its lines there. ``coerced`` texts in them became values. ``mended`` is the answer, if it was.
    ``trace`` are headers for the service, ``ambient`` those of HTTP beside them. If sampled, it has a ``span``, once
    that ``is_decided``. ``memory`` counts what it takes.
    Times are of :func:`time.perf_counter`.
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
    rpc_id: Id | None = None
    code: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    ran: bool = False
    queue_time: float = 0.0
    resends: int = 0
    limit: str = ""
    token_refused: str = ""
    consent: float = 0.0
    sent_at: float = 0.0
    failure: str = ""
    failure_code: int = 0
    earlier: tuple[ServiceExchange, ...] = ()
    is_plain: bool = True
    counted: int = 0
    rpc_method: str = ""
    arguments: Mapping[str, Any] | None = None
    call_id: str = ""
    coerced: int = 0
    ambient: Trace | None = None
    is_decided: bool = False
    span: Span | None = None
    work: tuple[Record, ...] = ()
    mended: Mended | None = None

    @property
    def exchanges(self) -> tuple[ServiceExchange, ...]:
        """Return the exchanges of a call with the service. Nearly each has one, for which no object is made."""
        if not self.sent_at:
            return self.earlier
        seconds = self.service_time - sum(one.seconds for one in self.earlier)
        return (*self.earlier, ServiceExchange(self.sent_at, seconds, self.failure, self.failure_code))

    @property
    def seconds(self) -> float:
        """Return how long the request took, once it has ended."""
        return self.ended - self.started

    def part(self) -> Record:
        """Return the record of one message of this batch."""
        if decide is not None:
            decide(self)
        return Record(
            self.request_id, self.http, self.path, self.service, self.era, client=self.client, issuer=self.issuer,
            subject=self.subject, trace=self.trace, memory=self.memory, surface=self.surface, revision=self.revision,
            address=self.address, client_id=self.client_id, started=time.perf_counter(),
        )  # fmt: skip

    def note_outcome(self, outcome: str) -> None:
        """Note how a request failed. The first failure that is noted counts."""
        self.outcome, self.is_plain = self.outcome or outcome, False

    def note_error(self, error: GatewayError) -> None:
        """Note the error of the response. With ``backend.errors: passed`` its code is the service's own, unless 0."""
        self.outcome, self.is_plain = self.outcome or error.slug, False
        passed = error.service_error if isinstance(error, ToolFault) else None
        self.code = (passed and passed.code) or error.code

    def keep_exchange(self) -> None:
        """Keep the last exchange, because another one ended."""
        self.earlier = self.exchanges
        self.sent_at, self.failure, self.failure_code, self.is_plain = 0.0, "", 0, False

    def note_failure(self, error: str, code: int = 0) -> None:
        """Note why the last exchange failed, as in a :class:`ServiceExchange`. The first reason counts."""
        self.is_plain = False
        if not self.failure:
            self.failure, self.failure_code = error, code

    def note_wait(self, seconds: float) -> None:
        self.queue_time, self.is_plain = self.queue_time + seconds, False

    def note_resend(self) -> None:
        self.resends, self.is_plain = self.resends + 1, False

    def note_mended(self, mended: Mended) -> None:
        """Note that the service's answer was no sound JSON, and what it was taken for."""
        self.mended, self.is_plain = mended, False

    def note_limit(self, limit: str) -> None:
        """Note which limit refuses the request: a word of ours."""
        self.limit, self.is_plain = limit, False

    def note_refused_token(self, reason: str) -> None:
        """Note why the request's token is refused: a word of ours."""
        self.token_refused, self.is_plain = reason, False

    def note_work(self, name: str, began: float, error: str, service: str = "") -> None:
        """Note work that ends now. If several requests wait for the same work, one has it; some belongs to none."""
        work = Record("", service=service, method=name, outcome=error, started=began, trace=self.trace)
        work.ended = time.perf_counter()
        if self.request_id and not self.ended:
            self.work = (*self.work, work)
        else:
            for sink in SINKS:
                sink(work)
        if name == INTROSPECTION:
            _observe((cells.INTROSPECTION, self.service), work.seconds)

    def line(self) -> logs.RequestLine:
        path, method, tool, subject = self.path, self.method, self.tool, self.subject
        client = self.client if isinstance(self.client, str) else ""
        chosen = f"{path}{method}{tool}{client}{subject}"  # looked at as one text, which is fine mostly
        if len(chosen) > 2 * _SHORT or len(method) + len(client) > _SHORT or not chosen.isprintable():
            path, subject, tool = _cut(path, _LONG), _cut(subject, _LONG), _cut(tool, 2 * _SHORT)
            method, client = _cut(method, _SHORT), _cut(client, _SHORT)
        return logs.RequestLine(
            datetime.now(UTC),
            "info",
            "request",
            self.request_id,
            trace_id(self.trace) if self.trace else "",
            self.http,
            path,
            self.status,
            self.service,
            self.era,
            method,
            tool,
            client,
            self.issuer,
            subject,
            self.outcome or OK,
            # To the hundredth. round() goes by way of text, and takes ten times as long.
            int((self.ended - self.started) * 100_000) / 100,
            int(self.service_time * 100_000) / 100,
            self.address,
            self.revision,
            self.bytes_in,
            self.bytes_out,
            1 + self.resends if self.sent_at else 0,
            self.coerced or UNSET,
            ",".join(self.mended.places) if self.mended else UNSET,
        )


_NOBODY: Final = Record("")
"""The record of work that belongs to no request. Nobody reads it."""
RECORD: Final[ContextVar[Record]] = ContextVar("request", default=_NOBODY)
"""The record of the request that a task works for. Set it once at the beginning: the task ends with its request."""


def end(record: Record) -> None:
    """End a record, once: write its line, count it, and give it to each sink. Later, only exchanges are counted."""
    record.ended = time.perf_counter()
    if "jmg_" in f"{record.path}{record.tool}{record.method}":  # nearly never, and three searches take longer
        record.path, record.tool = mask_keys(record.path), mask_keys(record.tool)
        record.method = mask_keys(record.method)
    if decide is not None and not record.is_decided:
        decide(record)
    if logs.threshold <= logs.INFO and (logs.failed_requests if record.outcome else logs.ok_requests):
        logs.write_request(record.line())
    cell = None
    if record.is_plain and record.trace is None:
        tool = record.tool if record.ran else ""
        cell = KNOWN.get((record.service, record.surface, record.method, record.revision, tool))
    if cell is None:
        cell = _find_cell(record)
    seconds, sent = record.ended - record.started, record.service_time
    cell[0 if seconds <= 0.01 else bisect_left(BUCKETS, seconds)] += 1
    cell[SUM] += seconds
    if sent and record.is_plain:
        cell[SENT if sent <= 0.01 else SENT + bisect_left(BUCKETS, sent)] += 1
        cell[SENT_SUM] += sent
    for sink in SINKS:
        sink(record)


def _find_cell(record: Record) -> list[float]:
    """Return the cell that counts a request, its one exchange with the service, and the call of a tool that ran. Where
    nothing is special, :func:`end` finds it by itself the next time; what is special is counted here."""
    key = (
        REQUEST,
        record.service,
        record.surface,
        METHODS.get(record.method, OTHER),
        record.outcome or OK,
        cells.code_label(record.code) if record.code else "",
        record.revision,
        TOOLS.get(record.service, {}).get(record.tool, OTHER) if record.ran else "",
    )
    cell = CELLS.get(key)
    if cell is None:
        cell = CELLS[key] = [0] * (SENT_SUM + 1)
    if record.is_plain and key[4] == OK and key[3] == record.method and key[7] in ("", record.tool):
        KNOWN[record.service, record.surface, record.method, record.revision, key[7]] = cell
    if not record.is_plain:
        _count_rest(record)
    if record.trace is not None and is_sampled(record.trace):
        trace = trace_id(record.trace), record.seconds, time.time()
        cells.EXEMPLARS[key, bisect_left(BUCKETS, record.seconds)] = trace
    if record.outcome in cells.CANCELLING:
        record.counted = len(record.exchanges)
    return cell


def _count_rest(record: Record) -> None:
    """Count what few requests have."""
    _count_exchanges(record)
    if record.token_refused:
        cells.count(cells.TOKENS, record.service, record.token_refused)
    if record.limit:
        cells.count(cells.LIMIT, record.service, record.limit)
    if record.queue_time:
        _observe((cells.QUEUE_WAIT, record.service), record.queue_time)
    for word in record.mended.places if record.mended else ():
        cells.count(cells.MENDED, record.service, word)
    for _ in range(record.resends):
        cells.count(cells.RESENDS, record.service)


def count_late_exchanges(record: Record) -> None:
    """Count the exchanges of a call that went on when its client had left, and its record had ended."""
    if record.outcome in cells.CANCELLING:
        _count_exchanges(record)


def _count_exchanges(record: Record) -> None:
    for one in record.exchanges[record.counted :]:
        label = cells.code_label(one.code) if one.code else ""
        _observe((cells.EXCHANGE, record.service, label or one.error, label), one.seconds)


def _observe(key: cells.Key, seconds: float) -> None:
    """Add a value to a histogram."""
    if (cell := CELLS.get(key)) is None:
        cell = CELLS[key] = [0] * SENT
    cell[bisect_left(BUCKETS, seconds)] += 1
    cell[-1] += seconds


decide: Callable[[Record], None] | None = None
"""What decides whether a request is sampled, if there are traces."""
SINKS: Final[list[Callable[[Record], None]]] = []
"""What also reads each record at its end. None may raise, or wait."""


def request_id(headers: MultiMapping[str], trace: Trace | None) -> str:
    """Return a client's X-Request-Id, if it is well-formed; else the id of its trace, or a new one."""
    given = headers.get(REQUEST_ID)
    if given is not None and _GIVEN_ID.fullmatch(given):
        return given
    return (trace_id(trace) if trace else "") or new_id()


def new_id() -> str:
    return f"{random.getrandbits(64):016x}"


def client_name(info: object) -> str:
    """Return what a client calls itself in its ``clientInfo``, short and printable; "" where it does not."""
    name = info.get("name") if isinstance(info, dict) else None
    return _cut(mask_keys(name), _SHORT) if isinstance(name, str) else ""


def _cut(text: str, most: int) -> str:
    """Return a text with at most ``most`` characters and no control characters."""
    if len(text) > most:
        text = text[: most - 1] + "…"
    return text if text.isprintable() else " ".join(printable(text).split())
