"""What is logged comes out as a line, whatever it is; in a process of its own, since logging is set up once for all."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.waiting import PATIENCE

SETUP = """
import gc, logging, os, warnings
import structlog
from gateway.telemetry import logs
logs.configure("info", "json")
log = structlog.get_logger()

class Awkward:
    def __repr__(self):
        raise ZeroDivisionError
    __str__ = __repr__
"""


def logged(script: str) -> list[dict[str, Any]]:
    ran = subprocess.run(
        [sys.executable, "-c", SETUP + script], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert ran.stdout == ""
    return [json.loads(line) for line in ran.stderr.splitlines()]


def test_a_value_that_cannot_be_shown_costs_its_value_and_not_the_line() -> None:
    (line,) = logged("log.warning('request', path=Awkward())")
    assert (line["level"], line["event"], line["unprintable"]) == ("warning", "request", "ZeroDivisionError")


def test_an_exception_that_cannot_be_shown_costs_its_traceback_alone() -> None:
    (line,) = logged("""
class Failure(Exception):
    def __str__(self):
        raise ZeroDivisionError
try:
    raise Failure
except Failure:
    log.exception("internal error")
""")
    assert line["event"] == "internal error"


def test_a_command_that_tells_the_cause_itself_logs_errors_with_a_traceback_alone() -> None:
    (line,) = logged("""
logs.configure("traceback", "json")
log.error("no token for the backend")
log.warning("request", exc_info=ValueError())
log.error("internal error", exc_info=ZeroDivisionError())
""")
    assert line["event"] == "internal error"


def test_a_librarys_message_that_does_not_fit_its_arguments_is_a_line_too() -> None:
    (line,) = logged("logging.getLogger('asyncio').error('%d tasks', 'many')")
    assert (line["level"], line["event"], line["logger"]) == ("error", "library", "asyncio")


def test_of_what_asyncio_logs_one_line_in_ten_seconds_is_written() -> None:
    found = logged("for _ in range(500): logging.getLogger('asyncio').error('broken')")
    assert [line["message"] for line in found] == ["broken"]


def test_a_warning_and_what_fails_in_a_finalizer_are_lines_and_wait_for_nobody() -> None:
    one, other = logged("""
warnings.warn("old", UserWarning)
class Failing:
    def __del__(self):
        raise ZeroDivisionError
Failing()
""")
    assert (one["event"], one["logger"]) == ("library", "py.warnings")
    assert "old" in one["message"]
    assert (other["level"], other["event"]) == ("error", "exception ignored")
    assert "ZeroDivisionError" in other["exception"]


def test_where_standard_error_is_closed_no_connection_gets_the_log() -> None:
    """The number of a descriptor that was closed goes to whatever is opened next."""
    script = """
import atexit, os, socket, sys
here, there = socket.socketpair()

@atexit.register  # before the log's own, so that it runs after the last lines went out
def show():
    here.close()
    print(there.recv(100))

from gateway.telemetry import logs
logs.configure("info", "json")
import structlog
structlog.get_logger().error("not for you")
"""
    ran = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-c", script],
        stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=True,
    )  # fmt: skip
    assert ran.stdout == "b''\n"
