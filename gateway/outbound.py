"""The one way out: HTTP exchanges with a hardened aiohttp session.

No redirects are followed (a credential must reach one origin alone), no cookies are kept, the environment's proxies
are ignored, sizes are capped after decompression and the whole exchange has a deadline. What aiohttp raises becomes
an :class:`OutboundError` here.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import aiohttp
from cachetools import LRUCache
from yarl import URL

CONNECT_TIMEOUT: Final = 3.0
# Common servers drop an idle connection after 5 s; being first avoids writing into a connection that closes.
_KEEPALIVE: Final = 4.0
_DNS_TTL: Final = 10
_CHUNK: Final = 64 * 1024


class OutboundError(Exception):
    """An exchange that brought no usable answer. ``sent`` is False where surely not a byte of it left."""

    sent = True


class ConnectFailed(OutboundError):
    """No connection: refused, no such name, TLS not trusted."""

    sent = False


class Interrupted(OutboundError):
    """The connection ended before the answer did."""


class DeadlinePassed(OutboundError):
    """No complete answer in time."""


class AnswerTooLarge(OutboundError):
    """The answer exceeds its cap."""


class BadHttp(OutboundError):
    """The answer is not HTTP as RFC 9112 has it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer, its body decompressed. ``content_type`` is the bare media type, lower-case."""

    status: int
    content_type: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files; None is the system's trust and no client certificate."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    def context(self) -> ssl.SSLContext:
        """Raises :class:`OSError`, with the name of the file, where one cannot be used."""
        file = self.ca
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert:
                file = self.cert
                context.load_cert_chain(self.cert, self.key)
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), file) from error
        return context


class Outbound:
    """A pool of connections; ``headers`` go with every request. Make it and close it within the loop that uses it."""

    def __init__(
        self,
        *,
        connections: int = 100,
        tls: TlsFiles | None = None,
        proxy: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._proxy = proxy
        self._timeouts: LRUCache[float, aiohttp.ClientTimeout] = LRUCache(1000)
        self._urls: LRUCache[str, URL] = LRUCache(1000)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=connections,
                ttl_dns_cache=_DNS_TTL,
                keepalive_timeout=_KEEPALIVE,
                ssl=True if tls is None or tls == TlsFiles() else tls.context(),
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            headers=headers,
            skip_auto_headers=("User-Agent",),
        )

    async def close(self) -> None:
        await self._session.close()

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, timeout: float, max_bytes: int
    ) -> Answer:
        """Raises :class:`OutboundError`."""
        return await self._exchange("POST", url, body, headers, timeout, max_bytes)

    async def get(self, url: str, headers: Mapping[str, str], *, timeout: float, max_bytes: int) -> Answer:
        """Raises :class:`OutboundError`."""
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
                if not 200 <= response.status <= 599:
                    raise BadHttp(f"status {response.status}")
                content = await _read(response, max_bytes)
                media_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
                return Answer(response.status, media_type, response.headers, content)
        except OutboundError:
            raise
        except aiohttp.ConnectionTimeoutError as error:
            raise ConnectFailed("no connection in time") from error
        except (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError) as error:
            raise ConnectFailed(_reason(error)) from error
        except TimeoutError as error:
            raise DeadlinePassed(f"no complete answer within {timeout:g} s") from error
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, aiohttp.ClientOSError) as error:
            raise Interrupted("the connection ended before the answer did") from error
        except (aiohttp.ClientError, aiohttp.http_exceptions.HttpProcessingError, ValueError) as error:
            raise BadHttp(type(error).__name__) from error

    def _url(self, url: str) -> URL:
        known = self._urls.get(url)
        if known is None:
            known = self._urls[url] = URL(url)
        return known

    def _timeout(self, total: float) -> aiohttp.ClientTimeout:
        known = self._timeouts.get(total)
        if known is None:
            known = aiohttp.ClientTimeout(total=total, sock_connect=min(CONNECT_TIMEOUT, total))
            self._timeouts[total] = known
        return known


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    length = response.content_length
    if length is not None and length > max_bytes:
        raise AnswerTooLarge(f"larger than {max_bytes} bytes")
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


def _reason(error: aiohttp.ClientConnectorError | aiohttp.ClientHttpProxyError) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its TLS certificate is not trusted"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return "TLS failed"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name cannot be resolved"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status}"
    if isinstance(error.os_error, ConnectionRefusedError):
        return "connection refused"
    return "no connection"
