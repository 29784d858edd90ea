"""MCP over standard input and output, for one client (2025-11-25, basic/transports "stdio"; 2026-07-28, the same page).

A line is one message. ``notifications/cancelled`` cancels a request, which then gets no response; sent by the gateway,
after the result, it ends ``subscriptions/listen``. This connection is the session of the older era, whose notifications
follow ``notifications/initialized``.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final

import structlog
from multidict import CIMultiDict

from gateway import jsonrpc
from gateway.errors import GatewayError, ParseError, RateLimited, SessionNotFound, TooLarge
from gateway.jsonrpc import Id
from gateway.mcp.endpoint import Endpoint
from gateway.mcp.messages import EVENT_STREAM, SESSION, McpReply, McpRequest, McpStreamReply
from gateway.model import Caller
from gateway.telemetry import record as records
from gateway.telemetry.logs import to_gateway_error
from gateway.telemetry.record import CANCELLED, CLIENT_CLOSED, RECORD, Record

MAX_UNDER_WAY: Final = 128
"""Maximum number of requests of the client at a time, its subscriptions among them."""
_AT_ONCE: Final = ("initialize", "ping")
"""Requests without a wait. Messages after the first belong to its session; the second does not count."""
_LINE_ENDS: Final = bytes.maketrans(b"\r\n", b"  ")

log = structlog.get_logger()


@dataclass(eq=False)
class Conversation:
    """Answer one client's messages. ``caller`` returns the caller of each message, since a token expires; ``write``
    writes one line, and raises :class:`ConnectionError` once the client has stopped reading."""

    _endpoint: Endpoint
    _caller: Callable[[], Awaitable[Caller]]
    _write: Callable[[bytes], Awaitable[None]]
    _longest: int

    def __post_init__(self) -> None:
        self._requests: dict[asyncio.Task[None], Id | None] = {}
        self._notices: asyncio.Task[None] | None = None
        self._initialize: dict[str, Any] | None = None
        self._session: str | None = None

    async def receive(self, line: bytes | None) -> None:
        """Read one line; None stands for one that was too long. The response to a request follows later."""
        if line is not None and not line.strip():
            return
        try:
            if line is None:
                raise TooLarge(f"The line is longer than {self._longest} bytes; server.max_body sets the limit")
            value = jsonrpc.decode_strictly(line)
        except GatewayError as error:
            if isinstance(error, ParseError):
                error = ParseError(f"{error.message}; each line must be one whole JSON-RPC message")
            await self._send(jsonrpc.error_bytes(None, error))
            return
        method = value.get("method") if isinstance(value, dict) else None
        if isinstance(value, dict) and "id" not in value and isinstance(method, str):
            await self._receive_notification(method, value)
        elif method in _AT_ONCE:
            await self._answer(value, _id_of(value))
        else:
            await self._start(value)

    async def finish(self, seconds: float) -> None:
        """Return when all requests have their responses, at the latest after so many seconds."""
        if self._requests:
            await asyncio.wait(self._requests, timeout=seconds)

    async def close(self) -> None:
        tasks = {*self._requests, *((self._notices,) if self._notices else ())}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _start(self, value: Any) -> None:
        id = _id_of(value)
        if len(self._requests) >= MAX_UNDER_WAY:
            error = RateLimited(f"Too many requests under way, at most {MAX_UNDER_WAY}")
            await self._send(jsonrpc.error_bytes(id, error))
            return
        task = asyncio.create_task(self._answer(value, id))
        self._requests[task] = id
        task.add_done_callback(self._requests.pop)

    async def _receive_notification(self, method: str, value: dict[str, Any]) -> None:
        try:
            await self._ask(value)
        except Exception as error:  # noqa: BLE001, what is wrong with it is logged
            to_gateway_error(error, method=method)
        params = value.get("params")
        if method == "notifications/cancelled" and isinstance(params, dict):
            id = _id_of(params, "requestId")
            for task, its_id in self._requests.items():
                if id is not None and its_id == id:
                    task.cancel()
        elif method == "notifications/initialized" and self._session is not None and self._notices is None:
            self._notices = asyncio.create_task(self._send_notices())

    async def _answer(self, value: Any, id: Id | None) -> None:
        """Answer one request or batch, and log it."""
        record = Record(records.new_id(), surface="stdio", started=time.perf_counter())
        RECORD.set(record)
        try:
            reply = await self._ask(value)
            if isinstance(reply, McpReply) and reply.error is not None:
                record.note_error(reply.error)
            if isinstance(reply, McpStreamReply):
                await self._send_stream(reply, id)
            elif reply.body:
                await self._send(reply.body)
        except ConnectionError:
            record.note_outcome(CLIENT_CLOSED)
        except asyncio.CancelledError:
            record.note_outcome(CANCELLED)
            raise
        except Exception as error:  # noqa: BLE001, the client gets an answer to every failure
            failure = to_gateway_error(error)
            record.note_error(failure)
            with suppress(ConnectionError):
                await self._send(jsonrpc.error_bytes(id, failure))
        finally:
            records.end(record)

    async def _ask(self, value: Any) -> McpReply | McpStreamReply:
        caller = await self._caller()
        reply = await self._endpoint.answer(self._request(caller), value)
        if isinstance(reply, McpReply) and isinstance(reply.error, SessionNotFound) and self._initialize is not None:
            # A session is good for a day, and for one subject. This connection may last longer, and its token change.
            self._keep_session(await self._endpoint.answer(self._request(caller), self._initialize), self._initialize)
            if self._notices is not None:
                self._notices.cancel()
                self._notices = asyncio.create_task(self._send_notices())
            reply = await self._endpoint.answer(self._request(caller), value)
        elif isinstance(value, dict) and value.get("method") == "initialize":
            self._keep_session(reply, value)
        if self._notices is not None and self._notices.done():  # it was refused, or its token had expired
            self._notices = asyncio.create_task(self._send_notices())
        return reply

    def _keep_session(self, reply: McpReply | McpStreamReply, initialize: dict[str, Any]) -> None:
        if SESSION in reply.headers:
            self._session, self._initialize = reply.headers[SESSION], initialize

    def _request(self, caller: Caller) -> McpRequest:
        headers = CIMultiDict({"Accept": EVENT_STREAM})
        if self._session is not None:
            headers[SESSION] = self._session
        return McpRequest(headers, caller, repeats_body=False)

    async def _send_notices(self) -> None:
        """Send the older era's notifications that belong to no request."""
        try:
            stream = await self._endpoint.legacy.open_stream(self._request(await self._caller()))
            await self._send_stream(stream, None)
        except ConnectionError:
            return
        except Exception as error:  # noqa: BLE001, there is no request to answer
            failure = to_gateway_error(error)
            log.warning("no notifications of changed tools", reason=failure.message)

    async def _send_stream(self, reply: McpStreamReply, id: Id | None) -> None:
        async with aclosing(reply.events) as events:
            async for message in events:
                if message is not None:  # a keep-alive: a pipe needs none
                    await self._send(message)
        if reply.notices and id is not None:
            await self._send(jsonrpc.request_bytes(None, "notifications/cancelled", {"requestId": id}))

    async def _send(self, message: bytes) -> None:
        # Outside of its strings JSON may have line ends, inside it has none: a service may write its results so.
        await self._write(message.translate(_LINE_ENDS))


def _id_of(value: Any, member: str = "id") -> Id | None:
    """Return the id in a message, None where it has none that MCP allows."""
    id = value.get(member) if isinstance(value, dict) else None
    return id if type(id) is str or type(id) is int else None
