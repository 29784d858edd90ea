"""A client of the older era that is asked a question, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tests.protocol.streams import Mark, Stream
from tests.protocol.talk import LEGACY, Answer, Client, legacy_headers

CAN_ASK = {"elicitation": {}}
ACCEPT = {"action": "accept", "content": {}}


async def session_of(
    client: Client, version: str = LEGACY[0], capabilities: Mapping[str, Any] = MappingProxyType(CAN_ASK)
) -> dict[str, str]:
    """The headers of a new session whose client has these capabilities."""
    return legacy_headers(version, await client.initialize(version, capabilities))


async def respond(client: Client, headers: dict[str, str], id: Any, **outcome: Any) -> Answer:
    answer = await client.mcp({"jsonrpc": "2.0", "id": id, **outcome}, headers)
    assert (answer.status, answer.body) == (202, b"")
    return answer


async def question_on(stream: Stream) -> Any:
    message = await stream.message()
    assert message["method"] == "elicitation/create"
    return message


async def result_of(stream: Stream) -> Any:
    """The result at the end of the stream, and no message before it."""
    message = await stream.message()
    assert await stream.event() is Mark.END
    return message["result"]


def text_of(result: Any) -> tuple[bool, str]:
    return result["isError"], result["content"][0]["text"]
