"""The public port: the steps of every request on its way to the service that its path names.

1. turn every exception into a response, and write the log line once the response is made, or its stream has ended
2. serve the public documents, which any page may read: metadata (RFC 9728), server cards
3. check host and origin
4. find the caller, and 5. call the route's handler: :meth:`Site.answer`

A web page can make its visitor's browser send requests to loopback. Such a request names the attacker's host (DNS
rebinding) or has a foreign ``Origin``. Both are refused (2026-07-28, transports "Security Warning").
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from gateway.errors import (
    Challenged,
    Forbidden,
    GatewayError,
    InternalError,
    MethodNotAllowed,
    MisdirectedRequest,
    NotFound,
)
from gateway.http_server.request import HttpRequest
from gateway.http_server.response import JSON, Response, StreamedResponse
from gateway.networks import AddressReader
from gateway.telemetry import record as records
from gateway.telemetry.cells import CANCELLING
from gateway.telemetry.logs import RequestLine, to_gateway_error
from gateway.telemetry.record import RECORD, Record
from gateway.telemetry.trace_context import PARENT, trace_of_http
from gateway.web import pages
from gateway.web.card import CARD, CARD_TYPE, CATALOG, CATALOG_TYPE, catalog
from gateway.web.exchange import ErrorForm, Exchange, error_response, form_of_unknown, raw_refusal
from gateway.web.mcp import EventStream
from gateway.web.site import Site

_LOOPBACK: Final = frozenset(("localhost", "127.0.0.1", "::1"))
_WELL_KNOWN: Final = "/.well-known/"
_DOCUMENT_HEADERS: Final = {
    "Cache-Control": "public, max-age=3600",
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "ETag",
}
_DOCUMENT_PREFLIGHT: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET",
    "Access-Control-Allow-Headers": "MCP-Protocol-Version, If-None-Match",
    "Access-Control-Max-Age": "600",
}
_PREFLIGHT: Final = {"Access-Control-Allow-Methods": "GET, POST, DELETE", "Access-Control-Max-Age": "600"}
_CORS_HEADERS: Final = (
    "Authorization, DPoP, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, "
    "X-Request-Id, traceparent, tracestate"
)
# Listings choose these names (x-mcp-header), so each that a preflight asks for is allowed.
_PARAM_HEADER: Final = re.compile(r"(?i)(?<![^\s,])mcp-param-[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HOST: Final = re.compile(r"(?:[\w.~!$&'()*+,;=%-]+|\[[\w:.%-]+\])(?::[0-9]*)?")
"""Form of a Host header (RFC 9110 §7.2): programs differ about where the host of anything else is."""
_CALLED: Final = ("mcp", "rest", "tool", "jsonrpc")
REFUSED: Final[deque[RequestLine]] = deque(maxlen=100)
"""The last requests that were refused before the service was asked, for the page of the admin port."""
_EXPOSED: Final = "Mcp-Session-Id, X-Request-Id, WWW-Authenticate, Retry-After, RateLimit-Policy, RateLimit"


class PublicHandler:
    """Answer every request of the public port.

    ``sites`` are the services by their mounts: one at the root (``""``), or several below it (``"/crm"``). All three
    attributes may be assigned at any time (reload); a running request keeps the service that it began with.
    """

    def __init__(self, addresses: AddressReader, origins: Origins, page: str = "off") -> None:
        self.addresses = addresses
        self.origins = origins
        self.page = page
        self.sites: Mapping[str, Site] = {}

    def __repr__(self) -> str:
        return f"<PublicHandler: {', '.join(mount or '/' for mount in self.sites) or 'no services'}>"

    async def __call__(self, request: HttpRequest) -> Response | StreamedResponse:
        """Return the response, unsent, and log the request; of a stream, at its end. A logged status of 0 means that
        the client left before its response."""
        exchange, site = self._begin_exchange(request)
        RECORD.set(exchange.record)
        try:
            response = await self._answer_errors(exchange, site)
        except asyncio.CancelledError as error:
            _end(exchange, error)
            raise
        exchange.record.status = response.status
        if type(response) is Response:
            exchange.record.bytes_out = len(response.body)
            _end(exchange, None)
        elif isinstance(response, EventStream):
            # This must not refer to the service: a stream of notices may outlive it.
            response.on_end = partial(_end, exchange)
            if response.notices:
                _release(exchange)
        return response

    def refusal(self, request: HttpRequest, error: GatewayError) -> Response:
        """Return the answer to a request that is refused before the first step, in the form of its path."""
        exchange, site = self._begin_exchange(request)
        response = error_response(exchange, error, _form(exchange, site))
        _complete(exchange, site, response)
        return response

    raw_refusal = staticmethod(raw_refusal)

    def _begin_exchange(self, request: HttpRequest) -> tuple[Exchange, Site | None]:
        """Return the exchange, and the service whose mount its path begins with, if there is one."""
        path, sites = request.safe_path, self.sites  # "%2F" and "%25" stay, so that no segment becomes two
        site = sites.get("") or sites.get(f"/{path[1:].partition('/')[0]}")
        trace = trace_of_http(request.headers) if PARENT in request.headers else None
        id = records.request_id(request.headers, trace)
        service = "" if site is None else site.name
        record = Record(id, request.method, request.path, service, trace=trace, started=time.perf_counter())
        record.address = self._address(request)
        return Exchange(request, record, headers={records.REQUEST_ID: id}), site

    async def _answer_errors(self, exchange: Exchange, site: Site | None) -> Response | StreamedResponse:
        response: Response | StreamedResponse | None
        try:
            response = self._document(exchange.request) or self._guard(exchange, site)
            if response is None and exchange.request.method in ("GET", "HEAD"):
                response = await self._page(exchange, site)
            if response is None:
                if site is None:
                    raise NotFound("Not found")
                response = await site.answer(exchange)
        except Exception as error:  # noqa: BLE001, the client gets an answer to every failure
            answer = to_gateway_error(error, path=exchange.request.path)
            response = error_response(exchange, answer, _form(exchange, site))
        _complete(exchange, site, response)
        return response

    def _document(self, request: HttpRequest) -> Response | None:
        """Return a public document, or the answer to a preflight for it. Nobody's token decides what it says, so Host
        and Origin do not matter: any page may read it under any host name."""
        path = request.safe_path
        if not path.startswith(_WELL_KNOWN) and not path.endswith(CARD):
            return None
        document, content_type = self._public_document(path)
        if document is None:
            return None
        if request.method == "OPTIONS":
            return Response(status=204, headers=_DOCUMENT_PREFLIGHT)
        if request.method not in ("GET", "HEAD"):
            return Response(status=405, headers={"Allow": "GET, HEAD, OPTIONS"})
        body = document()
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers = {**_DOCUMENT_HEADERS, "ETag": tag}
        known = request.headers.get("If-None-Match", "")
        if known == "*" or tag in known:
            return Response(status=304, headers=headers)
        return Response(body, content_type=content_type, headers=headers)

    def _public_document(self, path: str) -> tuple[Callable[[], bytes] | None, str]:
        """Return what makes the document: a service's protected resource metadata (RFC 9728 §3), of which there is none
        with ``auth.mode: off``, or a card, or the catalog of the cards; and its content type."""
        for site in self.sites.values():
            if site.metadata is not None and path in site.metadata.paths:
                return site.metadata.body, JSON
            if site.card is not None and path == site.mount + CARD:
                return site.card.body, CARD_TYPE
        cards = [site.card for site in self.sites.values() if site.card is not None]
        return (partial(catalog, cards) if cards and path == CATALOG else None), CATALOG_TYPE

    async def _page(self, exchange: Exchange, site: Site | None) -> Response | None:
        """Return what is part of the pages and of no service: their files, ``/`` of several services, and the way to a
        service's page from its name alone."""
        path = exchange.request.safe_path
        if self.page == "off":
            return None
        if path.startswith(pages.STATIC):
            return pages.asset(path)
        if site is None:
            return await pages.index(exchange, self.sites.values(), self.page) if path == "/" else None
        is_name = site.mount and path == site.mount
        return Response(status=308, headers={"Location": f"{site.name}/"}) if is_name else None

    def _guard(self, exchange: Exchange, site: Site | None) -> Response | None:
        """Refuse foreign hosts and origins, answer preflights, and note which origin may read the answer (CORS)."""
        request, origins = exchange.request, self.origins
        origins.check_host(request.host)
        origin = request.headers.get("Origin")
        if origin is None:
            return None
        foreign = origins.check_origin(origin, request.host)
        exchange.headers["Vary"] = "Authorization, Origin" if site and site.authenticator else "Origin"
        if foreign:
            exchange.headers["Access-Control-Allow-Origin"] = origin
            exchange.headers["Access-Control-Expose-Headers"] = _EXPOSED
        if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
            param_headers = _PARAM_HEADER.findall(request.headers.get("Access-Control-Request-Headers", ""))
            allowed = ", ".join((_CORS_HEADERS, *param_headers))
            return Response(status=204, headers={**_PREFLIGHT, "Access-Control-Allow-Headers": allowed})
        return None

    def _address(self, request: HttpRequest) -> str:
        peer = request.connection.remote
        if not self.addresses.trusted:
            return peer
        return self.addresses.caller_address(peer, request.headers.getall("X-Forwarded-For", ()))


def _form(exchange: Exchange, site: Site | None) -> ErrorForm:
    return form_of_unknown(exchange.request.safe_path) if site is None else site.form(exchange)


def _release(exchange: Exchange) -> None:
    """Count the exchange no longer: neither among the running ones of its service, nor in memory."""
    uses, exchange.uses = exchange.uses, None
    if uses is None:
        return
    exchange.request.connection.held.bytes -= exchange.small
    memory = exchange.record.memory
    memory.users -= 1
    if memory.size and not memory.users:
        memory.shrink(0)
    uses.running -= 1
    if uses.is_awaited:
        uses.note_end()


def _end(exchange: Exchange, error: BaseException | None) -> None:
    """Release what the exchange takes, and end its record. ``error`` is what ended it before its response was sent."""
    if exchange.uses is not None:
        _release(exchange)
    record = exchange.record
    if exchange.error is not None:
        record.note_error(exchange.error)
    elif error is not None:
        left = isinstance(error, ConnectionError | asyncio.CancelledError)
        record.note_outcome(records.CLIENT_CLOSED if left else InternalError.slug)
    records.end(record)
    if record.outcome and not record.sent_at and record.surface in _CALLED and record.outcome not in CANCELLING:
        REFUSED.append(record.line())


def _complete(exchange: Exchange, site: Site | None, response: Response | StreamedResponse) -> None:
    """Add the headers of the exchange and its error."""
    headers, error = response.headers, exchange.error
    headers.update(exchange.headers)
    if error is None:
        return
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = error.allow
    if isinstance(error, Challenged) and site is not None:
        headers["WWW-Authenticate"] = site.challenge(error)


class Origins:
    """Check the Host and Origin headers of requests against the allowed ones."""

    def __init__(self, public_url: str | None, hosts: Iterable[str], origins: Iterable[str]) -> None:
        own = {urlsplit(public_url).hostname or ""} if public_url else set()
        self._any_host = "*" in hosts
        self._hosts = (_LOOPBACK | own | {host.lower() for host in hosts}) - {""}
        self._origins = {_origin(origin) for origin in origins} | ({_origin(public_url)} if public_url else set())
        self._good_hosts: set[str] = set()

    def check_host(self, host: str) -> None:
        """Raise :class:`MisdirectedRequest` for a host that is not allowed."""
        if self._any_host or host in self._good_hosts:
            return
        if hostname_of(host) not in self._hosts:
            raise MisdirectedRequest("This host is not served here; server.allowed_hosts names the hosts that are")
        if len(self._good_hosts) < 100:  # ports vary, and a stranger chooses them
            self._good_hosts.add(host)

    def check_origin(self, origin: str, host: str) -> bool:
        """Return whether an allowed origin is another site's and needs CORS headers. ``host`` is the request's, already
        checked. Raise :class:`Forbidden` for an origin that is not allowed."""
        seen = _origin(origin)
        if seen in self._origins:
            return True
        scheme, _, own = seen.partition("://")
        if scheme in ("http", "https"):
            if own == host.lower():
                return False
            # Loopback has three names: whichever of them has our port is this gateway.
            if _port(own) == _port(host) and {hostname_of(own), hostname_of(host)} <= _LOOPBACK:
                return True
        raise Forbidden("This origin may not call; server.allowed_origins names those that may")


def hostname_of(host: str) -> str:
    """Return the name or address in a Host header, in lower case; "" where it has not the form of one."""
    if not _HOST.fullmatch(host):
        return ""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _port(host: str) -> str:
    return host.rpartition("]")[2].partition(":")[2]


def _origin(url: str) -> str:
    """Return scheme, host and port of a URL, without the scheme's default port; empty for a malformed URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    host = parts.netloc.rpartition("@")[2].lower()
    if port is not None and port == {"http": 80, "https": 443}.get(parts.scheme):
        host = host.rpartition(":")[0]
    return f"{parts.scheme.lower()}://{host}"
