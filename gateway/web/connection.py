"""A port and its connections, below paths and handlers: what aiohttp would answer by itself, and the end of it.

aiohttp's low-level server gives no say in some of it. So it gets connections of our own, which override public methods:
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
from aiohttp.http_exceptions import BadHttpMessage, ContentEncodingError, HttpProcessingError, LineTooLong
from aiohttp.streams import StreamReader
from multidict import CIMultiDict

from gateway.errors import ExpectationFailed, GatewayError, InternalError, MalformedHttp
from gateway.mcp.messages import EVENT_STREAM
from gateway.web.exchange import MCP, json_response

_KEEPALIVE: Final = 75.0  # seconds after which an idle connection is closed
_BACKLOG: Final = 1024
_AT_ONCE: Final = 0.001  # aiohttp takes 0 for "as long as it takes"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_FIRST_LOOK: Final = 0.5
_NEXT_LOOK: Final = 0.1


class Handler(Protocol):
    """What a port serves."""

    async def __call__(self, request: web.BaseRequest, /) -> web.StreamResponse: ...

    def refusal(self, request: web.BaseRequest, error: GatewayError) -> web.Response:
        """The answer to a request that was not handed over, or broke the handler."""
        ...


class _Framing(BadHttpMessage):
    """The request could be read in two ways, or is of a version that is not spoken here."""


class Writer(StreamWriter):
    """The way out for one answer, as aiohttp's, but with the headers that every answer has, whoever made it."""

    def __init__(self, connection: Connection, message: RawRequestMessage, body: StreamReader) -> None:
        super().__init__(connection, asyncio.get_running_loop())
        self.body = body
        self.takes_interim = message.version >= HttpVersion11
        self.streams = False
        self.over = False

    async def write_headers(self, status_line: str, headers: CIMultiDict[str]) -> None:
        headers["Server"] = "gateway"  # aiohttp's own names its version and Python's
        headers.setdefault("Cache-Control", "no-store")
        headers.setdefault("X-Content-Type-Options", "nosniff")
        self.streams = headers.get("Content-Type") == EVENT_STREAM
        if not status_line.startswith("HTTP/1."):  # aiohttp repeats the request's version
            status_line = f"HTTP/1.1{status_line[len('HTTP/1.1') :]}"
        await super().write_headers(status_line, headers)

    async def write_eof(self, chunk: bytes = b"") -> None:
        await super().write_eof(chunk)
        self.over = True


class Connection(web.RequestHandler):
    """One connection of a client. ``answer`` is the latest answer, from its request's head on."""

    answer: Writer | None = None

    def __init__(self, server: _Server) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(server, loop=loop, keepalive_timeout=_KEEPALIVE, access_log=None)  # type: ignore[arg-type]
        self._refusal = server.handler.refusal

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what came to no handler, or broke it: JSON with nothing of the request in it, and then the end.

        Raises :class:`ConnectionError` where an answer has begun.
        """
        super().handle_error(request, status, exc)  # for its line in the log
        if isinstance(exc, _Framing):
            response = self._refusal(request, MalformedHttp(exc.message))
        elif isinstance(exc, HttpProcessingError):  # the parser's; its path is unknown, and MCP clients know one form
            error = MalformedHttp(_fault(exc))
            response = json_response(MCP.error_bytes(error, None), error.status)
        else:
            response = self._refusal(request, InternalError())
        response.headers["Connection"] = "close"
        response.force_close()
        return response

    async def shutdown(self, timeout: float | None = 15.0) -> None:
        """Let the request under way finish within ``timeout`` seconds, then cut it off. aiohttp would wait twice."""
        try:
            async with asyncio.timeout(timeout):
                await super().shutdown(None)
        except TimeoutError:
            await super().shutdown(_AT_ONCE)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the way back open: the client sends no more, and may still be there for its answer.

        Of several requests that it sent ahead, the one under way is answered (RFC 9112 §9.3.2 lets clients repeat the
        others).
        """
        self.close()
        # By its turn, a request that came together with the end has been taken up.
        asyncio.get_running_loop().call_soon(self._after_end)
        return True

    def _after_end(self) -> None:
        answer = self.answer
        if self.transport is None:
            return
        if answer is None or answer.over or answer.streams or not answer.body.is_eof():
            self.transport.close()
        elif answer.takes_interim:
            asyncio.get_running_loop().call_later(_FIRST_LOOK, self._look, answer, _NEXT_LOOK)

    def _look(self, answer: Writer, wait: float) -> None:
        """Find out whether the client is there at all: a closed socket resets the connection when something comes.

        An interim answer is what any client of HTTP/1.1 takes (RFC 9110 §15.2). The reset shows at the next one.
        """
        if self.transport is None or answer.over:
            return
        if answer.streams:
            self.transport.close()
        elif answer.output_size == 0:
            self.transport.write(_CONTINUE)
            asyncio.get_running_loop().call_later(wait, self._look, answer, 2 * wait)


def _fault(error: HttpProcessingError) -> str:
    if isinstance(error, LineTooLong):
        return "The request line or a header is too long"
    if isinstance(error, ContentEncodingError):
        return "Content-Encoding must be identity or gzip"
    return "The request is not HTTP/1.1 (RFC 9112)"


def _check_framing(request: web.BaseRequest) -> None:
    """Raises :class:`_Framing` for what readers on the way may have understood in another way.

    RFC 9112 §6.1: a server that receives Transfer-Encoding with HTTP/1.0 treats the message as if the framing were
    faulty.
    """
    if request.version not in (HttpVersion10, HttpVersion11):
        raise _Framing(message="Only HTTP/1.1 and HTTP/1.0 are spoken here")
    if request.version == HttpVersion10 and "Transfer-Encoding" in request.headers:
        raise _Framing(message="HTTP/1.0 has no Transfer-Encoding: send Content-Length, or HTTP/1.1")
    if len(request.headers.getall("Content-Encoding", ())) > 1:
        raise _Framing(message="Content-Encoding must be there once")


async def _expect(request: web.BaseRequest, expected: str) -> None:
    """Ask for the body that a client holds back (RFC 9110 §10.1.1). Raises :class:`ExpectationFailed`."""
    if request.version < HttpVersion11:
        return
    if expected.lower() != "100-continue":
        raise ExpectationFailed("Expect must be 100-continue")
    await request.writer.write(_CONTINUE)
    request.writer.output_size = 0  # the answer has not begun


class _Server(web.Server):
    """aiohttp's, with connections of ours."""

    def __init__(self, handler: Handler) -> None:
        super().__init__(self._handle, request_factory=self._request, handler_cancellation=True)
        self.handler = handler

    def __call__(self) -> Connection:
        # Not as aiohttp does it: that drops all arguments without a word if it does not know one.
        return Connection(self)

    def _request(
        self, message: RawRequestMessage, body: StreamReader, connection: Any, _: object, task: asyncio.Task[None]
    ) -> web.BaseRequest:
        connection.answer = Writer(connection, message, body)
        return web.BaseRequest(message, body, connection, connection.answer, task, asyncio.get_running_loop())

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        _check_framing(request)
        expected = request.headers.get("Expect")
        if expected:
            try:
                await _expect(request, expected)
            except ExpectationFailed as error:
                return self.handler.refusal(request, error)
        return await self.handler(request)


@dataclass(frozen=True)
class Port:
    """A port that is listened on. ``number`` is the bound one."""

    number: int
    _server: _Server
    _listener: asyncio.Server
    _shutdown_timeout: float

    async def close(self) -> None:
        """Take no further connection, and end those there are as :meth:`Connection.shutdown` does."""
        self._listener.close()
        await asyncio.sleep(0)  # what has come in by now is under way after this
        self._server.pre_shutdown()
        await self._server.shutdown(self._shutdown_timeout)


async def listen(handler: Handler, host: str, port: int, shutdown_timeout: float) -> Port:
    """Serve. Requests under way have ``shutdown_timeout`` seconds to finish once the port is closed. Raises
    :class:`OSError` where the port cannot be had."""
    server = _Server(handler)
    listener = await asyncio.get_running_loop().create_server(server, host, port, backlog=_BACKLOG)
    return Port(listener.sockets[0].getsockname()[1], server, listener, shutdown_timeout)
