"""Set up logging: one line per request, start-up and refresh, to standard error; JSON, or text on a terminal.

The renderers escape control characters in values, so that a caller cannot forge a line.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from types import SimpleNamespace
from typing import Any, Final, Literal

import structlog
from msgspec import UNSET, Struct, UnsetType, structs
from structlog.typing import EventDict, Processor

from gateway import jsonrpc
from gateway.errors import GatewayError, InternalError
from gateway.telemetry.lines import Lines
from gateway.telemetry.sampling import Sampler

_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40, "traceback": 50}
"""The last is for commands that tell the cause of a failure themselves: only what nobody expected is written."""
INFO: Final = _LEVELS["info"]
threshold = INFO
ok_requests = failed_requests = True
"""The least severity that is written. The access log compares it before it makes a line for each request."""
_lines: Lines | None = None
_as_text = False
_processors: list[Processor] = []
_common: dict[str, Any] = {}
"""Fields of every line."""


def _drop_below_level(_: Any, method: str, event: EventDict) -> EventDict:
    severity = _LEVELS.get(method, _LEVELS["error"])
    if severity < threshold and (severity < _LEVELS["error"] or "exc_info" not in event):
        raise structlog.DropEvent
    return event


def _add_common(_: Any, __: str, event: EventDict) -> EventDict:
    event.update(_common)
    return event


def _render_json(_: Any, __: str, event: EventDict) -> str:
    return encode_line({**{name: event.pop(name) for name in ("time", "level", "event")}, **event}).decode()


def encode_line(line: Struct | Mapping[str, Any]) -> bytes:
    """Return a line as JSON, all its members as texts where one has a lone surrogate."""
    try:
        return jsonrpc.encode(line)
    except ValueError:
        found = structs.asdict(line) if isinstance(line, Struct) else line
        texts = {name: str(value) for name, value in found.items() if value is not UNSET}
        return jsonrpc.encode({name: text.encode("utf-8", "backslashreplace").decode() for name, text in texts.items()})


def _render_text(_: Any, __: str, event: EventDict) -> str:
    head = f"{event.pop('time')} {event.pop('level'):7} {event.pop('event')}"
    traceback = event.pop("exception", None)
    fields = " ".join(f"{key}={_field(value)}" for key, value in event.items() if value != "")
    return f"{head} {fields}".rstrip() + (f"\n{traceback}" if traceback else "")


def _field(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if text.isprintable() and " " not in text else repr(text)


def configure(level: str, format: Literal["auto", "json", "text"] = "auto", worker: int | None = None) -> None:
    """Set up structlog, and route the logs of libraries and the interpreter's warnings into it. Each line names the
    ``worker`` where there is one, and is written so that no other process writes into it."""
    global _lines, _as_text, _common
    set_level(level)
    _common = {} if worker is None else {"worker": worker}
    _as_text = text = format == "text" or (format == "auto" and sys.stderr is not None and sys.stderr.isatty())
    render = _render_safely(
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S" if text else "iso", utc=not text, key="time"),
        structlog.processors.format_exc_info,
        _add_common,
        _render_text if text else _render_json,
    )

    def lost_line(lines: int) -> str:
        return str(render(None, "error", {"event": "log lines were lost, they could not be written", "lines": lines}))

    if _lines is None:
        # Where standard error was closed at the start, a connection may have its number by now.
        descriptor = os.open(os.devnull, os.O_WRONLY) if sys.stderr is None else sys.stderr.fileno()
        _lines = Lines(descriptor, lost_line, shares=worker is not None)
        atexit.register(_lines.close)
    _lines.lost_line = lost_line
    # It gets the finished lines of structlog, of each severity.
    logger = SimpleNamespace(**dict.fromkeys(("debug", "info", "warning", "error", "critical"), _lines.put))
    # The same list each time: loggers that were used before keep it.
    _processors[:] = _drop_below_level, render
    structlog.configure(processors=_processors, logger_factory=lambda *_: logger, cache_logger_on_first_use=True)
    root = logging.getLogger()
    root.handlers[:] = [_LibraryHandler()]
    root.setLevel(logging.WARNING)
    # By default, these two write to standard error, and wait where its reader is slow.
    logging.captureWarnings(True)
    sys.unraisablehook = _log_unraisable


def lines_lost() -> int:
    """Return how many lines could not be written since the start."""
    return 0 if _lines is None else _lines.lost


class RequestLine(Struct, gc=False):
    """Hold the members of a request's line in the log, in their order. As a dict they cost twice as much."""

    time: datetime
    level: str
    event: str
    request_id: str
    trace_id: str
    http: str
    path: str
    status: int
    service: str
    era: str
    method: str
    tool: str
    client: str
    issuer: str
    subject: str
    outcome: str
    ms: float
    service_ms: float
    address: str
    revision: str
    bytes_in: int
    bytes_out: int
    attempts: int
    coerced: int | UnsetType = UNSET
    mended: str | UnsetType = UNSET
    worker: int | UnsetType = UNSET


def write_request(line: RequestLine) -> None:
    """Write the line of a request in one step: structlog's chain of processors takes several times as long. Where
    :func:`configure` was not called, or logs are captured, structlog decides what becomes of it."""
    if _common:
        line.worker = _common["worker"]
    if _lines is not None and not _as_text and _drop_below_level in _processors:
        _lines.put(encode_line(line))
        return
    fields = {name: value for name, value in structs.asdict(line).items() if value is not UNSET}
    for name in ("time", "level", "event"):
        del fields[name]
    structlog.get_logger().info("request", **fields)


def _render_safely(*processors: Processor) -> Processor:
    """Return a processor that runs these in turn. An event that cannot be rendered is logged by its name alone."""

    def render(logger: Any, method: str, event: EventDict) -> Any:
        name = event.get("event")
        try:
            return _run(processors, logger, method, event)
        except Exception as error:  # noqa: BLE001, the repr of a stranger's value may raise anything
            return _run(processors, logger, method, {"event": str(name), "unprintable": type(error).__name__})

    return render


def _run(processors: Iterable[Processor], logger: Any, method: str, event: Any) -> Any:
    for process in processors:
        event = process(logger, method, event)
    return event


def set_level(name: str) -> None:
    """Change the least severity that is written, at once."""
    global threshold
    threshold = _LEVELS[name]


def choose_requests(which: Literal["off", "failures", "all"]) -> None:
    """Choose the requests that have a line from now on."""
    global ok_requests, failed_requests
    ok_requests, failed_requests = which == "all", which != "off"


class _LibraryHandler(logging.Handler):
    """Log each record of a library as one line without a traceback; those of asyncio, which strangers may cause in any
    number, once in 10 s."""

    def __init__(self) -> None:
        super().__init__()
        self._of_asyncio = Sampler(1, 10.0)

    def emit(self, record: logging.LogRecord) -> None:
        kind = repr(record.exc_info[0]) if record.exc_info else record.msg
        more = self._of_asyncio.admit(str(kind)) if record.name == "asyncio" else {}
        if more is None:
            return
        log = structlog.get_logger()
        method = log.error if record.levelno >= logging.ERROR else log.warning
        try:
            error = record.exc_info[1] if record.exc_info else None
            cause = {} if error is None else {"cause": repr(error), "exc_info": record.exc_info}
            method("library", logger=record.name, message=record.getMessage(), **more, **cause)
        except Exception as failure:  # noqa: BLE001, a library's message may not fit its arguments
            log.error("library", logger=record.name, unprintable=type(failure).__name__)


def _log_unraisable(failure: sys.UnraisableHookArgs) -> None:
    where = failure.err_msg or "in a finalizer"
    structlog.get_logger().error("exception ignored", where=where, exc_info=failure.exc_value)


log = structlog.get_logger()


def to_gateway_error(error: BaseException, **fields: object) -> GatewayError:
    """Return the error to answer with: this one where it is a :class:`GatewayError`. Any other is logged with these
    fields and its traceback, and becomes :class:`InternalError`, which tells callers nothing of it."""
    if isinstance(error, GatewayError):
        return error
    # A function for failures alone: a context manager around each request would cost the good ones, too.
    log.error("internal error", **fields, exc_info=error)
    return InternalError()
