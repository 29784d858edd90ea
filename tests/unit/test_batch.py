"""A batch of JSON-RPC (JSON-RPC 2.0 §6) is answered message by message, in order, within the room of one answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway import jsonrpc
from gateway.errors import BackendError, ServiceError, UnknownTool
from gateway.jsonrpc import BadMessage
from gateway.mcp.messages import MAX_BATCH, answers_to
from gateway.telemetry.record import RECORD
from tests.each import each

REQUEST: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "m"}


async def echo(item: Any) -> bytes | None:
    """Answer a request with its own method; notifications have no answer."""
    RECORD.get().rpc_id = item.get("id")
    return jsonrpc.response_bytes(item["id"], item["method"]) if "id" in item else None


async def test_the_answers_are_one_array_in_the_order_of_the_messages_without_notifications() -> None:
    items = [REQUEST, {"jsonrpc": "2.0", "method": "n"}, REQUEST | {"id": "b", "method": "o"}]
    answers = json.loads(await answers_to(items, echo, 1000) or b"null")
    assert [(answer["id"], answer["result"]) for answer in answers] == [(1, "m"), ("b", "o")]


async def test_a_batch_of_notifications_has_no_answer() -> None:
    assert await answers_to([{"jsonrpc": "2.0", "method": "n"}] * 3, echo, 1000) is None


async def test_an_answer_that_does_not_fit_any_more_is_an_error_and_a_smaller_one_after_it_fits() -> None:
    items = [REQUEST | {"id": id, "method": "m" * size} for id, size in enumerate((500, 500, 10))]
    answers = json.loads(await answers_to(items, echo, 700) or b"null")
    assert ["error" in answer for answer in answers] == [False, True, False]


async def test_what_is_left_is_counted_to_the_byte_and_an_error_takes_nothing_of_it() -> None:
    size, failed = len(jsonrpc.response_bytes(1, "m" * 60)), jsonrpc.error_bytes("late", UnknownTool("no"))

    async def answer(item: Any) -> bytes | None:
        if item["id"] == "late":
            RECORD.get().note_error(UnknownTool("no"))
            return failed
        return await echo(item)

    async def passed(_: Any) -> bytes:
        error = BackendError("no")
        error.service_error = ServiceError(0, "no")
        RECORD.get().note_error(error)
        return failed

    assert await answers_to([REQUEST], passed, 1) == b"[%b]" % failed  # also where the service's own code is 0
    items = [
        REQUEST | {"id": id, "method": "m" * count} for id, count in ((1, 60), (2, 21), ("late", 0), (3, 20), (4, 0))
    ]
    answers = json.loads(await answers_to(items, answer, 2 * size - 40) or b"null")
    assert [answer["id"] for answer in answers] == [1, 2, "late", 3, 4]
    assert [answer.get("error", {}).get("code") for answer in answers] == [None, 413, UnknownTool.code, None, 413]


@each("count", [0, MAX_BATCH + 1])
async def test_a_batch_of_no_or_too_many_messages_is_refused_before_anything_is_answered(count: int) -> None:
    answered = []

    async def answer(item: Any) -> bytes | None:
        answered.append(item)
        return None

    with pytest.raises(BadMessage, match=f"a batch has 1 to {MAX_BATCH} messages"):
        await answers_to([REQUEST] * count, answer, 1000)
    assert answered == []
