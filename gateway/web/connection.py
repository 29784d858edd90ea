"""Listen on a port: connections, malformed HTTP, half-closed clients, and the shutdown.

aiohttp's low-level server has no settings for some of this, so it gets our own connections, which override its public
methods:
``handle_error``, ``shutdown`` and ``eof_received`` of :class:`aiohttp.web.RequestHandler`. The request factory is a
public argument of :class:`aiohttp.web.Server`, ``write_headers`` and ``write_eof`` are methods of
:class:`aiohttp.abc.AbstractStreamWriter`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final, Protocol

from aiohttp import web
from aiohttp.http import HttpVersion10, HttpVersion11, RawRequestMessage, StreamWriter
from aiohttp.http_exceptions import BadHttpMessage, HttpProcessingError, LineTooLong
from aiohttp.streams import StreamReader
from multidict import CIMultiDict

from gateway.errors import ExpectationFailed, GatewayError, InternalError, MalformedHttp
from gateway.mcp.messages import EVENT_STREAM
from gateway.web.exchange import MCP, json_response

_KEEPALIVE: Final = 75.0  # seconds after which an idle connection is closed
_BACKLOG: Final = 1024
_NO_WAIT: Final = 0.001  # aiohttp takes 0 for "no limit"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_FIRST_PROBE: Final = 0.5  # seconds after the client's end of input
_NEXT_PROBE: Final = 0.1  # doubled each time


class Handler(Protocol):
    """Answer the requests of a port."""

    async def __call__(self, request: web.BaseRequest, /) -> web.StreamResponse: ...

    def refusal(self, request: web.BaseRequest, error: GatewayError) -> web.Response:
        """Return the answer to a request that did not reach the handler, or that made it raise."""
        ...


class _BadFraming(BadHttpMessage):
    """Raised for a request that can be read in two ways (request smuggling), or whose HTTP version is not served."""


class Writer(StreamWriter):
    """Write one answer, as aiohttp does, and add the headers that every answer has, also aiohttp's own answers."""

    def __init__(self, connection: Connection, message: RawRequestMessage, body: StreamReader) -> None:
        super().__init__(connection, asyncio.get_running_loop())
        self.body = body
        self.takes_interim = message.version >= HttpVersion11
        self.is_stream = False
        self.is_complete = False

    async def write_headers(self, status_line: str, headers: CIMultiDict[str]) -> None:
        headers["Server"] = "gateway"  # aiohttp's own names its version and Python's
        headers.setdefault("Cache-Control", "no-store")
        headers.setdefault("X-Content-Type-Options", "nosniff")
        self.is_stream = headers.get("Content-Type") == EVENT_STREAM
        if not status_line.startswith("HTTP/1."):  # aiohttp repeats the request's version
            status_line = f"HTTP/1.1{status_line[len('HTTP/1.1') :]}"
        await super().write_headers(status_line, headers)

    async def write_eof(self, chunk: bytes = b"") -> None:
        await super().write_eof(chunk)
        self.is_complete = True


class Connection(web.RequestHandler):
    """Serve one connection of a client. ``answer`` belongs to the latest request; it exists once its head is read."""

    answer: Writer | None = None

    def __init__(self, server: _Server) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=_KEEPALIVE,
            access_log=None,  # type: ignore[arg-type]
            auto_decompress=False,  # it would unpack the whole body of a refused request, too
        )
        self._refusal = server.handler.refusal

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
        if isinstance(exc, _BadFraming):
            response = self._refusal(request, MalformedHttp(exc.message))
        elif isinstance(exc, HttpProcessingError):  # the parser's: the path is unknown, so MCP's form of errors
            error = MalformedHttp(_parser_fault(exc))
            response = json_response(MCP.error_bytes(error, None), error.status)
        else:
            response = self._refusal(request, InternalError())
        response.headers["Connection"] = "close"
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
        asyncio.get_running_loop().call_soon(self._after_eof)
        return True

    def _after_eof(self) -> None:
        answer = self.answer
        if self.transport is None:
            return
        if answer is None or answer.is_complete or answer.is_stream or not answer.body.is_eof():
            self.transport.close()
        elif answer.takes_interim:
            asyncio.get_running_loop().call_later(_FIRST_PROBE, self._probe, answer, _NEXT_PROBE)

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
            asyncio.get_running_loop().call_later(wait, self._probe, answer, 2 * wait)


def _parser_fault(error: HttpProcessingError) -> str:
    if isinstance(error, LineTooLong):
        return "The request line or a header is too long"
    return "The request is not HTTP/1.1 (RFC 9112)"


def _check_framing(request: web.BaseRequest) -> None:
    """Raise :class:`_BadFraming` for a request whose end a proxy in front may have seen elsewhere (request smuggling).

    RFC 9112 §6.1: a server treats Transfer-Encoding with HTTP/1.0 as faulty framing.
    """
    if request.version not in (HttpVersion10, HttpVersion11):
        raise _BadFraming(message="Only HTTP/1.1 and HTTP/1.0 are served")
    if request.version == HttpVersion10 and "Transfer-Encoding" in request.headers:
        raise _BadFraming(message="HTTP/1.0 has no Transfer-Encoding: send Content-Length, or HTTP/1.1")
    if request.headers.get("Transfer-Encoding", "chunked").lower() != "chunked":
        # The parser accepts "gzip, chunked" and leaves the body compressed (RFC 9112 §6.1: refuse an unknown coding).
        raise _BadFraming(message="Transfer-Encoding must be chunked")
    if len(request.headers.getall("Content-Encoding", ())) > 1:
        raise _BadFraming(message="Content-Encoding must be given once")


async def ask_for_body(request: web.BaseRequest) -> None:
    """Send 100 Continue where the client holds its body back until it is asked (RFC 9110 §10.1.1).

    Call it once the head is accepted: who is refused keeps its body.
    """
    if request.version >= HttpVersion11 and "Expect" in request.headers:
        await request.writer.write(_CONTINUE)
        request.writer.output_size = 0  # the answer has not begun


class _Server(web.Server):
    """Make our connections where aiohttp would make its own."""

    def __init__(self, handler: Handler) -> None:
        super().__init__(self._handle, request_factory=self._request, handler_cancellation=True)
        self.handler = handler

    def __call__(self) -> Connection:
        # aiohttp would silently drop all arguments if it did not know one of them.
        return Connection(self)

    def _request(
        self, message: RawRequestMessage, body: StreamReader, connection: Any, _: object, task: asyncio.Task[None]
    ) -> web.BaseRequest:
        connection.answer = Writer(connection, message, body)
        return web.BaseRequest(message, body, connection, connection.answer, task, asyncio.get_running_loop())

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        _check_framing(request)
        expected = request.headers.get("Expect")
        if not expected or request.version < HttpVersion11:
            return await self.handler(request)
        if expected.lower() != "100-continue":
            return self.handler.refusal(request, ExpectationFailed("Expect must be 100-continue"))
        response = await self.handler(request)
        if not request.content.is_eof():
            response.force_close()  # nobody can tell whether the body still comes
        return response


@dataclass(frozen=True)
class Port:
    """An open port. ``number`` is the bound one, also where port 0 was asked for."""

    number: int
    _server: _Server
    _listener: asyncio.Server
    _shutdown_timeout: float

    async def close(self) -> None:
        """Accept no more connections, and end the open ones as :meth:`Connection.shutdown` does."""
        self._listener.close()
        await asyncio.sleep(0)  # lets requests that have arrived start
        self._server.pre_shutdown()
        await self._server.shutdown(self._shutdown_timeout)


async def listen(handler: Handler, host: str, port: int, shutdown_timeout: float) -> Port:
    """Open a port and serve it. After :meth:`Port.close`, running requests have ``shutdown_timeout`` seconds to finish.
    Raise :class:`OSError` where the port cannot be bound."""
    server = _Server(handler)
    listener = await asyncio.get_running_loop().create_server(server, host, port, backlog=_BACKLOG)
    return Port(listener.sockets[0].getsockname()[1], server, listener, shutdown_timeout)
