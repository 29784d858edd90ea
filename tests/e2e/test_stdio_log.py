"""What the log says of a client on standard input and output."""

from __future__ import annotations

import json
from typing import Any

from structlog.testing import capture_logs

from gateway.cli.stdio import Conversation
from gateway.config.source import load_settings
from gateway.model import Caller
from tests.e2e.stdio_client import META
from tests.fault.scripted import ScriptedBackend
from tests.front import built, ground
from tests.waiting import PATIENCE


def call(params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


async def test_a_line_of_the_log_says_how_each_request_ended(backend: ScriptedBackend) -> None:
    service = await built(load_settings(None, ground(backend.url), environ={}).by_mount[""])

    async def caller() -> Caller:
        return Caller()

    async def send(line: bytes) -> None: ...

    conversation = Conversation(service.site.endpoint, caller, send, 1000)
    progress = {"_meta": {**META, "progressToken": "p"}}
    ended = []
    for params in (
        {"name": "add", "arguments": {"a": 2, "b": 3}, "_meta": META},
        {"name": "add", "arguments": {"a": 2, "b": 3}, **progress},
        {"name": "nothing", "arguments": {}, "_meta": META},
        {"name": "add", "arguments": {}, "_meta": META},
    ):
        with capture_logs() as lines:
            await conversation.receive(call(params))
            await conversation.finish(PATIENCE)
        ended += [line["outcome"] for line in lines if line["event"] == "request"]
    await conversation.close()
    await service.close()
    assert ended == ["ok", "ok", "tool_not_found", "invalid_arguments"]
