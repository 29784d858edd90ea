"""The public paths of one service below its mount: a table from path and method to handler."""

import asyncio
import math
import zlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from email.message import Message
from functools import lru_cache
from typing import Final, TypeAlias

from gateway.auth.authenticator import NO_TOKEN, Authenticator, PresentedToken
from gateway.auth.metadata import ResourceMetadata, www_authenticate
from gateway.concurrency.background import UseCounter
from gateway.errors import (
    Challenged,
    InvalidParams,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    RequestTimeout,
    TooLarge,
    Unauthorized,
    UnsupportedMediaType,
)
from gateway.http_server.request import HttpRequest
from gateway.http_server.response import JSON, Response, StreamedResponse
from gateway.jsonrpc.bounds import UNSCANNED, UNSCANNED_COST, memory_cost
from gateway.mcp.endpoint import Endpoint
from gateway.mcp.operations import Operations
from gateway.model import SHARED, Caller, NameStyle
from gateway.telemetry.exchange_memory import ExchangeMemory
from gateway.web.card import ServerCard
from gateway.web.exchange import MCP, REST, RPC, ErrorForm, Exchange, form_of_unknown
from gateway.web.mcp import McpSurface
from gateway.web.pages import PAGE, ServicePage
from gateway.web.rest import TOOLS, RestSurface, name_of
from gateway.web.rpc import RpcSurface

BODY_TIMEOUT: Final = 15.0
"""Seconds for a client to send its request body."""
_TICK: Final = 0.25
"""Seconds of that time. One that ends late, since the event loop was held, is counted as one: of many large bodies at
once, each waits for the gateway, too."""
_ANONYMOUS: Final = 1024
_CHARSETS: Final = ("utf-8", "utf8")
_GZIP: Final = 16 + zlib.MAX_WBITS  # zlib's number for gzip's header and trailer

_anonymous: Final = lru_cache(_ANONYMOUS)(Caller)
"""Callers without a token, by address, view and style of names: the same ones ask again and again."""
_Handler: TypeAlias = Callable[[Exchange], Awaitable[Response | StreamedResponse]]


@dataclass(frozen=True, slots=True)
class _Route:
    methods: Mapping[str, _Handler]
    form: ErrorForm
    surface: str


@dataclass(eq=False, repr=False)
class Site:
    """Serve one service below ``mount``, which is empty at the root, else like ``/crm``.

    ``name`` is the service's for the log, empty at the root. ``authenticator`` and ``metadata`` are None with
    ``auth.mode: off``, ``card`` without ``mcp.server.card``, ``page`` with ``server.page: off``. ``max_body`` is in
    bytes, ``body_timeout`` in seconds.
    ``uses`` counts a request until its call has ended; a stream of notifications only until it begins, since it may
    outlive this object.
    """

    mount: str
    _: KW_ONLY
    endpoint: Endpoint
    operations: Operations
    authenticator: Authenticator | None
    metadata: ResourceMetadata | None
    card: ServerCard | None
    page: ServicePage | None
    max_body: int
    uses: UseCounter
    body_timeout: float = BODY_TIMEOUT

    def __post_init__(self) -> None:
        self.name = self.mount.removeprefix("/")
        self._large_bodies = asyncio.Lock()
        operations, mount = self.operations, self.mount
        self.access = operations.invocation.access
        mcp, rest, rpc = McpSurface(self.endpoint), RestSurface(operations, mount), RpcSurface(operations)
        self._routes = {
            f"{mount}/mcp": _Route({"POST": mcp.post, "GET": mcp.get, "DELETE": mcp.delete}, MCP, "mcp"),
            f"{mount}{TOOLS}/list": _Route(_reading(rest.list_tools), REST, "rest"),
            f"{mount}{TOOLS}/describe": _Route(_reading(rest.describe), REST, "rest"),
            f"{mount}{TOOLS}/invoke": _Route({"POST": rest.invoke}, REST, "rest"),
            f"{mount}/jsonrpc": _Route({"POST": rpc.post}, RPC, "jsonrpc"),
        }
        self._tools = f"{mount}{TOOLS}/"
        self._tool = _Route({**_reading(rpc.get_tool), "POST": rpc.post_tool}, RPC, "tool")
        self._tool_page: _Route | None = None
        if (page := self.page) is not None:
            self._routes[f"{mount}/"] = _Route(_reading(page.overview), REST, PAGE)
            self._routes[f"{mount}/page"] = _Route(_reading(page.who_am_i), REST, PAGE)
            self._tool_page = _Route({**_reading(page.tool), "POST": page.try_it}, REST, PAGE)

    def __repr__(self) -> str:
        return f"<Site at {self.mount or '/'}, {'auth on' if self.authenticator else 'auth off'}, {self.uses}>"

    async def answer(self, exchange: Exchange) -> Response | StreamedResponse:
        """Find the route and the caller, and return the handler's response. The exchange is counted in its ``uses`` and
        ``small`` from here on; the caller of this method counts its end.

        Unknown paths and methods are refused before authentication. Raise :class:`~gateway.errors.GatewayError`.
        """
        exchange.uses = self.uses
        self.uses.running += 1
        request = exchange.request
        route = self._route(exchange)
        if route is None:
            has_trailing_slash = request.safe_path == f"{self.mount}/mcp/"
            raise NotFound(f"Not found; the MCP endpoint is {self.mount}/mcp" if has_trailing_slash else "Not found")
        record = exchange.record
        record.surface = route.surface
        handler = route.methods.get(request.method)
        if handler is None:
            raise MethodNotAllowed("Method not allowed", allow=", ".join(sorted(route.methods)))
        # Authentication comes before the body, so that no stranger makes the gateway read one.
        try:
            exchange.caller = await self._caller(exchange)
        except Unauthorized as refusal:
            if route.surface != PAGE or request.method == "POST":
                raise
            if "Authorization" in request.headers:  # the page says why the token is refused
                exchange.note_error(refusal)
            exchange.caller = _anonymous(record.address, SHARED, None, None)
        memory = record.memory = _admit(request, exchange.caller)
        if request.method == "POST":
            body = exchange.body = await self._json_body(request, route.form.content_types, memory)
            record.bytes_in = len(body)
            if len(body) <= UNSCANNED:
                exchange.small = UNSCANNED_COST * len(body)
                request.connection.held.bytes += exchange.small
            else:
                _take(request, memory, memory_cost(body) - memory.size)
                async with self._large_bodies:  # one in each turn of the loop: some take it for 0.1 s
                    await asyncio.sleep(0)
            del body
        return await handler(exchange)

    def form(self, exchange: Exchange) -> ErrorForm:
        """Return the form of an error on the exchange's path, also before its route is known."""
        route = self._route(exchange)
        if route is None:
            return form_of_unknown(exchange.request.safe_path)
        if route is self._tool and exchange.request.method != "POST":
            return REST
        return route.form

    def challenge(self, error: Challenged) -> str:
        if isinstance(error, Unauthorized):
            error.scopes = self.access.challenged_scopes(error.scopes)
        url = self.metadata.url if self.metadata else None
        return www_authenticate(error, url, self.authenticator.scheme if self.authenticator else "Bearer")

    def _route(self, exchange: Exchange) -> _Route | None:
        path = exchange.request.safe_path
        route = self._routes.get(path)
        if route is None and path.startswith(self._tools):
            segment = path[len(self._tools) :]
            if segment and "/" not in segment:
                exchange.tool = name_of(_decoded(segment))
                return self._tool
        elif route is None and self._tool_page and path.startswith(f"{self.mount}/page/"):
            exchange.tool = _decoded(path[len(self.mount) + 6 :])
            return self._tool_page if exchange.tool else None
        return route

    async def _caller(self, exchange: Exchange) -> Caller:
        """Authenticate the caller. Raise :class:`~gateway.errors.Unauthorized`,
        :class:`~gateway.errors.MalformedAuthorization`, :class:`~gateway.errors.AuthUnavailable`,
        :class:`~gateway.errors.InvalidParams`."""
        request, address = exchange.request, exchange.record.address
        headers, queried = request.headers, "?" in request.target
        if self.authenticator is None:
            return _anonymous(address, SHARED, None, _name_style_in(request) if queried else None)
        authorization, in_query = headers.getall("Authorization", ()), queried and "access_token" in request.query
        principal = None if in_query else self.authenticator.known_principal(authorization)
        if principal is None:
            proofs = headers.getall("DPoP", ())
            presented = PresentedToken(authorization, proofs, request.method, request.path, in_query, address)
            principal = await self.authenticator.authenticate(presented)
        if not self.access.may_enter(principal):
            raise Unauthorized(NO_TOKEN)
        if principal is not None:
            record = exchange.record
            record.issuer, record.subject, record.client_id = principal.issuer, principal.subject, principal.client
        name_style = _name_style_in(request) if queried else None
        view = self.access.view_of(principal, headers.get("Accept-Language"))
        return (_anonymous if principal is None else Caller)(address, view, principal, name_style)

    async def _json_body(self, request: HttpRequest, content_types: tuple[str, ...], memory: ExchangeMemory) -> bytes:
        """Return the body as bytes, bounded in size and time. Raise
        :class:`~gateway.errors.UnsupportedMediaType`, :class:`~gateway.errors.TooLarge`,
        :class:`~gateway.errors.RequestTimeout`, :class:`~gateway.errors.InvalidRequest`,
        :class:`~gateway.errors.Overloaded`.

        Content types beside ``content_types`` are refused: a foreign page may send some of them without a preflight
        (CORS "simple requests").
        """
        headers = request.headers
        if headers.get("Content-Type") != JSON:  # the usual case needs no parsing
            content_type, charset = _media_type(headers.get("Content-Type", ""))
            if content_type not in content_types:
                raise UnsupportedMediaType(f"Content-Type must be {' or '.join(content_types)}")
            if charset is not None and charset not in _CHARSETS:
                raise UnsupportedMediaType("The charset of JSON must be UTF-8")
        encoding = headers.get("Content-Encoding", "identity").lower()
        if encoding not in ("identity", "gzip"):
            raise UnsupportedMediaType("Content-Encoding must be identity or gzip")
        body = await self._read_body(request, memory)
        return self._unpack(body) if encoding == "gzip" else body

    async def _read_body(self, request: HttpRequest, memory: ExchangeMemory) -> bytes:
        """Return the body as it was sent. Raise as :meth:`_json_body` does."""
        if int(request.headers.get("Content-Length", 0)) > self.max_body:
            raise self._too_large()
        try:
            # Most bodies arrive with the head: those need no timer.
            body = request.take()
            if request.is_whole and len(body) <= self.max_body:
                return body
            request.ask_for_body()
            _take(request, memory, len(body))
            parts = [body]
            for _ in range(math.ceil(self.body_timeout / _TICK)):
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(_TICK, self.body_timeout)):
                        return await self._read_rest(request, parts, memory)
        except ConnectionError:
            raise InvalidRequest("The body is incomplete") from None
        raise RequestTimeout(f"The body did not arrive within {self.body_timeout:g} s")

    async def _read_rest(self, request: HttpRequest, parts: list[bytes], memory: ExchangeMemory) -> bytes:
        """Return the parts with all that follow, which are added to them."""
        size = sum(map(len, parts))
        while size <= self.max_body:  # there may be no Content-Length
            part = await request.read()
            if not part:
                return b"".join(parts)
            parts.append(part)
            size += len(part)
            _take(request, memory, len(part))
        raise self._too_large()

    def _unpack(self, packed: bytes) -> bytes:
        """Return what was gzipped, and unpack no more than ``max_body`` bytes of it."""
        gzip = zlib.decompressobj(wbits=_GZIP)
        try:
            body = gzip.decompress(packed, self.max_body + 1)
        except zlib.error:
            raise InvalidRequest("The body is not gzip, as Content-Encoding says") from None
        if len(body) > self.max_body:
            raise self._too_large()
        if not gzip.eof or gzip.unused_data:
            raise InvalidRequest("The body is not one whole gzip member (RFC 1952)")
        return body

    def _too_large(self) -> TooLarge:
        return TooLarge(f"The body is larger than {self.max_body} bytes")


def _decoded(segment: str) -> str:
    """Return a segment of a path, which keeps these two encoded; "%25" last, or "%252F" would become a slash."""
    return segment.replace("%2F", "/").replace("%25", "%")


def _admit(request: HttpRequest, caller: Caller) -> ExchangeMemory:
    """Note whose response a request gets, and return what counts its memory. Raise :class:`~gateway.errors.Overloaded`
    if too many bytes are held."""
    connection = request.connection
    connection.owner, held = caller.key, connection.held
    if held.bytes >= held.share:
        held.check(caller.key)
    return ExchangeMemory(held, caller.key)


def _take(request: HttpRequest, memory: ExchangeMemory, size: int) -> None:
    """Count more memory for a body. Raise :class:`Overloaded` where there is no room now, :class:`TooLarge` where there
    never is."""
    held = request.connection.held
    if held.is_over(size) or not memory.take(size):
        if memory.size + size > held.most_large:
            raise TooLarge("As a value, the body would take more memory than server.max_buffered leaves for one")
        raise held.no_room(memory.owner)


def _reading(handler: _Handler) -> Mapping[str, _Handler]:
    """Return the methods of a readable path. HEAD is GET without the body (RFC 9110 §9.3.2), which an answer omits."""
    return {"GET": handler, "HEAD": handler}


def _name_style_in(request: HttpRequest) -> NameStyle | None:
    """Return the style of tool names that ``?names=`` asks for, None without it. Raise :class:`InvalidParams`."""
    wanted = request.query.getall("names", [])
    if not wanted:
        return None
    if len(wanted) > 1 or wanted[0] not in tuple(NameStyle):
        raise InvalidParams(f'The parameter "names" must be {" or ".join(NameStyle)}, and be given once')
    return NameStyle(wanted[0])


@lru_cache(100)
def _media_type(header: str) -> tuple[str, str | None]:
    """Return media type and charset of a Content-Type header, lower-case; None where it names no charset."""
    message = Message()
    message["Content-Type"] = header
    charset = message.get_param("charset")  # get_content_charset() would hide one that is not ASCII
    name = charset[2] if isinstance(charset, tuple) else charset
    return message.get_content_type() if header else "", name.lower() if name else None
