"""What nobody foresaw is logged once and tells callers nothing; what can be answered passes as it is."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from gateway.errors import InternalError, UnknownTool
from gateway.invocation import Call
from gateway.model import ANONYMOUS, Binding, Outcome, Structure, Tool
from gateway.telemetry.internal_errors import internal_errors


def test_what_nobody_foresaw_is_logged_with_its_traceback_and_raised_as_an_internal_error() -> None:
    with (
        capture_logs() as lines,
        pytest.raises(InternalError) as caught,
        internal_errors(tool="drop", method="db.drop"),
    ):
        raise ZeroDivisionError("a secret")
    (line,) = lines
    assert {**line, "exc_info": True} == {
        "event": "internal error", "log_level": "error", "exc_info": True, "tool": "drop", "method": "db.drop",
    }  # fmt: skip
    assert line["exc_info"]
    assert "a secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_an_error_that_can_be_answered_passes_with_its_cause_and_is_not_logged() -> None:
    cause = ZeroDivisionError()
    with capture_logs() as lines, pytest.raises(UnknownTool) as caught, internal_errors():
        raise UnknownTool("Unknown tool: x") from cause
    assert lines == []
    assert caught.value.__cause__ is cause


@pytest.mark.parametrize("end", [asyncio.CancelledError, KeyboardInterrupt])
def test_an_end_that_is_asked_for_is_no_error(end: type[BaseException]) -> None:
    with capture_logs() as lines, pytest.raises(end), internal_errors():
        raise end
    assert lines == []


async def test_a_call_that_fails_in_a_way_that_nobody_foresaw_is_logged_with_its_tool() -> None:
    async def send(call: Call, begun: bool) -> Outcome:
        raise ZeroDivisionError

    tool = Tool("drop", "db.drop", "", {}, Binding("db.drop", Structure.BY_NAME))
    with capture_logs() as lines, pytest.raises(InternalError):
        await Call(ANONYMOUS, tool, {}, None, send).execute()
    assert [(line["event"], line["tool"]) for line in lines] == [("internal error", "drop")]
