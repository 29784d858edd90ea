"""JSON-RPC batches (JSON-RPC 2.0 §6): how many messages they have, and how much their answers come to.

A call takes some hundred bytes, its answer up to ``backend.max_response``. All answers of a batch wait for the last
one, so that they share the bound of one: a small request must not make the gateway hold fifty large answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import structlog

from gateway import jsonrpc
from gateway.errors import BatchTooLarge
from gateway.jsonrpc import BadMessage, Id
from gateway.units import format_size

MAX_BATCH: Final = 50

log = structlog.get_logger()


class BatchBudget:
    """The bytes that the results of one batch may have together."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = most

    def fit_response(self, id: Id, response: bytes) -> bytes:
        """The response to the request ``id``, or an error in its place where it does not fit any more. Later ones may
        be smaller, and fit."""
        if len(response) <= self._left:
            self._left -= len(response)
            return response
        log.warning("an answer does not fit into its batch", bytes=len(response), left=self._left)
        error = BatchTooLarge(
            "The answer does not fit into the batch, whose answers share backend.max_response "
            f"({format_size(self._most)}). The call was made and may have taken effect. "
            "Send calls with large answers one by one, without a batch"
        )
        return jsonrpc.error_bytes(id, error)


async def answers_to(
    items: Sequence[Any], answer: Callable[[Any, BatchBudget], Awaitable[bytes | None]], max_response: int
) -> bytes | None:
    """Answer the messages of a batch one after the other, and return the JSON array of their answers; None where no
    message has one. ``answer`` gives the response to a message, with a result that fits into the room, or nothing.

    Raises :class:`BadMessage` for too many messages or none, before anything is answered.
    """
    if not 0 < len(items) <= MAX_BATCH:
        raise BadMessage(f"Invalid request: a batch has 1 to {MAX_BATCH} messages")
    room = BatchBudget(max_response)
    answers = [response for item in items if (response := await answer(item, room))]
    return b"[" + b",".join(answers) + b"]" if answers else None
