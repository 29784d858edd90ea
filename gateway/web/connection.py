"""A connection to one of our ports, below requests and routes: what aiohttp would answer by itself, and its end.

aiohttp's runner gives no say in any of it. So its server gets connections of our own, which override the public
``handle_error`` of :class:`aiohttp.web.RequestHandler`. The request factory and the
request handler are public attributes of :class:`aiohttp.web.Server`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http import HttpVersion10, HttpVersion11, StreamWriter
from aiohttp.http_exceptions import BadHttpMessage, ContentEncodingError, HttpProcessingError, LineTooLong
from multidict import CIMultiDict

from gateway.errors import ExpectationFailed, InternalError, MalformedHttp
from gateway.web.replies import ALWAYS, refusal, rpc_error

KEEPALIVE: Final = 75.0
"""Seconds after which an idle connection is closed."""
_BACKLOG: Final = 1024


class _Framing(BadHttpMessage):
    """The request could be read in two ways, or is of a version that is not spoken here."""


class Writer(StreamWriter):
    """The way out for one answer, as aiohttp's, but no answer names our software, whoever made it."""

    async def write_headers(self, status_line: str, headers: CIMultiDict[str]) -> None:
        headers.popall("Server", None)
        if not status_line.startswith("HTTP/1."):  # aiohttp repeats the request's version
            status_line = f"HTTP/1.1{status_line[len('HTTP/1.1') :]}"
        await super().write_headers(status_line, headers)


class Connection(web.RequestHandler):
    """One connection of a client."""

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
            response = rpc_error(request, MalformedHttp(_fault(exc)))
        else:
            response = refusal(request, InternalError())
        response.headers.update({**ALWAYS, "Connection": "close"})
        response.force_close()
        return response


def _fault(error: HttpProcessingError) -> str:
    if isinstance(error, LineTooLong):
        return "The request line or a header is too long"
    if isinstance(error, ContentEncodingError):
        return "Content-Encoding must be identity or gzip"
    return "The request is not HTTP/1.1 (RFC 9112)"


def check_framing(request: web.BaseRequest) -> None:
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
        check_framing(request)
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
        """Take no further connection, and end those there are once their requests are done."""
        self._server.close()
        await self._runner.cleanup()


async def listen(application: web.Application, host: str, port: int, shutdown_timeout: float) -> Port:
    """Serve. Raises :class:`OSError` where the port cannot be had."""
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=shutdown_timeout)
    await runner.setup()
    manager = cast(web.Server, runner.server)
    loop = asyncio.get_running_loop()
    make_request = manager.request_factory

    def request_of(message: Any, body: Any, connection: Any, _: Any, task: Any) -> web.BaseRequest:
        return make_request(message, body, connection, Writer(connection, loop), task)

    manager.request_factory = request_of
    manager.request_handler = _checked(manager.request_handler)

    def connection() -> Connection:
        # Not by way of the manager: it would drop all of these without a word if it did not know one.
        return Connection(manager, loop=loop, keepalive_timeout=KEEPALIVE, access_log=None)  # type: ignore[arg-type]

    try:
        server = await loop.create_server(connection, host, port, backlog=_BACKLOG)
    except OSError:
        await runner.cleanup()
        raise
    return Port(server.sockets[0].getsockname()[1], runner, server)
