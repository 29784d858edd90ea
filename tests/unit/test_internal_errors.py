"""What nobody foresaw is logged once and tells callers nothing; what can be answered passes as it is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.auth.access import Access
from gateway.errors import InternalError, UnknownTool
from gateway.invocation.invocation import Invocation
from gateway.limits import CallBudget, ConcurrencyLimit
from gateway.model import ANONYMOUS, Binding, NameStyle, Outcome, Structure, Tool
from gateway.schema.validation import ValidatorCache
from gateway.settings.auth import Auth
from gateway.store.memory import MemoryStore
from gateway.telemetry.logs import to_gateway_error

TOOL = Tool("drop", "db.drop", "", {}, Binding("db.drop", Structure.BY_NAME))


async def call_that_raises(error: BaseException, cause: BaseException | None = None) -> Outcome:
    """Call a tool whose call ends in ``error`` on its way to the service."""

    class Parts:
        def find_fresh_tool(self, *_: object) -> Tool:
            return TOOL

        async def forward(self, *_: object, **__: object) -> None:
            raise error from cause

    parts: Any = Parts()
    invocation = Invocation(
        discovery=parts,
        validators=ValidatorCache(),
        input_requests=parts,
        access=Access(Auth(mode="off"), per_caller=False),
        budget=CallBudget(MemoryStore(), "10/minute"),
        listings=parts,
        concurrency=ConcurrencyLimit(),
        builtin={},
        name_style=NameStyle.MCP,
    )
    invocation.forwarder = parts
    call = await invocation.prepare(ANONYMOUS, "drop", {})
    return await call.execute()


def test_an_error_that_nobody_foresaw_is_logged_with_its_traceback_and_answered_as_an_internal_error() -> None:
    failure = ZeroDivisionError("a secret")
    with capture_logs() as lines:
        answer = to_gateway_error(failure, path="/mcp", method="db.drop")
    assert lines == [
        {"event": "internal error", "log_level": "error", "exc_info": failure, "path": "/mcp", "method": "db.drop"}
    ]
    assert isinstance(answer, InternalError)
    assert "a secret" not in answer.message


def test_an_error_of_the_table_is_answered_as_it_is_and_not_logged() -> None:
    error = UnknownTool("Unknown tool: x")
    with capture_logs() as lines:
        assert to_gateway_error(error) is error
    assert lines == []


async def test_what_nobody_foresaw_is_logged_with_the_tool_and_raised_as_an_internal_error() -> None:
    with capture_logs() as lines, pytest.raises(InternalError) as caught:
        await call_that_raises(ZeroDivisionError("a secret"))
    (line,) = lines
    assert (line["event"], line["log_level"], line["tool"]) == ("internal error", "error", "drop")
    assert line["exc_info"]
    assert "a secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


async def test_an_error_that_can_be_answered_passes_with_its_cause_and_is_not_logged() -> None:
    cause = ZeroDivisionError()
    with capture_logs() as lines, pytest.raises(UnknownTool) as caught:
        await call_that_raises(UnknownTool("Unknown tool: x"), cause)
    assert lines == []
    assert caught.value.__cause__ is cause


async def test_an_end_that_is_asked_for_is_no_error() -> None:
    with capture_logs() as lines, pytest.raises(asyncio.CancelledError):
        await call_that_raises(asyncio.CancelledError())
    assert lines == []
