"""A connection to one of our ports, below requests and routes: what aiohttp would answer by itself, and its end.

aiohttp's runner gives no say in any of it. So its server gets connections of our own, which override public methods:
``handle_error``, ``shutdown`` and ``eof_received`` of :class:`aiohttp.web.RequestHandler`. The request factory and
handler are public attributes of :class:`aiohttp.web.Server`, ``write_headers`` and ``write_eof`` methods of
:class:`aiohttp.abc.AbstractStreamWriter`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http import HttpVersion10, HttpVersion11, RawRequestMessage, StreamWriter
from aiohttp.http_exceptions import BadHttpMessage, ContentEncodingError, HttpProcessingError, LineTooLong
from aiohttp.streams import StreamReader
from multidict import CIMultiDict

from gateway.errors import ExpectationFailed, InternalError, MalformedHttp
from gateway.mcp.exchange import EVENT_STREAM
from gateway.web.replies import ALWAYS, mcp_error, refusal

_KEEPALIVE: Final = 75.0  # seconds after which an idle connection is closed
_BACKLOG: Final = 1024
_AT_ONCE: Final = 0.001  # aiohttp takes 0 for "as long as it takes"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_FIRST_LOOK: Final = 0.5
_NEXT_LOOK: Final = 0.1


class _Framing(BadHttpMessage):
    """The request could be read in two ways, or is of a version that is not spoken here."""


class Writer(StreamWriter):
    """The way out for one answer, as aiohttp's, but no answer names our software, whoever made it."""

    def __init__(self, connection: Connection, message: RawRequestMessage, body: StreamReader) -> None:
        super().__init__(connection, asyncio.get_running_loop())
        self.body = body
        self.takes_interim = message.version >= HttpVersion11
        self.streams = False
        self.over = False

    async def write_headers(self, status_line: str, headers: CIMultiDict[str]) -> None:
        headers.popall("Server", None)
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

    def handle_error(
        self,
        request: Any,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what came to no handler, or broke it: JSON with nothing of the request in it, and then the end.

        Raises :class:`ConnectionError` where an answer has begun.
        """
        super().handle_error(request, status, exc)  # for its line in the log
        if isinstance(exc, _Framing):
            response = refusal(request, MalformedHttp(exc.message))
        elif isinstance(exc, HttpProcessingError):  # the parser's; its path is unknown, and MCP clients know one form
            response = mcp_error(request, MalformedHttp(_fault(exc)))
        else:
            response = refusal(request, InternalError())
        response.headers.update({**ALWAYS, "Connection": "close"})
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


def _checked(handle: Callable[[Any], Awaitable[web.StreamResponse]]) -> Callable[[Any], Awaitable[web.StreamResponse]]:
    async def checked(request: Any) -> web.StreamResponse:
        _check_framing(request)
        try:
            return await handle(request)
        except web.HTTPExpectationFailed:  # raised before our middlewares, and aiohttp's text quotes the header
            response = refusal(request, ExpectationFailed("Expect must be 100-continue"))
            response.headers.update(ALWAYS)
            return response

    return checked


@dataclass(frozen=True)
class Port:
    """A port that is listened on. ``number`` is the bound one."""

    number: int
    _runner: web.AppRunner
    _server: asyncio.Server

    async def close(self) -> None:
        """Take no further connection, and end those there are as :meth:`Connection.shutdown` does."""
        self._server.close()
        await self._runner.cleanup()


async def listen(application: web.Application, host: str, port: int, shutdown_timeout: float) -> Port:
    """Serve. Raises :class:`OSError` where the port cannot be had."""
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=shutdown_timeout)
    await runner.setup()
    manager = cast(web.Server, runner.server)
    make_request = manager.request_factory

    def request_of(message: Any, body: Any, connection: Any, _: Any, task: Any) -> web.BaseRequest:
        connection.answer = Writer(connection, message, body)
        return make_request(message, body, connection, connection.answer, task)

    manager.request_factory = request_of
    manager.request_handler = _checked(manager.request_handler)
    loop = asyncio.get_running_loop()

    def connection() -> Connection:
        # Not by way of the manager: it would drop all of these without a word if it did not know one.
        return Connection(manager, loop=loop, keepalive_timeout=_KEEPALIVE, access_log=None)  # type: ignore[arg-type]

    try:
        server = await loop.create_server(connection, host, port, backlog=_BACKLOG)
    except OSError:
        await runner.cleanup()
        raise
    return Port(server.sockets[0].getsockname()[1], runner, server)
