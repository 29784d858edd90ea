"""Logs: one line per request, start-up and refresh, to standard error; JSON, or readable on a terminal.

Control characters in values are escaped by the renderers, so that a caller cannot forge a line. aiohttp writes a
traceback for each malformed request; those become one sampled line, or a flood of garbage would fill the disk.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, Final, Literal

import structlog

from gateway import jsonrpc
from gateway.telemetry.sampling import Sampler

_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_SAMPLE_SECONDS: Final = 10.0
_level = _LEVELS["info"]


def _drop_below_level(_: Any, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    if _LEVELS.get(method, _LEVELS["error"]) < _level:
        raise structlog.DropEvent
    return event


def _render_json(_: Any, __: str, event: structlog.typing.EventDict) -> str:
    event = {**{name: event.pop(name) for name in ("time", "level", "event")}, **event}
    try:
        return jsonrpc.encode(event).decode()
    except ValueError:
        return jsonrpc.encode({key: _printable(value) for key, value in event.items()}).decode()


def _printable(value: Any) -> str:
    return str(value).encode("utf-8", "backslashreplace").decode()


def _render_text(_: Any, __: str, event: structlog.typing.EventDict) -> str:
    head = f"{event.pop('time')} {event.pop('level'):7} {event.pop('event')}"
    traceback = event.pop("exception", None)
    fields = " ".join(f"{key}={_field(value)}" for key, value in event.items())
    return f"{head} {fields}".rstrip() + (f"\n{traceback}" if traceback else "")


def _field(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if text.isprintable() and " " not in text else repr(text)


def configure(level: str, format: Literal["auto", "json", "text"] = "auto") -> None:
    """Set up structlog, and lead what libraries log into it."""
    set_level(level)
    text = format == "text" or (format == "auto" and sys.stderr.isatty())
    structlog.configure(
        processors=[
            _drop_below_level,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S" if text else "iso", utc=not text, key="time"),
            structlog.processors.format_exc_info,
            _render_text if text else _render_json,
        ],
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    root.handlers[:] = [_Bridge()]
    root.setLevel(logging.WARNING)


def set_level(level: str) -> None:
    """Change the least severity that is written, at once."""
    global _level
    _level = _LEVELS[level]


def enabled(level: str) -> bool:
    """Whether a line of this severity is written: asked first where a line would be made for each request."""
    return _LEVELS[level] >= _level


class _Bridge(logging.Handler):
    """Library logs: a line each, without tracebacks, the malformed requests of strangers sampled."""

    def __init__(self) -> None:
        super().__init__()
        self._bad_http = Sampler(1, _SAMPLE_SECONDS)

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger()
        if record.name == "aiohttp.server" and record.levelno >= logging.ERROR and _is_bad_http(record):
            more = self._bad_http.admit()
            if more is not None:
                log.warning("malformed HTTP refused", **more)
            return
        method = log.error if record.levelno >= logging.ERROR else log.warning
        method("library", logger=record.name, message=record.getMessage(), **_cause(record))


def _is_bad_http(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return error is not None and type(error).__module__.startswith("aiohttp.http_exceptions")


def _cause(record: logging.LogRecord) -> dict[str, Any]:
    error = record.exc_info[1] if record.exc_info else None
    return {} if error is None else {"cause": repr(error), "exc_info": record.exc_info}
