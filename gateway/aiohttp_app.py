"""Serve the gateway as an application of aiohttp, alone or as a part of another one. docs/aiohttp.md shows how.

The handler is the same as on our own port: it gets our :class:`HttpRequest`, and aiohttp sends its response. aiohttp
also limits what clients may cost while they send a request or read a response.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp import web

from gateway.auth.metadata import PREFIX
from gateway.concurrency.collector import COLLECTOR
from gateway.config.source import ConfigError
from gateway.config.warnings import log_config_warnings
from gateway.errors import InvalidRequest
from gateway.http_server.held_bytes import HeldBytes
from gateway.http_server.request import HttpRequest
from gateway.http_server.response import COMMON_HEADERS, NO_STORE, Response, StreamedResponse
from gateway.process.key_files import apply_key_files
from gateway.process.server import Server
from gateway.settings import Settings
from gateway.telemetry.logs import to_gateway_error

GATEWAY: Final = web.AppKey("gateway", Server)
"""Key of the :class:`Server` in the application: ``await app[GATEWAY].reload(settings)``."""
_LOOK: Final = 0.5  # seconds


def aiohttp_app(settings: Settings, prefix: str = "", *, admin: bool = False) -> web.Application:
    """Return an application that serves the gateway from its start to its cleanup. If it is mounted in another one with
    ``add_subapp``, pass the same ``prefix`` to both, and give the outer one the routes of :func:`well_known`. ``admin``
    opens the admin port. Raise :class:`ConfigError` if the settings do not fit; the start of the application raises
    what :meth:`Server.start` raises."""
    prefix = prefix.rstrip("/")
    _check(settings, prefix)
    app = web.Application()
    server = app[GATEWAY] = Server(settings)
    resource = app.router.add_resource("/{path:(?s:.*)}")
    resource.add_route("*", partial(_respond, server, prefix))

    async def run(_: web.Application) -> AsyncIterator[None]:
        mounted = resource.canonical.removesuffix("/{path}")
        if mounted != prefix:
            raise ConfigError([f"prefix: is {prefix!r}, but the application is mounted at {mounted!r}"])
        with COLLECTOR.left_alone():
            await server.open(admin=admin)
            log_config_warnings(settings)
            server.background.start("key files", partial(apply_key_files, server))
            yield
            await server.stop()

    async def end_streams(_: web.Application) -> None:
        server.end_streams()  # or aiohttp would wait up to a minute until their clients leave

    app.cleanup_ctx.append(run)
    app.on_shutdown.append(end_streams)
    return app


def well_known(app: web.Application) -> list[web.RouteDef]:
    """Return the routes of the RFC 9728 documents. They lie outside the prefix (§3.1), so the outer application adds
    them at its root: ``outer.add_routes(well_known(app))``."""
    path = re.escape(urlsplit(app[GATEWAY].settings.server.origin).path)
    return [web.route("*", f"{PREFIX}{{path:{path}(?s:/.*)?}}", partial(_respond, app[GATEWAY], ""))]


def _check(settings: Settings, prefix: str) -> None:
    faults, url = [], settings.server.public_url or ""
    if prefix and not (prefix.startswith("/") and url.endswith(prefix)):
        example = f"{url or 'https://gw.example.com'}/{prefix.removeprefix('/')}"
        faults.append(f"server.public_url: must end in {prefix}, where the application is mounted: set it to {example}")
    if not url and any(one.auth.traits.has_issuers for one in settings.resources):
        faults.append("server.public_url: is required, because the port is aiohttp's, not server.port")
    if settings.server.workers > 1:
        faults.append("server.workers: must be 1 within aiohttp; instead, start several processes behind a proxy")
    if settings.server.tls.cert_file:
        faults.append("server.tls: the port is aiohttp's: give it the certificate, as ssl_context of web.TCPSite")
    if faults:
        raise ConfigError(faults)


async def _respond(server: Server, prefix: str, request: web.Request) -> web.StreamResponse:
    """Pass a request of aiohttp to the gateway's handler, and its response to aiohttp."""
    was_read = request.body_exists and not request.can_read_body  # by a middleware
    read = await request.read() if was_read else b""
    handler, asked = server.handler, _Request(request, prefix, server.held, read)
    looking = asyncio.create_task(_cancel_once_gone(request, asyncio.current_task()))
    try:
        response = await handler(asked)
        return await _send_stream(request, response) if isinstance(response, StreamedResponse) else _whole(response)
    except Exception as error:
        refusal = handler.refusal(asked, to_gateway_error(error, path=asked.path))
        if request.writer.output_size:  # a stream has begun: aiohttp closes the connection
            raise ConnectionResetError("the stream failed") from error
        return _whole(refusal)
    finally:
        looking.cancel()


@dataclass(slots=True)
class _Client:
    """The connection of a request. Its methods do nothing: aiohttp limits what it reads and writes by itself."""

    transport: Any
    held: HeldBytes
    remote: str
    owner: str = ""
    counted: int = 0
    is_draining: bool = False

    def count_ahead(self) -> None: ...

    pause_reading = resume_reading = count_ahead

    async def drain(self) -> None: ...


class _Request(HttpRequest):
    """A request whose body aiohttp reads, and unpacks: gzip is no coding of it any more."""

    def __init__(self, request: web.Request, prefix: str, held: HeldBytes, read: bytes) -> None:
        headers = request.headers.copy()
        if headers.get("Content-Encoding", "").lower() == "gzip":
            del headers["Content-Encoding"]
        version, target = "{}.{}".format(*request.version), str(request.rel_url).removeprefix(prefix)
        client = _Client(request.transport, held, request.remote or "")
        super().__init__(client, request.method, target, version, headers, keep_alive=True)
        self._request = request
        if request.content.is_eof():
            self.feed(read or request.content.read_nowait())
            self.end()

    @property
    def host(self) -> str:
        return self._request.host

    async def read(self) -> bytes:
        try:
            part = await self._request.content.readany()
        except web.RequestPayloadError as error:
            packed = InvalidRequest("The body is not gzip, as Content-Encoding says, or incomplete")
            plain = ConnectionResetError("the body is incomplete")
            raise packed if "Content-Encoding" in self._request.headers else plain from error
        self.is_whole = not part
        return part

    def ask_for_body(self) -> None: ...  # aiohttp has sent 100 Continue


async def _cancel_once_gone(request: web.Request, task: asyncio.Task[object] | None) -> None:
    while request.transport is not None:  # noqa: ASYNC110, without handler_cancellation there is no event
        await asyncio.sleep(_LOOK)
    if task is not None:
        task.cancel()


def _whole(response: Response) -> web.Response:
    return web.Response(body=response.body or None, status=response.status, headers=_headers(response))


async def _send_stream(request: web.Request, response: StreamedResponse) -> web.StreamResponse:
    async with response.open() as parts:
        stream = web.StreamResponse(status=response.status, headers=_headers(response))
        if request.version < (1, 1):
            stream.force_close()  # the end of the connection is that of the stream
        await stream.prepare(request)
        async for part in parts:
            await stream.write(part)
        await stream.write_eof()
    return stream


def _headers(response: Response | StreamedResponse) -> dict[str, str]:
    has_content = isinstance(response, StreamedResponse) or response.body
    content_type = {"Content-Type": response.content_type} if has_content else {}
    return {**COMMON_HEADERS, **NO_STORE, **content_type, **response.headers}
