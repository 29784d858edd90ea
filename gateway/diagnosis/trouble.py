"""What is known of a service that gave no listing, and what more can be asked of it."""

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Self, TypeAlias
from urllib.parse import urljoin, urlsplit, urlunsplit

from gateway import jsonrpc
from gateway.backend.redaction import prepare_secrets, redact_text
from gateway.credentials.grants import CredentialUnavailable
from gateway.http_client.choice import HttpClient
from gateway.http_client.response import Answer, ConnectFailed, DeadlinePassed, OutboundError
from gateway.http_client.tls import TlsFiles, read_certificate
from gateway.listing.dialect import NoListing, Step
from gateway.model import HttpFacts, Listing, SourceAnswer
from gateway.settings import ServiceSettings
from gateway.text import printable, secrets_in

PATHS: Final = (
    "/", "/jsonrpc", "/rpc", "/api/jsonrpc", "/api", "/json_rpc", "/mopidy/rpc", "/RPC2", "/api/v1/jsonrpc",
    "/jsonrpc.php", "/json", "/ubus", "/api_jsonrpc.php", "/v1/jsonrpc", "/json-rpc", "/api/rpc", "/server/jsonrpc",
    "/transmission/rpc", "/api/v1", "/mcp",
)  # fmt: skip
"""Where services have their JSON-RPC endpoint, below a host."""
OPENAPI: Final = ("/openapi.json", "/swagger.json", "/v3/api-docs")
_OPENAPI: Final = re.compile(rb'"(?:openapi|swagger)"\s*:\s*"[23]')
_PATIENCE: Final = 3.0
_MAX_BYTES: Final = 1024**2
_ID: Final = "where"
_NO_ANSWER: Final = HttpFacts(0, "", {}, b"")
_Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_AT_ONCE: Final = 8
_FIRST_BYTES: Final = 65536
_UPGRADE: Final = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: anNvbnJwYy1tY3AtZ2F0ZQ==\r\n"
)
_POST: Final = b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}\n"
_ACCEPT: Final = {"Accept": "application/json, text/event-stream"}
"""MCP servers refuse a client that does not take both."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Hold a cause, and what to do next: a sentence each. ``in_file``: the cause is a file of the operator's. ``rule``
    names what found it, where that is not the rule's function alone."""

    cause: str
    next: str
    in_file: bool = False
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Hold what is known of a service without a listing: its ``steps`` are requests with their responses, if any."""

    settings: ServiceSettings
    steps: tuple[Step, ...]
    has_token: bool
    secrets: tuple[str, ...]
    credential: CredentialUnavailable | None = None

    @classmethod
    def of(
        cls, settings: ServiceSettings, failure: BaseException | None, secrets: Iterable[str], *, has_token: bool
    ) -> Self | None:
        """Return the trouble that ended the search for a listing; None for a failure of another kind."""
        addresses = settings.backend.url, settings.backend.listing.url or ""
        secrets = (*secrets, *(secret for address in addresses for secret in secrets_in(address)))
        if isinstance(failure, NoListing):
            known = prepare_secrets(secrets)
            return cls(settings, tuple(_redacted(step, known) for step in failure.steps), has_token, secrets)
        if not isinstance(failure, CredentialUnavailable):
            return None
        if not isinstance(error := failure.__cause__, OutboundError):
            return cls(settings, (), has_token, secrets, failure)
        late, unreachable = isinstance(error, DeadlinePassed), isinstance(error, ConnectFailed)
        login = Step("login", SourceAnswer(str(error), unreachable=unreachable, away=True, late=late))
        return cls(settings, (login,), has_token, secrets)

    @property
    def knob(self) -> str:
        """Return the knob with the address that was asked."""
        return self.settings.knob("backend.url" if self.settings.backend.listing.url is None else "backend.listing.url")

    @property
    def url(self) -> str:
        return self.settings.backend.listing.url or self.settings.backend.target

    @property
    def place(self) -> str:
        parts = urlsplit(self.url)
        return self.settings.backend.socket or parts.netloc or parts.path

    @property
    def calls(self) -> tuple[Step, ...]:
        """Return the steps that are JSON-RPC calls, or all where none is: other addresses may behave otherwise."""
        return tuple(step for step in self.steps if not step.question.startswith("GET ")) or self.steps

    @property
    def http(self) -> HttpFacts:
        """Return the first HTTP answer to a call, with the status 0 where there is none."""
        return next((step.answer.http for step in self.calls if step.answer.http is not None), _NO_ANSWER)

    @property
    def shown_by_get(self) -> HttpFacts:
        """Return the answer to a GET of the address, with the status 0 where there is none."""
        get = f"GET {urlsplit(self.url).path or '/'}"
        return next((step.answer.http for step in self.steps if step.question == get and step.answer.http), _NO_ANSWER)

    @property
    def speaks_json_rpc(self) -> bool:
        """Return whether an answer has a member of JSON-RPC's: other services answer {"error": "not found"}, too."""
        return any(step.answer.http and is_message(step.answer.http) for step in self.calls)

    def clean(self, found: Diagnosis) -> Diagnosis:
        """Return the diagnosis without secrets, which a service may quote, and safe to print."""
        secrets = prepare_secrets(self.secrets)
        cause, step = (printable(redact_text(text, secrets)) for text in (found.cause, found.next))
        if (socket := self.settings.backend.socket) is not None:  # what was asked, as it is configured
            step = step.replace("http://localhost/", f"unix+http:{socket}:/")
        return Diagnosis(cause, step, found.in_file)


def _redacted(step: Step, secrets: tuple[str, ...]) -> Step:
    """Return a step whose answer has no secrets: where a quote of it ends within one, the rest would not be found."""
    if (http := step.answer.http) is None:
        return step
    start = redact_text(http.start.decode("utf-8", "surrogateescape"), secrets).encode("utf-8", "surrogateescape")
    return replace(step, answer=replace(step.answer, http=replace(http, start=start)))


def is_message(http: HttpFacts) -> bool:
    """Return whether an answer has the members of a response of JSON-RPC 1.0 or 2.0."""
    try:
        value = jsonrpc.decode(http.start.strip())
    except ValueError:  # longer than what was kept
        return b'"jsonrpc"' in http.start
    names = value.keys() if isinstance(value, dict) else set()
    return "jsonrpc" in names or ("id" in names and not names.isdisjoint(("result", "error")))


class Elsewhere:
    """Ask through ``outbound``, without credentials. ``probe_listing`` raises ``NoListing`` where no dialect fits;
    ``ask_here`` asks the JSON-RPC endpoint itself, with the credential, and returns the result, None where there is
    none."""

    def __init__(
        self,
        outbound: HttpClient,
        tls: TlsFiles,
        probe_listing: Callable[[], Awaitable[Listing]],
        ask_here: Callable[[str, Any], Awaitable[Any]],
    ) -> None:
        self._outbound = outbound
        self._tls = tls
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self.probe_listing = probe_listing
        self.ask_here = ask_here

    async def speaks(self, url: str) -> bool:
        """Return whether a server of this scheme is at an address, also one whose certificate is not trusted."""
        try:
            await self._ask(url)
        except ConnectFailed as error:
            return "certificate" in str(error)
        except OutboundError:
            return False
        return True

    async def usual_paths(self, url: str, *, beside: bool = False) -> list[tuple[str, HttpFacts]]:
        """Return what answers at the other usual paths, with or without a slash at their end, and with ``beside`` at
        the folder of this one."""
        parts = urlsplit(url)
        own = parts.path.rstrip("/")
        folder = own.rpartition("/")[0] if beside else ""
        paths = [
            path
            for path in (own, f"{own}/", folder, *PATHS, *(f"{path}/" for path in PATHS[1:5]))
            if path != parts.path
        ]
        asked = [urlunsplit((parts.scheme, parts.netloc, path, "", "")) for path in dict.fromkeys(paths) if path]
        answers = await asyncio.gather(*map(self.facts, asked))
        return list(zip(asked, answers, strict=True))

    async def facts(self, url: str, verb: str = "POST") -> HttpFacts:
        """Return what an address answers, :data:`_NO_ANSWER` where it answers nothing."""
        try:
            async with self._at_once:
                answer = await self._ask(url, verb=verb)
        except OutboundError:
            return _NO_ANSWER
        return HttpFacts(answer.status, answer.content_type, answer.headers, bytes(answer.body[:_FIRST_BYTES]))

    async def result(self, url: str, method: str, params: Any = None) -> Any:
        """Return the result of a method, None where there is none. As an event stream, too, as MCP servers answer."""
        try:
            body = (await self._ask(url, method, params)).body
            message = jsonrpc.decode(body[body.find(b"{") : body.rfind(b"}") + 1])
        except (OutboundError, ValueError):
            return None
        return message.get("result") if isinstance(message, dict) else None

    async def openapi(self, url: str) -> str | None:
        """Return the address of an OpenAPI document beside a URL."""
        addresses = [urljoin(url, path) for path in OPENAPI]
        pages = [await self.facts(address, "GET") for address in addresses]
        return next((at for at, page in zip(addresses, pages, strict=True) if _OPENAPI.search(page.start)), None)

    async def opens_websocket(self, url: str) -> bool:
        """Return whether a WebSocket is opened at an address (RFC 6455 §4.1)."""
        parts = urlsplit(url)
        ask = f"GET {parts.path or '/'} HTTP/1.1\r\nHost: {parts.netloc}\r\n{_UPGRADE}\r\n"
        return (await self.first_bytes(url, ask.encode("ascii", "replace"))).startswith(b"HTTP/1.1 101")

    async def first_bytes(self, url: str, ask: bytes = _POST, *, plain: bool = False) -> bytes:
        """Return the first bytes that a server sends, whatever it speaks. ``plain`` leaves out the TLS of https."""
        tls = await asyncio.to_thread(self._tls.context) if url.startswith("https:") and not plain else None
        with contextlib.suppress(OSError, TimeoutError):
            async with _connection(url, tls, self._tls.server_name) as (reader, writer):
                writer.write(ask)
                return await reader.read(_FIRST_BYTES)
        return b""

    async def _ask(self, url: str, method: str = "rpc.discover", params: Any = None, verb: str = "POST") -> Answer:
        question = jsonrpc.request_bytes(_ID, method, params) if verb == "POST" else b""
        return await self._outbound.request(verb, url, question, _ACCEPT, timeout=_PATIENCE, max_bytes=_MAX_BYTES)


async def certificate_of(url: str) -> tuple[list[str], str, str]:
    """Return names, SHA-256 and end of a server's certificate, valid or not, as ``read_certificate`` does."""
    blind = ssl.create_default_context()
    blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
    try:
        async with _connection(url, blind) as (_, writer):
            return read_certificate(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
    except (OSError, TimeoutError, ValueError):
        return [], "", ""


@contextlib.asynccontextmanager
async def _connection(url: str, tls: ssl.SSLContext | None, name: str | None = None) -> AsyncIterator[_Streams]:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    async with asyncio.timeout(_PATIENCE):
        reader, writer = await asyncio.open_connection(
            parts.hostname, port, ssl=tls, server_hostname=name if tls else None
        )
        with contextlib.closing(writer):
            yield reader, writer


Question: TypeAlias = Callable[[Elsewhere], Awaitable[Diagnosis | None]]
"""What takes another request to find out."""
