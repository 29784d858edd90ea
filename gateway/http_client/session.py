"""Send requests over a hardened aiohttp session: to issuers, through proxies, and where a service wants HTTP Digest.

No redirects are followed (a credential must reach one origin alone), no cookies kept, no proxies of the environment
used; sizes are capped after decompression. What aiohttp raises becomes an :class:`OutboundError`.
"""

import asyncio
import math
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from weakref import WeakSet

import aiohttp

from gateway.http_client import response
from gateway.http_client.connecting import REASONS
from gateway.http_client.resolver import AddressRefused, Reach, Resolver
from gateway.http_client.response import CHUNK, CONNECT_TIMEOUT, Answer, ConnectFailed, OutboundError, has_input
from gateway.http_client.tls import CERTIFICATE_ALERT, TlsFiles, certificate_reason, tls_reason
from gateway.http_client.websocket import Handshake


class _AiohttpResolver(aiohttp.abc.AbstractResolver):
    """Give aiohttp the addresses that our :class:`Resolver` finds."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[aiohttp.abc.ResolveResult]:
        numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            {"hostname": host, "host": found.host, "port": port, "family": found.family, "proto": 0, "flags": numeric}
            for found in await self._resolver.addresses(host, port, family)
        ]

    async def close(self) -> None:
        """Do nothing: a look-up that hangs ends by itself."""


@dataclass(slots=True)
class _Exchange:
    connected: bool = False


_EXCHANGE: Final[ContextVar[_Exchange]] = ContextVar("exchange")


class _CarefulConnector(aiohttp.BaseConnector):
    """Record when an exchange gets its connection: until then no byte of it was sent. Use no kept connection that was
    closed, which aiohttp may notice only after the request was written, or that has unasked bytes, which it would take
    for the next answer. Refuse one whose certificate is not the pinned one of ``tls``. The arguments of ``connect`` are
    not documented, and are passed through."""

    def __init__(self, tls: TlsFiles, **knobs: Any) -> None:
        super().__init__(**knobs)
        self._tls = tls
        self._used: WeakSet[asyncio.BaseProtocol] = WeakSet()

    async def connect(self, *args: Any, **kwargs: Any) -> Any:
        while True:
            connection: Any = await super().connect(*args, **kwargs)
            protocol = connection.protocol
            if protocol not in self._used:
                try:
                    self._tls.check_pinned(connection.transport)
                except ConnectFailed:
                    connection.close()
                    raise
                self._used.add(protocol)
                break
            if not protocol.should_close and not has_input(connection.transport):
                break
            connection.close()
        _EXCHANGE.get().connected = True
        return connection


_HANDSHAKE: Final = aiohttp.ClientTimeout(total=None)  # who opens a WebSocket waits as long as it has time


class _Connector(_CarefulConnector, aiohttp.TCPConnector):
    """Connect to hosts."""


class _UnixConnector(_CarefulConnector, aiohttp.UnixConnector):
    """Connect to one Unix socket."""


class Outbound:
    """Hold a pool of at most ``connections``, 0 for any number. Every request gets ``headers``. ``reserve`` is asked
    before bytes of an answer are kept, and gets them back, as a negative number, once all are read."""

    def __init__(
        self,
        *,
        connections: int = 100,
        tls: TlsFiles | None = None,
        proxy: str | None = None,
        headers: Mapping[str, str] | None = None,
        reach: Reach | None = None,
        reserve: Callable[[int], bool] = lambda _: True,
        middlewares: Sequence[aiohttp.ClientMiddlewareType] = (),
        socket: str | None = None,
    ) -> None:
        self._reserve = reserve
        self._proxy = proxy
        self._tls = tls or TlsFiles()
        knobs: dict[str, Any] = {"limit": connections, "keepalive_timeout": response.KEEPALIVE}
        connector = (
            _UnixConnector(self._tls, path=socket, **knobs)
            if socket is not None
            else _Connector(
                self._tls,
                ssl=True if self._tls.is_default else self._tls.context(),
                ttl_dns_cache=response.DNS_TTL,
                resolver=_AiohttpResolver(Resolver(reach)),
                **knobs,
            )
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            headers=headers,
            skip_auto_headers=("User-Agent",),
            middlewares=middlewares,
        )

    async def close(self) -> None:
        await self._session.close()

    async def request(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], *, timeout: float, max_bytes: int
    ) -> Answer:
        """Send a request, ``timeout`` in seconds for all of it. Raises :class:`OutboundError`."""
        if self._session.closed:  # a fetch in the background may begin while the gateway ends
            raise response.ConnectFailed("the gateway ends")
        exchange = _Exchange()
        _EXCHANGE.set(exchange)
        try:
            async with self._session.request(
                method,
                url,
                data=body or None,
                headers=headers,
                allow_redirects=False,
                proxy=self._proxy,
                server_hostname=self._tls.server_name,
                timeout=_client_timeout(timeout),
            ) as answer:
                # aiohttp also returns 101, which is not final, and 600 to 999, which HTTP does not have (RFC 9110 §15).
                if not 200 <= answer.status <= 599:
                    raise response.BadHttp(f"status {answer.status}")
                content = await _read_body(answer, max_bytes, self._reserve)
                return Answer(answer.status, answer.headers, content)
        except OutboundError:
            raise
        except aiohttp.ConnectionTimeoutError as error:
            raise response.ConnectFailed("no connection in time") from error
        except (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError) as error:
            raise response.ConnectFailed(_reason(error, self._tls)) from error
        except TimeoutError as error:
            if not exchange.connected:
                raise response.NoConnection(f"no free connection within {timeout:g} s") from error
            raise response.DeadlinePassed(f"no complete answer within {timeout:g} s") from error
        # A refused client certificate shows only on the first read with TLS 1.3, after the handshake is over for us.
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, aiohttp.ClientOSError) as error:
            cause = error.__cause__
            if isinstance(cause, aiohttp.http_exceptions.ContentEncodingError):
                raise response.BadHttp("its body is not compressed as it says") from error
            if isinstance(cause, ssl.SSLError) and CERTIFICATE_ALERT.search(cause.reason or ""):
                raise response.ConnectFailed(tls_reason(cause, self._tls)) from error
            raise response.Interrupted("the connection ended before the answer did") from error
        except (aiohttp.ClientError, aiohttp.http_exceptions.HttpProcessingError, ValueError) as error:
            raise response.BadHttp("the answer is not valid HTTP") from error

    async def open_websocket(self, url: str, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        """Return the answer of a service that opens a WebSocket (RFC 6455 §4.1). Raises :class:`ConnectFailed` and
        :class:`HandshakeRefused`, also for a redirect: it would carry a credential to another host."""
        _EXCHANGE.set(_Exchange())
        handshake = Handshake()
        try:
            answer = await self._session.get(
                url,
                headers={**headers, **handshake.headers},
                allow_redirects=False,
                read_until_eof=False,
                proxy=self._proxy,
                server_hostname=self._tls.server_name,
                timeout=_HANDSHAKE,
            )
        except (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError) as error:
            raise response.ConnectFailed(_reason(error, self._tls)) from error
        except (aiohttp.ClientError, aiohttp.http_exceptions.HttpProcessingError, ValueError) as error:
            raise response.ConnectFailed("its answer to a WebSocket's handshake is none") from error
        if not handshake.is_accepted(answer.status, answer.headers):
            answer.close()
            raise response.HandshakeRefused(Answer(answer.status, answer.headers, b""))
        return answer


@lru_cache(1000)
def _client_timeout(total: float) -> aiohttp.ClientTimeout:
    # aiohttp rounds deadlines of 5 s and more up to a whole second of the loop's clock; inf turns that off.
    return aiohttp.ClientTimeout(total=total, sock_connect=min(CONNECT_TIMEOUT, total), ceil_threshold=math.inf)


async def _read_body(answer: aiohttp.ClientResponse, max_bytes: int, reserve: Callable[[int], bool]) -> bytes:
    length = answer.content_length
    if length is not None and length > max_bytes:
        raise response.AnswerTooLarge(f"larger than {max_bytes} bytes")
    # Content-Length counts the compressed bytes: it bounds the body only where that is not compressed (zip bombs).
    if length is not None and length <= CHUNK and "Content-Encoding" not in answer.headers:
        return await answer.read()
    chunks = []
    size = reserved = 0
    try:
        async for chunk in answer.content.iter_chunked(CHUNK):
            size += len(chunk)
            if size > max_bytes:
                raise response.AnswerTooLarge(f"larger than {max_bytes} bytes")
            if not reserve(len(chunk)):
                raise response.NoRoom("too many answers are held")
            reserved = size
            chunks.append(chunk)
        return b"".join(chunks)
    finally:
        reserve(-reserved)
        chunks.clear()  # the traceback of an error refers to them


def _reason(error: aiohttp.ClientConnectorError | aiohttp.ClientHttpProxyError, tls: TlsFiles) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return certificate_reason(error.certificate_error, tls)
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return tls_reason(error.os_error, tls)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return str(error.os_error) if isinstance(error.os_error, AddressRefused) else "its name cannot be resolved"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status}"
    return REASONS.get(type(error.os_error), "no connection")
