"""How ``stdio`` ends: with its input, whatever still runs; and what it answers that is no single message."""

from __future__ import annotations

from tests.clients.backend import Backend
from tests.e2e.stdio_client import META, connected
from tests.e2e.test_stdio import ERAS, backend, happens

__all__ = ["backend"]


@ERAS
async def test_a_call_that_runs_when_the_input_ends_is_cancelled_soon(backend: Backend, modern: bool) -> None:
    async with connected(backend.url, "server.shutdown_timeout=10m", "backend.timeout=10m") as client:
        meta = {"_meta": META} if modern else {}
        await client.request("tools/call", {"name": "slow", "arguments": {"token": "t"}, **meta})
        await happens(backend.call("t").started)
        client.writer.close()
        await happens(backend.call("t").stopped)
        await client.rest()
        assert not any("result" in message for message in client.received)


async def test_a_batch_of_modern_messages_gets_one_error_and_no_array(backend: Backend) -> None:
    """2026-07-28, basic/transports/stdio: a message is one request, notification or response."""
    async with connected(backend.url) as client:
        item = {"jsonrpc": "2.0", "method": "tools/list", "params": {"_meta": META}}
        await client.send([item | {"id": 1}, item | {"id": 2}], [{"jsonrpc": "2.0", "id": 3, "method": "ping"}])
        first = await client.message(lambda message: isinstance(message, list) or "error" in message)
        assert first["error"] == {
            "code": -32600,
            "message": "Invalid request: a batch, one JSON-RPC message is expected",
        }
        older = await client.message(lambda message: isinstance(message, list))
        assert [answer["id"] for answer in older] == [3], "2025-03-26 has batches"
