"""The admin port: health and refresh. It checks neither host nor token, so keep it away from the public."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from aiohttp import web

from gateway.errors import GatewayError
from gateway.settings.server import ServerSettings
from gateway.text import printable
from gateway.web.answer import JsonAnswer
from gateway.web.connection import Bounds, Port, listen
from gateway.web.connection_limit import ConnectionLimit
from gateway.web.exchange import REST
from gateway.web.held_answers import HeldAnswers

ADMIN_CONNECTIONS: Final = 64
_SHUTDOWN: Final = 0.1
"""Seconds that requests to the admin port have to finish at the end. A probe is answered at once."""
_SPARE: Final = 8
"""Descriptors that the admin port keeps for itself, so that probes are answered when there are no others."""


class AdminHandler:
    """Answer the requests of the admin port. ``/livez`` is 200 while the event loop runs. ``/readyz`` is 503 with the
    reason while ``unready`` returns one; with ``?verbose`` it adds the lines of ``describe``: services, background
    jobs. A failed job does not make it unready: the job is restarted, and calls are served meanwhile. ``POST /refresh``
    calls ``renew``, which fetches the listings again: 200, or 502 with the reason that it returns where that failed."""

    def __init__(
        self,
        unready: Callable[[], str | None],
        describe: Callable[[], Iterable[str]],
        renew: Callable[[], Awaitable[str]],
    ) -> None:
        self._unready = unready
        self._describe = describe
        self._renew = renew
        self.routes = {
            "/livez": (("GET", "HEAD"), self._livez),
            "/readyz": (("GET", "HEAD"), self._readyz),
            "/refresh": (("POST",), self._refresh),
        }

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path not in self.routes:
            return web.Response(status=404, text="not found\n")
        methods, handler = self.routes[request.path]
        if request.method not in methods:
            return web.Response(status=405, text="method not allowed\n", headers={"Allow": ", ".join(methods)})
        return await handler(request)

    def refusal(self, _: web.BaseRequest, error: GatewayError) -> JsonAnswer:
        return JsonAnswer(REST.error_bytes(error, None), error.status)

    async def _livez(self, _: web.BaseRequest) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.BaseRequest) -> web.Response:
        reason = self._unready()
        lines = [reason or "ok", *(self._describe() if "verbose" in request.query else ())]
        return web.Response(status=200 if reason is None else 503, text="".join(f"{line}\n" for line in lines))

    async def _refresh(self, request: web.BaseRequest) -> web.Response:
        if "Origin" in request.headers:  # a page in this machine's browser can reach the port (CSRF)
            return web.Response(status=403, text="requests from web pages are refused\n")
        failure = printable(await self._renew())  # the backend's text may end up on a terminal
        return web.Response(status=502, text=f"{failure}\n") if failure else web.Response(text="ok\n")


async def listen_for_probes(handler: AdminHandler, server: ServerSettings, held: HeldAnswers) -> Port:
    """Open the admin port. Raise :class:`OSError` where it cannot be bound."""
    few = ConnectionLimit(ADMIN_CONNECTIONS, lambda _: True)
    bounds = Bounds(_SHUTDOWN, server.write_timeout, few, held, _SPARE)
    return await listen(handler, server.admin_host, server.admin_port, bounds)
