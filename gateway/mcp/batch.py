"""Answer JSON-RPC batches (JSON-RPC 2.0 §6), bounded in messages and in the size of the answers.

A call takes some hundred bytes, its answer up to ``backend.max_response``. The gateway holds all answers of a batch
until the last one is there. Therefore they share the bound of one answer: a small request must not fill the memory.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import structlog

from gateway import jsonrpc
from gateway.errors import BatchTooLarge
from gateway.jsonrpc import BadMessage, Id
from gateway.telemetry.request_log import RECORD
from gateway.units import format_size

MAX_BATCH: Final = 50

log = structlog.get_logger()


class BatchBudget:
    """Count the bytes that the results of one batch may have together."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._remaining = max_bytes

    def fit_response(self, id: Id, response: bytes) -> bytes:
        """Return ``response``, or an error to the request ``id`` where it does not fit. A later, smaller response may
        still fit."""
        if len(response) <= self._remaining:
            self._remaining -= len(response)
            return response
        log.warning("an answer does not fit into its batch", bytes=len(response), left=self._remaining)
        # The call cannot be undone, so the message says that it was made.
        error = BatchTooLarge(
            "The answer does not fit into the batch, whose answers share backend.max_response "
            f"({format_size(self._max_bytes)}). The call was made and may have taken effect. "
            "Send calls with large answers one by one, without a batch"
        )
        return jsonrpc.error_bytes(id, error)


async def answers_to(
    items: Sequence[Any], answer: Callable[[Any, BatchBudget], Awaitable[bytes | None]], max_response: int
) -> bytes | None:
    """Answer the messages of a batch one after the other. Return the JSON array of their responses, None without any.

    ``answer`` returns the response to one message, None for a notification; it passes results through the budget.
    Raise :class:`BadMessage` for too many messages or none, before the first is answered.
    """
    if not 0 < len(items) <= MAX_BATCH:
        raise BadMessage(f"Invalid request: a batch has 1 to {MAX_BATCH} messages")
    budget = BatchBudget(max_response)
    answers = []
    memory = RECORD.get().memory
    for item in items:
        before = memory.size
        if response := await answer(item, budget):
            answers.append(response)
        memory.shrink(before + len(response or b""))  # the value is gone, its JSON stays
    return b"[" + b",".join(answers) + b"]" if answers else None
