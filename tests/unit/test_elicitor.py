"""How long a person has to answer a question, on a clock that a test moves."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.errors import InputRequired
from gateway.invocation.input_requests import WAIT
from gateway.jsonrpc import ClientResponse
from gateway.mcp.elicitation import Elicitor, PendingElicitations
from tests.clock import Clock, by_hand

FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
QUESTION = {"method": "elicitation/create", "params": FORM}
ACCEPT = {"action": "accept", "content": {}}


def sent(elicitor: Elicitor) -> list[Any]:
    """What the stream has got until now."""
    messages = []
    while not elicitor.outbox.empty():
        message = elicitor.outbox.get_nowait()
        assert message is not None
        messages.append(json.loads(message))
    return messages


@by_hand
async def test_a_person_has_five_minutes_for_all_questions_of_a_round(clock: Clock) -> None:
    pending = PendingElicitations()
    elicitor = Elicitor(pending, "session")
    asking = asyncio.create_task(elicitor.ask({"a": QUESTION, "b": QUESTION}))
    await clock.settles()
    (first,) = sent(elicitor)
    await clock.moves_on(WAIT - 1)
    pending.answer("session", ClientResponse(first["id"], ACCEPT))
    await clock.settles()
    (second,) = sent(elicitor)
    assert not asking.done()
    await clock.moves_on(2)
    with pytest.raises(InputRequired, match="did not answer within 5 minutes"):
        await asking
    (withdrawn,) = sent(elicitor)
    assert (withdrawn["method"], withdrawn["params"]["requestId"]) == ("notifications/cancelled", second["id"])
    assert repr(pending) == "<PendingElicitations: 0 wait>"


@by_hand
async def test_an_answer_that_comes_late_is_not_heard(clock: Clock) -> None:
    pending = PendingElicitations()
    elicitor = Elicitor(pending, "session")
    asking = asyncio.create_task(elicitor.ask({"a": QUESTION}))
    await clock.settles()
    (question,) = sent(elicitor)
    await clock.moves_on(WAIT + 1)
    pending.answer("session", ClientResponse(question["id"], ACCEPT))
    with pytest.raises(InputRequired):
        await asking


@by_hand
async def test_an_answer_in_the_same_turn_as_the_end_of_the_stream_breaks_nothing(clock: Clock) -> None:
    pending = PendingElicitations()
    elicitor = Elicitor(pending, "session")
    asking = asyncio.create_task(elicitor.ask({"a": QUESTION}))
    await clock.settles()
    (question,) = sent(elicitor)
    pending.answer("session", ClientResponse(question["id"], ACCEPT))
    pending.answer("session", ClientResponse(question["id"], ACCEPT))
    elicitor.close()
    assert await asking == {"a": ACCEPT}
    with pytest.raises(InputRequired, match="is closed"):
        await elicitor.ask({"a": QUESTION})
