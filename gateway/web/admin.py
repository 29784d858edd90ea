"""The admin port: health, status, metrics, refresh and reload, and the page for who runs the gateway.

It checks no token, so keep it away from the public. All but the plain probes needs a Host that no web page can have.
What a browser could be misled into asks for more: see :class:`~gateway.web.admin_page.AdminPage`.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway import jsonrpc
from gateway.errors import GatewayError
from gateway.http_server.accepting import Bounds, Port, bind, wait_for_bytes
from gateway.http_server.connection_limit import AdminLimit
from gateway.http_server.held_bytes import HeldBytes
from gateway.http_server.request import HttpRequest
from gateway.http_server.response import TEXT, Response
from gateway.settings.server import ServerSettings
from gateway.text import printable
from gateway.web import pages
from gateway.web.admin_page import AdminPage
from gateway.web.exchange import REST, raw_refusal

ADMIN_CONNECTIONS: Final = 64
ADMIN_BEYOND: Final = 32
"""Connections more, whose requests have come already. They last as long as an answer takes."""
_PROBES: Final = tuple(f"{verb} {path} ".encode() for verb in ("GET", "HEAD") for path in ("/livez", "/readyz"))
_AT_ONCE: Final = 4
"""Connections that are accepted in a turn: an answered one makes room a few turns later."""
_SHUTDOWN: Final = 0.1
"""Seconds that requests to the admin port have to finish at the end. A probe is answered at once."""
_OTHER_HOST: Final = "this host is not served here; server.admin_page.hosts names the hosts that are\n"
_SPARE: Final = 8
"""Descriptors that the admin port keeps for itself, so that probes are answered when there are no others."""


@dataclass(eq=False)
class AdminHandler:
    """Answer the requests of the admin port. ``/livez`` is 200 while the event loop runs. ``/readyz`` is 503 with the
    reason while ``unready`` returns one; with ``?verbose`` it adds what the ``processes`` say, which ``/status`` has as
    JSON. No trouble makes it unready: calls may be served all the same. ``POST /refresh`` calls ``refresh_listings``:
    200, or 502 with the reason that it returns where a listing could not be fetched. ``POST /reload`` calls
    ``read_again``: 200, or 409 with the faults that it returns; None where there is nothing to read. ``page`` is that
    at ``/``, and says which browsers may see it and use its buttons; others get the paths. ``metrics`` returns the
    metrics in the form that an Accept header asks for, and their content type."""

    _unready: Callable[[], str | None]
    _processes: Callable[[], Sequence[dict[str, Any]]]
    _refresh_listings: Callable[[], Awaitable[str]]
    _render: Callable[[str], Awaitable[tuple[bytes, str]]]
    _page: AdminPage
    _read_again: Callable[[], Awaitable[Sequence[str]]] | None = None

    def __post_init__(self) -> None:
        self.routes = {
            "/livez": (("GET", "HEAD"), self._livez),
            "/readyz": (("GET", "HEAD"), self._readyz),
            "/metrics": (("GET", "HEAD"), self._metrics),
            "/status": (("GET", "HEAD"), self._status),
            "/refresh": (("POST",), self._refresh),
            "/reload": (("POST",), self._reload),
            "/": (("GET", "HEAD"), self._overview),
        }

    async def __call__(self, request: HttpRequest) -> Response:
        is_probe = request.path == "/livez" or (request.path == "/readyz" and "verbose" not in request.query)
        if not is_probe and not self._page.serves(request.host):
            return _text(_OTHER_HOST, 421)
        if request.path not in self.routes:
            if request.method in ("GET", "HEAD") and (file := pages.asset(request.path)) is not None:
                return file
            return _text("not found\n", 404)
        methods, handler = self.routes[request.path]
        if request.method not in methods:
            return _text("method not allowed\n", 405, Allow=", ".join(methods))
        return await handler(request)

    raw_refusal = staticmethod(raw_refusal)

    def refusal(self, _: HttpRequest, error: GatewayError) -> Response:
        return Response(REST.error_bytes(error, None), error.status)

    async def _livez(self, _: HttpRequest) -> Response:
        return _text("alive\n")

    async def _readyz(self, request: HttpRequest) -> Response:
        reason, verbose = self._unready(), "verbose" in request.query
        said = [pair for process in self._processes() for pair in _lines(process, verbose)]
        first = reason or ("ready, but" if any(wrong for wrong, _ in said) else "ok")
        lines = [first, *(line for wrong, line in said if verbose or (wrong and not reason))]
        return _text("".join(f"{line}\n" for line in lines), 200 if reason is None else 503)

    async def _status(self, _: HttpRequest) -> Response:
        return Response(jsonrpc.encode({"unready": self._unready(), "processes": self._processes()}))

    async def _metrics(self, request: HttpRequest) -> Response:
        body, content_type = await self._render(request.headers.get("Accept", ""))
        return Response(body, 200, content_type)

    async def _refresh(self, request: HttpRequest) -> Response:
        # A page in a browser can reach the port (CSRF).
        if "Origin" in request.headers and not self._page.admits(request):
            return _text("requests from other web pages are refused\n", 403)
        failure = printable(await self._refresh_listings())  # the backend's text may end up on a terminal
        return _text(f"{failure}\n", 502) if failure else _text("listed anew\n")

    async def _reload(self, request: HttpRequest) -> Response:
        if not self._page.admits(request):
            return _text("only a browser or program of server.admin_page may ask for this\n", 403)
        if self._read_again is None:
            return _text("there is no configuration to read again\n", 409)
        faults = await self._read_again()
        return _text("".join(f"{printable(fault)}\n" for fault in faults) or "reloaded\n", 409 if faults else 200)

    async def _overview(self, request: HttpRequest) -> Response:
        if not self._page.admits(request):
            return _text("".join(f"{' '.join(methods)} {path}\n" for path, (methods, _) in self.routes.items()))
        return await self._page.respond(self._unready(), self._processes(), reloads=self._read_again is not None)


def _lines(process: dict[str, Any], verbose: bool) -> Iterator[tuple[bool, str]]:
    """Yield the lines of a process, each with whether something is wrong, and if ``verbose`` with the remedy."""
    who = f"worker {process['worker']}: " if process["worker"] else ""
    if who:
        yield bool(process["unready"]), f"{who}{process['unready'] or 'ready'}, process {process['process'] or 'none'}"
    if used := process["configuration"]:
        yield False, f"{who}configuration: {', '.join(used['files']) or 'no file'}, in force since {used['since']}"
    for part in (*process["services"], process):
        name = f"{who}{part['name']}: " if part.get("name") else who
        if part.get("tools") is not None:
            counts = f"{part['tools']} tools"
            if (age := part["listing_age"]) is not None:  # a group has no listing of its own
                counts += f", {part['quarantined']} methods quarantined, listed {age:.0f} s ago"
            yield False, name + counts
        for one in part["problems"]:
            again = f"; next try {one['next_try']}" if one["next_try"] else ""
            known = one.get("diagnosis")
            remedy = f". {known['cause']} {known['next']}" if known and verbose else ""
            yield True, f"{name}{one['cause']}, since {one['since']}{again}{remedy}"
        yield from ((False, name + job) for job in part["jobs"])
    if counted := process["under_way"]:
        yield False, f"{who}under way: {', '.join(f'{count} {what}' for what, count in counted.items())}"


def _text(text: str, status: int = 200, **headers: str) -> Response:
    return Response(text.encode(), status, TEXT, headers)


async def listen_for_probes(handler: AdminHandler, server: ServerSettings, held: HeldBytes) -> Port:
    """Open the admin port. Raise :class:`OSError` where it cannot be bound."""
    few = AdminLimit(ADMIN_CONNECTIONS, ADMIN_BEYOND, _PROBES)
    bounds = Bounds(_SHUTDOWN, server.write_timeout, few, held, _SPARE, _AT_ONCE)
    sockets = await bind(server.admin_host, server.admin_port)
    wait_for_bytes(sockets)
    return Port(sockets, handler, bounds)
