"""Serve the connections of a port: slow clients, malformed HTTP, half-closed clients, and the shutdown.

What a client can cost is bounded: the time for a head (:data:`HEAD_TIMEOUT`) and for a body
(:data:`gateway.web.site.BODY_TIMEOUT`), and the time to take an answer, or what a stream has sent (``write_timeout``).

aiohttp's low-level server has no settings for some of this, so it gets our own connections. They override public
methods of :class:`aiohttp.web.RequestHandler`: ``handle_error``, ``shutdown`` and those of :class:`asyncio.Protocol`.
The request factory is a public argument of :class:`aiohttp.web.Server`, the methods of our writer are those of
:class:`aiohttp.abc.AbstractStreamWriter`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from aiohttp import web
from aiohttp.http import HttpVersion11, RawRequestMessage, StreamWriter
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader
from multidict import CIMultiDict

from gateway.errors import ExpectationFailed, GatewayError, InternalError, MalformedHttp, RequestTimeout
from gateway.limits import rate_limit_key
from gateway.mcp.messages import EVENT_STREAM
from gateway.model import Caller
from gateway.web.accepting import Acceptor, bind
from gateway.web.answer import COMMON_HEADERS, LARGE, JsonAnswer
from gateway.web.connection_limit import ConnectionLimit
from gateway.web.exchange import MCP, raw_response
from gateway.web.framing import BadFraming, check_framing, parser_fault
from gateway.web.held_answers import HeldAnswers
from gateway.web.slow_clients import HEAD_TIMEOUT, MAX_AHEAD, MAX_HEAD, HeadDeadline, UntakenAnswer

_KEEPALIVE: Final = 75.0  # seconds after which an idle connection is closed
_NO_WAIT: Final = 0.001  # aiohttp takes 0 for "no limit"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LATE_HEAD: Final = RequestTimeout(f"The head of the request did not arrive within {HEAD_TIMEOUT:g} s")
_LARGE_HEAD: Final = MalformedHttp(f"The head of the request is larger than {MAX_HEAD // 1024} KiB")
_UNEXPECTED: Final = ExpectationFailed("Expect must be 100-continue")
_FIRST_PROBE, _NEXT_PROBE = 0.5, 0.1  # seconds after the client's end of input; from then on, doubled each time


class Handler(Protocol):
    """Answer the requests of a port."""

    async def __call__(self, request: web.BaseRequest, /) -> web.StreamResponse: ...

    def refusal(self, request: web.BaseRequest, error: GatewayError) -> JsonAnswer:
        """Return the answer to a request that did not reach the handler, or that made it raise."""
        ...


class Writer(StreamWriter):
    """Write one answer, as aiohttp does, and add the headers that every answer has, also aiohttp's own answers. Each
    write returns once the kernel has all of it. ``caller`` is whose answer it is, once that is known."""

    def __init__(self, connection: Connection, message: RawRequestMessage, body: StreamReader) -> None:
        super().__init__(connection, connection.loop)
        self.connection = connection
        self.body = body
        self.caller: Caller | None = None
        self.next_has_begun = False
        self.takes_interim = message.version >= HttpVersion11
        self.is_stream = False
        self.is_complete = False

    async def write_headers(self, status_line: str, headers: CIMultiDict[str]) -> None:
        headers["Server"] = COMMON_HEADERS["Server"]
        for name, value in COMMON_HEADERS.items():
            headers.setdefault(name, value)
        if self.connection.server.is_draining:
            headers["Connection"] = "close"
            self.connection.close()  # after this answer
        self.is_stream = headers.get("Content-Type") == EVENT_STREAM
        if not status_line.startswith("HTTP/1."):  # aiohttp repeats the request's version
            status_line = f"HTTP/1.1{status_line[len('HTTP/1.1') :]}"
        await super().write_headers(status_line, headers)

    async def write(self, chunk: Any, *, drain: bool = True, LIMIT: int = 0) -> None:  # noqa: N803, aiohttp's name
        """Write a part. aiohttp would let 64 KiB of events gather for a client that does not read."""
        await super().write(chunk, drain=False)
        await self.drain()

    async def write_eof(self, chunk: bytes = b"") -> None:
        if len(chunk) > LARGE:
            self.send_headers()
        await super().write_eof(chunk)
        self.is_complete = True
        if self.next_has_begun:
            self.connection.await_head()


class Connection(web.RequestHandler):
    """Serve one connection of a client. ``answer`` belongs to the latest request; it exists once its head is read."""

    answer: Writer | None = None

    def __init__(self, server: _Server, on_lost: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=_KEEPALIVE,
            access_log=None,  # type: ignore[arg-type]
            auto_decompress=False,  # it would unpack the whole body of a refused request, too
        )
        self.server = server
        self.loop = loop
        self.held = server.held
        self._on_lost = on_lost
        self._refusal = server.handler.refusal
        self._head = HeadDeadline(lambda: self._end_head(_LATE_HEAD))
        self._ahead = 0  # bytes since the latest request
        self._has_sent = self._is_refused = False
        self._is_reading_paused = False
        self._untaken = UntakenAnswer(server.held, server.write_timeout)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._socket = cast(asyncio.Transport, transport)  # self.transport is None while the last bytes go out
        self._socket.set_write_buffer_limits(high=0)  # pause_writing() is called for each byte that has to wait
        self.await_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._head.close()
        self._untaken.end()
        super().connection_lost(exc)
        self._on_lost()

    def data_received(self, data: bytes) -> None:
        if self._is_refused:  # what follows a malformed request is not read
            return
        answer = self.answer
        is_head = answer is None or answer.body.is_eof()
        super().data_received(data)
        if not is_head or not data:
            return
        self._has_sent = True
        if answer is None or answer.is_complete:
            self.await_head()
        else:
            answer.next_has_begun = True
        self._ahead += len(data)
        if self._ahead > MAX_HEAD:
            self.loop.call_soon(self._bound_ahead)  # a request that is complete has begun by then

    def await_head(self) -> None:
        """Give the head of the next request its time, if that has not begun."""
        if self._head.since is None:
            self._head.since = self.loop.time()
        if not self._head.has_timer:
            self._head.start_timer()

    def begin_answer(self, answer: Writer) -> None:
        """Note that the head of a request is here."""
        self.answer = answer
        self._head.since = None
        self._ahead = 0

    def pause_reading(self) -> None:
        self._is_reading_paused = True
        super().pause_reading()

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Resume what was paused. aiohttp asks for this after each body that was read, and parses nothing once more."""
        if self._is_reading_paused:
            self._is_reading_paused = False
            super().resume_reading(resume_parser)

    def pause_writing(self) -> None:
        super().pause_writing()
        caller = None if self.answer is None else self.answer.caller
        self._untaken.begin("" if caller is None else rate_limit_key(caller), self._socket)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._untaken.end()

    def _bound_ahead(self) -> None:
        """End a head that is too large. Of requests that were sent too far ahead, none is answered."""
        if self._head.since is not None and self._ahead > MAX_HEAD:
            self._end_head(_LARGE_HEAD)
        elif self._ahead > MAX_AHEAD:
            self.close()

    def _end_head(self, error: GatewayError) -> None:
        """Close the connection, with an answer where a request has begun: who sends nothing asked nothing."""
        if self._has_sent and self.transport is not None and not self._is_refused:
            self.transport.write(raw_response(MCP.error_bytes(error, None), error))
        self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a request that reached no handler or made it raise: JSON that repeats nothing of the request. Then
        close the connection. Raise :class:`ConnectionError` where an answer has begun.
        """
        super().handle_error(request, status, exc)  # writes the log line
        self._is_refused = True
        if isinstance(exc, BadFraming):
            response = self._refusal(request, MalformedHttp(exc.message))
        elif isinstance(exc, HttpProcessingError):  # the parser's: the path is unknown, so MCP's form of errors
            error = MalformedHttp(parser_fault(exc))
            response = JsonAnswer(MCP.error_bytes(error, None), error.status)
        else:
            response = self._refusal(request, InternalError())
        response.force_close()
        return response

    async def shutdown(self, timeout: float | None = 15.0) -> None:
        """Give the running request ``timeout`` seconds to finish, then close. aiohttp alone waits twice as long."""
        try:
            async with asyncio.timeout(timeout):
                await super().shutdown(None)
        except TimeoutError:
            await super().shutdown(_NO_WAIT)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection open for writing: a client that sends no more may still wait for its answer.

        Of several pipelined requests only the running one is answered (RFC 9112 §9.3.2: clients may repeat the others).
        """
        self.close()
        # Later in the loop: a request that arrived together with the end of input has been started by then.
        self.loop.call_soon(self._after_eof)
        return True

    def _after_eof(self) -> None:
        answer = self.answer
        if self.transport is None:
            return
        if answer is None or answer.is_complete or answer.is_stream or not answer.body.is_eof():
            self.transport.close()
        elif answer.takes_interim:
            self.loop.call_later(_FIRST_PROBE, self._probe, answer, _NEXT_PROBE)

    def _probe(self, answer: Writer, wait: float) -> None:
        """Find out whether the client still listens: a closed socket answers data with a reset, which ends the call.

        The data is an interim response, which every HTTP/1.1 client must accept (RFC 9110 §15.2). A second one is sent
        because the reset shows only at the next write.
        """
        if self.transport is None or answer.is_complete:
            return
        if answer.is_stream:
            self.transport.close()
        elif answer.output_size == 0:
            self.transport.write(_CONTINUE)
            self.loop.call_later(wait, self._probe, answer, 2 * wait)


async def ask_for_body(request: web.BaseRequest) -> None:
    """Send 100 Continue where the client holds its body back until it is asked (RFC 9110 §10.1.1).

    Call it once the head is accepted: who is refused keeps its body.
    """
    if request.version >= HttpVersion11 and "Expect" in request.headers:
        await request.writer.write(_CONTINUE)
        request.writer.output_size = 0  # the answer has not begun


class _Server(web.Server):
    """Make our connections where aiohttp would make its own."""

    def __init__(self, handler: Handler, write_timeout: float, held: HeldAnswers) -> None:
        super().__init__(self._handle, request_factory=self._request, handler_cancellation=True)
        self.handler = handler
        self.is_draining = False
        self.write_timeout = write_timeout
        self.held = held

    def connection(self, on_lost: Callable[[], None]) -> Connection:
        return Connection(self, on_lost)

    def _request(
        self, message: RawRequestMessage, body: StreamReader, connection: Any, _: object, task: asyncio.Task[None]
    ) -> web.BaseRequest:
        answer = Writer(connection, message, body)
        connection.begin_answer(answer)
        return web.BaseRequest(message, body, connection, answer, task, connection.loop)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        check_framing(request)
        expected = "" if request.version < HttpVersion11 else request.headers.get("Expect", "")
        if expected and expected.lower() != "100-continue":
            response: web.StreamResponse = self.handler.refusal(request, _UNEXPECTED)
        else:
            response = await self.handler(request)
            if expected and not request.content.is_eof():
                response.force_close()  # nobody can tell whether the body still comes
        if self.is_draining:
            response.force_close()
        return response


@dataclass(frozen=True)
class Port:
    """An open port. ``number`` is the bound one, also where port 0 was asked for."""

    number: int
    _server: _Server
    _acceptor: Acceptor
    _shutdown_timeout: float

    def drain(self) -> None:
        """Serve on, but close each connection after its next answer, which says so (RFC 9112 §9.6)."""
        self._server.is_draining = True

    async def close(self) -> None:
        """Accept no more connections, and end the open ones as :meth:`Connection.shutdown` does."""
        self.drain()
        await self._acceptor.close()
        await asyncio.sleep(0)  # lets requests that have arrived start
        self._server.pre_shutdown()
        await self._server.shutdown(self._shutdown_timeout)


@dataclass(frozen=True)
class Bounds:
    """What the clients of a port may cost. ``shutdown_timeout`` and ``write_timeout`` are seconds, ``spare`` the
    descriptors that the port keeps for itself."""

    shutdown_timeout: float
    write_timeout: float
    limit: ConnectionLimit
    held: HeldAnswers
    spare: int = 0


async def listen(handler: Handler, host: str, port: int, bounds: Bounds) -> Port:
    """Open a port and serve it, as :func:`listen_on` does. Raise :class:`OSError` where it cannot be bound."""
    return listen_on(await bind(host, port), handler, bounds)


def listen_on(sockets: Sequence[socket.socket], handler: Handler, bounds: Bounds) -> Port:
    """Serve the port of bound sockets. After :meth:`Port.close`, running requests have ``shutdown_timeout`` seconds."""
    server = _Server(handler, bounds.write_timeout, bounds.held)
    acceptor = Acceptor(sockets, server.connection, bounds.limit, bounds.spare)
    return Port(acceptor.port, server, acceptor, bounds.shutdown_timeout)
