"""The HTTP client: every outgoing exchange goes through a hardened aiohttp session.

No redirects are followed (a credential must reach one origin alone), no cookies are kept, the environment's proxies
are ignored, sizes are capped after decompression and the whole exchange has a deadline. What aiohttp raises becomes
an :class:`OutboundError` here.
"""

from __future__ import annotations

import math
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
from cachetools import LRUCache
from yarl import URL

CONNECT_TIMEOUT: Final = 3.0
# Common servers drop an idle connection after 5 s; being first avoids writing into a connection that closes.
_KEEPALIVE: Final = 4.0
_DNS_TTL: Final = 10
_CHUNK: Final = 64 * 1024
# Codes of X509_verify_cert_error_string(3).
_OUT_OF_TIME: Final = (9, 10)
_OTHER_NAME: Final = (62, 64)
# Alerts of a server that wants another client certificate than the one it got (RFC 8446 §6.2, RFC 5246 §7.2.2).
_CERTIFICATE_ALERT: Final = re.compile("ALERT_.*CERTIFICATE|ALERT_UNKNOWN_CA|ALERT_HANDSHAKE_FAILURE")


class OutboundError(Exception):
    """Raised where an exchange has no usable answer. ``sent`` is False if certainly no byte of the request was sent."""

    sent = True


class ConnectFailed(OutboundError):
    """Raised where a connection failed: refused, no such name, a forbidden address, TLS not trusted by either side.

    With TLS 1.3 the request may have been sent when the server refuses our certificate; the server has not read it.
    """

    sent = False


class NoConnection(OutboundError):
    """Raised where no connection came free in time: all were in use, or the other side accepted none."""

    sent = False


class Interrupted(OutboundError):
    """Raised where the connection ended before the answer did."""


class DeadlinePassed(OutboundError):
    """Raised where no complete answer came in time."""


class AnswerTooLarge(OutboundError):
    """Raised where the answer is larger than allowed."""


class BadHttp(OutboundError):
    """Raised where the answer is not valid HTTP (RFC 9112)."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer, its body decompressed. ``content_type`` is the bare media type, lower-case."""

    status: int
    content_type: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Name PEM files; without them, the system's CAs are trusted and there is no client certificate. Errors mention
    ``ca_knob`` and ``cert_knob``; ``cert_knob`` is None where the settings have no client certificate."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    ca_knob: str = "ca_file"
    cert_knob: str | None = None

    def context(self) -> ssl.SSLContext:
        """Return the TLS context. Raises :class:`OSError`, with the name of the file, where one cannot be used."""
        file = self.ca
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert:
                file = self.cert
                context.load_cert_chain(self.cert, self.key)
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), file) from error
        return context


@dataclass(frozen=True, slots=True)
class Reach:
    """Limit which addresses host names may resolve to. ``refuses`` returns why an IP address is forbidden, or None. The
    operator has named ``trusted_urls``: their hosts may resolve to any address."""

    refuses: Callable[[str], str | None]
    trusted_urls: frozenset[str] = frozenset()


class _AddressRefused(OSError):
    """Raised where a name resolves to forbidden addresses alone."""


class _Resolver(aiohttp.ThreadedResolver):
    """Resolve names to the addresses that may be connected to.

    The connection is made to exactly these addresses, so a name that resolves differently a moment later (DNS
    rebinding) gains nothing. A host that is an address is not resolved: code that takes it from strangers checks it.
    """

    def __init__(self, reach: Reach) -> None:
        super().__init__()
        urls = map(URL, reach.trusted_urls)
        self._trusted_hosts = frozenset((url.raw_host, url.port) for url in urls)
        self._refuses = reach.refuses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[aiohttp.abc.ResolveResult]:
        """Return the permitted addresses. Raises :class:`OSError` where there is none."""
        found = await super().resolve(host, port, family)
        if (host, port) in self._trusted_hosts:
            return found
        reasons = [self._refuses(address["host"]) for address in found]
        kept = [address for address, reason in zip(found, reasons, strict=True) if reason is None]
        if not kept:
            raise _AddressRefused(f"its name {reasons[0]}; if that is intended, name the address in the settings")
        return kept


@dataclass(slots=True)
class _Exchange:
    connected: bool = False


_EXCHANGE: Final[ContextVar[_Exchange]] = ContextVar("exchange")


class _Connector(aiohttp.TCPConnector):
    """Record when an exchange gets its connection: until then no byte of it was sent.

    ``connect`` belongs to aiohttp's documented connectors, but its arguments do not: they are passed through.
    """

    async def connect(self, *args: Any, **kwargs: Any) -> Any:
        connection = await super().connect(*args, **kwargs)
        _EXCHANGE.get().connected = True
        return connection


class Outbound:
    """Hold a pool of at most ``connections``; 0 means any number. Every request gets ``headers``. Make it and close it
    in the loop that uses it."""

    def __init__(
        self,
        *,
        connections: int = 100,
        tls: TlsFiles | None = None,
        proxy: str | None = None,
        headers: Mapping[str, str] | None = None,
        reach: Reach | None = None,
    ) -> None:
        self._connections = connections
        self._proxy = proxy
        self._tls = tls or TlsFiles()
        self._timeouts: LRUCache[float, aiohttp.ClientTimeout] = LRUCache(1000)
        self._urls: LRUCache[str, URL] = LRUCache(1000)
        self._session = aiohttp.ClientSession(
            connector=_Connector(
                limit=connections,
                ttl_dns_cache=_DNS_TTL,
                keepalive_timeout=_KEEPALIVE,
                ssl=self._tls.context() if self._tls.ca or self._tls.cert else True,
                resolver=None if reach is None else _Resolver(reach),
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            headers=headers,
            skip_auto_headers=("User-Agent",),
        )

    def __repr__(self) -> str:
        hosts = sorted({f"{url.host}:{url.port}" for url in self._urls.values()})
        state = "closed" if self._session.closed else f"at most {self._connections} connections"
        return f"<Outbound to {', '.join(hosts[:3]) or 'nothing yet'}, {state}>"

    async def close(self) -> None:
        await self._session.close()

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, timeout: float, max_bytes: int
    ) -> Answer:
        """Send a request, ``timeout`` in seconds for all of it. Raises :class:`OutboundError`."""
        return await self._exchange("POST", url, body, headers, timeout, max_bytes)

    async def get(self, url: str, headers: Mapping[str, str], *, timeout: float, max_bytes: int) -> Answer:
        """Send a request, ``timeout`` in seconds for all of it. Raises :class:`OutboundError`."""
        return await self._exchange("GET", url, None, headers, timeout, max_bytes)

    async def _exchange(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: float,
        max_bytes: int,
    ) -> Answer:
        exchange = _Exchange()
        _EXCHANGE.set(exchange)
        try:
            async with self._session.request(
                method,
                self._url(url),
                data=body,
                headers=headers,
                allow_redirects=False,
                proxy=self._proxy,
                timeout=self._timeout(timeout),
            ) as response:
                # aiohttp also returns 101, which is not final, and 600 to 999, which HTTP does not have (RFC 9110 §15).
                if not 200 <= response.status <= 599:
                    raise BadHttp(f"status {response.status}")
                content = await _read_body(response, max_bytes)
                media_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
                return Answer(response.status, media_type, response.headers, content)
        except OutboundError:
            raise
        except aiohttp.ConnectionTimeoutError as error:
            raise ConnectFailed("no connection in time") from error
        except (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError) as error:
            raise ConnectFailed(_reason(error, self._tls)) from error
        except TimeoutError as error:
            if not exchange.connected:
                raise NoConnection(f"no free connection within {timeout:g} s") from error
            raise DeadlinePassed(f"no complete answer within {timeout:g} s") from error
        # A refused client certificate shows only on the first read with TLS 1.3, after the handshake is over for us.
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, aiohttp.ClientOSError) as error:
            cause = error.__cause__ if isinstance(error, aiohttp.ClientOSError) else None
            if isinstance(cause, ssl.SSLError) and _CERTIFICATE_ALERT.search(cause.reason or ""):
                raise ConnectFailed(_tls_reason(cause, self._tls)) from error
            raise Interrupted("the connection ended before the answer did") from error
        except (aiohttp.ClientError, aiohttp.http_exceptions.HttpProcessingError, ValueError) as error:
            raise BadHttp("the answer is not valid HTTP") from error

    def _url(self, url: str) -> URL:
        known = self._urls.get(url)
        if known is None:
            known = self._urls[url] = URL(url)
        return known

    def _timeout(self, total: float) -> aiohttp.ClientTimeout:
        known = self._timeouts.get(total)
        if known is None:
            # aiohttp rounds deadlines of 5 s and more up to a whole second of the loop's clock; inf turns that off.
            known = aiohttp.ClientTimeout(
                total=total, sock_connect=min(CONNECT_TIMEOUT, total), ceil_threshold=math.inf
            )
            self._timeouts[total] = known
        return known


async def _read_body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    length = response.content_length
    if length is not None and length > max_bytes:
        raise AnswerTooLarge(f"larger than {max_bytes} bytes")
    # Content-Length counts the compressed bytes: it bounds the body only where that is not compressed (zip bombs).
    if length is not None and "Content-Encoding" not in response.headers:
        return await response.read()
    chunks = []
    size = 0
    async for chunk in response.content.iter_chunked(_CHUNK):
        size += len(chunk)
        if size > max_bytes:
            raise AnswerTooLarge(f"larger than {max_bytes} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _reason(error: aiohttp.ClientConnectorError | aiohttp.ClientHttpProxyError, tls: TlsFiles) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _certificate_reason(error.certificate_error, tls)
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return _tls_reason(error.os_error, tls)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return str(error.os_error) if isinstance(error.os_error, _AddressRefused) else "its name cannot be resolved"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status}"
    if isinstance(error.os_error, ConnectionRefusedError):
        return "connection refused"
    return "no connection"


def _certificate_reason(error: Exception, tls: TlsFiles) -> str:
    """Return why a certificate is refused, without the host, which OpenSSL's message names."""
    code = getattr(error, "verify_code", None)
    if code in _OTHER_NAME:
        return "its TLS certificate is for another name; the URL must have one that the certificate has"
    if code in _OUT_OF_TIME:
        return "its TLS certificate has expired, or is not valid yet"
    if tls.ca is None:
        return f"its TLS certificate is not trusted; if its CA is your own, name that in {tls.ca_knob}"
    return f"its TLS certificate is not trusted: no CA in {tls.ca_knob} has signed it"


def _tls_reason(error: OSError, tls: TlsFiles) -> str:
    code = str(getattr(error, "reason", None) or "no reason given")
    reason = "TLS failed: " + code.replace("_", " ").lower()
    if tls.cert_knob is None or not _CERTIFICATE_ALERT.search(code):
        return reason
    if tls.cert is None:
        return f"{reason}; if a client certificate is wanted, name it in {tls.cert_knob}"
    return f"{reason}; the certificate in {tls.cert_knob} is refused"
