"""What is known of a service that gave no listing, and what more can be asked of it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit, urlunsplit

from gateway import jsonrpc
from gateway.backend.redaction import prepare_secrets, redact_text
from gateway.credentials.grants import CredentialUnavailable
from gateway.http_client.response import Answer, ConnectFailed, DeadlinePassed, OutboundError
from gateway.http_client.transport import Transport
from gateway.jsonrpc.response import parse_decoded_response
from gateway.listing.dialect import NoListing, Step
from gateway.model import HttpFacts, Listing, SourceAnswer
from gateway.settings import ServiceSettings
from gateway.text import printable

PATHS: Final = ("/jsonrpc", "/rpc", "/api/jsonrpc", "/api")
_PATIENCE: Final = 3.0
_MAX_BYTES: Final = 1024**2
_ID: Final = "where"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Hold a cause, and what to do next: a sentence each. ``in_file``: the cause is a file of the operator's."""

    cause: str
    next: str
    in_file: bool = False


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
        if isinstance(failure, NoListing):
            return cls(settings, failure.steps, has_token, tuple(secrets))
        if not isinstance(failure, CredentialUnavailable):
            return None
        if not isinstance(error := failure.__cause__, OutboundError):
            return cls(settings, (), has_token, tuple(secrets), failure)
        late, unreachable = isinstance(error, DeadlinePassed), isinstance(error, ConnectFailed)
        login = Step("login", SourceAnswer(str(error), unreachable=unreachable, away=True, late=late))
        return cls(settings, (login,), has_token, tuple(secrets))

    @property
    def knob(self) -> str:
        """Return the knob with the address that was asked."""
        return self.settings.knob("backend.url" if self.settings.backend.listing.url is None else "backend.listing.url")

    @property
    def url(self) -> str:
        return self.settings.backend.listing.url or self.settings.backend.url

    @property
    def place(self) -> str:
        return urlsplit(self.url).netloc

    @property
    def calls(self) -> tuple[Step, ...]:
        """Return the steps that are JSON-RPC calls, or all where none is: other addresses may behave otherwise."""
        return tuple(step for step in self.steps if not step.question.startswith("GET ")) or self.steps

    @property
    def http(self) -> HttpFacts | None:
        """Return the first HTTP answer to a call."""
        return next((step.answer.http for step in self.calls if step.answer.http is not None), None)

    def clean(self, found: Diagnosis) -> Diagnosis:
        """Return the diagnosis without secrets, which a service may quote, and safe to print."""
        secrets = prepare_secrets(self.secrets)
        cause, step = (printable(redact_text(text, secrets)) for text in (found.cause, found.next))
        return Diagnosis(cause, step, found.in_file)


class Elsewhere:
    """Ask through ``outbound``, without credentials. ``probe_listing`` raises ``NoListing`` where no dialect fits."""

    def __init__(self, outbound: Transport, probe_listing: Callable[[], Awaitable[Listing]]) -> None:
        self._outbound = outbound
        self.probe_listing = probe_listing

    async def speaks(self, url: str) -> bool:
        """Return whether a server of this scheme is at an address, also one whose certificate is not trusted."""
        try:
            await self._ask(url)
        except ConnectFailed as error:
            return "certificate" in str(error)
        except OutboundError:
            return False
        return True

    async def find_endpoint(self, url: str) -> str | None:
        """Return the address of the first JSON-RPC endpoint at a usual path, with or without a slash at its end."""
        parts = urlsplit(url)
        own = parts.path.rstrip("/")
        paths = [form for path in (own, *PATHS) for form in (path, f"{path}/") if form and form != parts.path]
        asked = [urlunsplit((parts.scheme, parts.netloc, path, "", "")) for path in dict.fromkeys(paths)]
        found = await asyncio.gather(*map(self._is_endpoint, asked))
        return next((url for url, is_one in zip(asked, found, strict=True) if is_one), None)

    async def _is_endpoint(self, url: str) -> bool:
        try:
            value = jsonrpc.decode((await self._ask(url)).body.strip())
            parse_decoded_response(value, _ID)
        except (OutboundError, ValueError):
            return False
        # Other services answer {"error": "not found"}, without these members.
        return "jsonrpc" in value or "id" in value

    async def _ask(self, url: str) -> Answer:
        question = jsonrpc.request_bytes(_ID, "rpc.discover", None)
        return await self._outbound.request("POST", url, question, {}, timeout=_PATIENCE, max_bytes=_MAX_BYTES)
