"""Many requests on one connection, sent without waiting (security.md H25; RFC 9112 §9.3.2)."""

from __future__ import annotations

import asyncio
import json

from tests.fault.behaviours import Exchange as Played
from tests.fault.behaviours import Honest
from tests.fault.scripted import ScriptedBackend
from tests.protocol.conftest import Start
from tests.protocol.watched import Watched
from tests.waiting import PATIENCE

REQUESTS = 1000
A_CALL_IN = 25
"""One request of so many is a call; the others ask what a tool is."""


class Counting:
    """An honest method that counts how many of its calls run at once."""

    def __init__(self) -> None:
        self.running = self.most = 0

    async def play(self, exchange: Played) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        await Honest().play(exchange)
        self.running -= 1


def sent(number: int) -> bytes:
    if number % A_CALL_IN:
        return b"GET /mcp/tools/describe?name=add&n=%d HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % number
    body = json.dumps({"name": "echo", "arguments": {"value": number}}).encode()
    head = "POST /mcp/tools/invoke HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def answered(reader: asyncio.StreamReader) -> dict[str, object]:
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    fields = dict(line.lower().split(b": ", 1) for line in head.splitlines()[1:] if line)
    answer: dict[str, object] = json.loads(await reader.readexactly(int(fields[b"content-length"])))
    return answer


async def test_a_thousand_pipelined_requests_are_answered_in_their_order_one_at_a_time(
    start: Start, backend: ScriptedBackend
) -> None:
    gateway = await start("limits.discovery=100000/minute")
    counting = Counting()
    backend.on("echo", counting)
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(b"".join(map(sent, range(REQUESTS))))
    async with asyncio.timeout(PATIENCE):
        answers = [await answered(reader) for _ in range(REQUESTS)]
    writer.close()
    calls = range(0, REQUESTS, A_CALL_IN)
    assert [answers[number] for number in calls] == [{"result": number} for number in calls]
    assert all(answers[number].keys() == {"tool"} for number in range(REQUESTS) if number % A_CALL_IN)
    assert [asked.params["value"] for asked in backend.requests if asked.method == "echo"] == [*calls]
    assert counting.most == 1


async def test_what_is_pipelined_behind_a_call_that_hangs_waits_and_is_not_run(
    start: Start, backend: ScriptedBackend
) -> None:
    """The client that goes away takes with it what it had sent ahead: none of it was begun."""
    gateway = await start()
    watched = Watched()
    backend.on("add", watched)
    body = json.dumps({"name": "add", "arguments": {"a": 2, "b": 3}}).encode()
    head = b"POST /mcp/tools/invoke HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    first = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    writer.write(first + b"".join(sent(number * A_CALL_IN) for number in range(5)))
    await watched.begun()
    assert [request.method for request in backend.requests] == ["add"]
    writer.transport.abort()
    assert await watched.over() == "abandoned"
    assert [request.method for request in backend.requests] == ["add"]
