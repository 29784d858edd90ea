"""Log in with a call of the service's own, and send what its answer gives: a token, a cookie, an id.

One login serves all callers and the listing until the service says that it has expired (``login.expired``). Then one
call logs in again, for all that wait; :meth:`Credential.renew` has the others sent again.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final

import structlog
from msgspec.structs import replace

from gateway import jsonrpc
from gateway.backend.client import UNQUOTED, busy_fault, same_origin
from gateway.backend.redaction import looks_secret, prepare_secrets, redact_text
from gateway.backend.refusals import RefusedBefore
from gateway.backend.request_parts import RequestParts
from gateway.backend.transport import Outgoing, Reply
from gateway.concurrency.single_flight import SingleFlight
from gateway.credentials.contract import Credential, parts_to_send
from gateway.credentials.grants import TIMEOUT, CredentialUnavailable, TokenClient, credential_unavailable
from gateway.http_client.response import OutboundError
from gateway.jsonrpc.bounds import echoes_unquoted
from gateway.jsonrpc.response import parse_response
from gateway.model import Caller
from gateway.settings.sending import Login, Send, fill, is_header_value, names_in
from gateway.text import excerpt

MAX_ANSWER: Final = 1024 * 1024
"""Bytes of the answer to a login."""
MAX_VALUE: Final = 8192
"""Characters of one value that is found in it."""
SETTLED: Final = 5.0
"""Seconds after a renewal in which refusals do not renew again: they have another reason, such as a lack of rights."""
_UNAUTHORIZED: Final = frozenset((401,))
_KEY: Final = b"login"
_REMEMBERED: Final = 4  # logins whose values are redacted: a late answer may quote one that has been renewed
_EXCERPT: Final = 200

log = structlog.get_logger()


class LoginCredential(Credential):
    """Send what a login gave. ``clock`` is monotonic seconds."""

    name = "login"
    shows = "what a login call of the service gives: a token, a cookie"
    sends_own_secret = True
    needs = (("login",), ("send",))
    refuses = ()

    def __init__(self, tokens: TokenClient, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(tokens)
        assert self._settings.login is not None and self._settings.send is not None  # noqa: S101, PT018, needs has them
        self._login: Login = self._settings.login
        self._send: Send = self._settings.send
        self._clock = clock
        self._id = 1 if tokens.backend.form.integer_ids else "login"
        self._parts: RequestParts | None = None
        self._logins = 0
        self._found: deque[tuple[str, ...]] = deque(maxlen=_REMEMBERED)
        self._flights = SingleFlight[bytes, RequestParts]()
        self._renewed_at = float("-inf")
        self._refusal = "the service did not let the gateway log in"

    async def request_parts(self, caller: Caller) -> RequestParts:
        parts = self._parts or await self._flights.join(_KEY, self._log_in)
        # In this time a refusal has another reason, so it is an error of the call like any other.
        return replace(parts, refusing_statuses=_UNAUTHORIZED, refusing_errors=()) if self._is_settling() else parts

    def discard_token(self, caller: Caller) -> None:
        if self._parts is not None and not self._is_settling():
            self._parts = None
            self._renewed_at = self._clock()

    def secrets(self) -> tuple[str, ...]:
        return (*super().secrets(), *(value for values in self._found for value in values))

    def _is_settling(self) -> bool:
        return self._clock() - self._renewed_at < SETTLED

    async def _log_in(self) -> RequestParts:
        try:
            async with self._tokens.tries.turn(always=True):
                return await self._try_login()
        except RefusedBefore as refusal:
            unavailable = CredentialUnavailable(f"login: {self._refusal}; {refusal}")
            unavailable.retry_after = math.ceil(refusal.wait) or 1
            raise unavailable from None

    async def _try_login(self) -> RequestParts:
        try:
            reply = await self._ask()
            found = _values_in(reply, self._login, self._id)
            values = self._given() | found
            self._found.append(tuple(filter(looks_secret, map(str, found.values()))))  # an id may be any number
            secrets = tuple(text for texts in self._found for text in texts)
            expired = self._login.expired
            self._logins += not self._tokens.backend.transport.has_documents  # over HTTP no connection keeps it
            statuses = _UNAUTHORIZED.union(one for one in expired if isinstance(one, int))
            parts = parts_to_send(
                self._send, values, known_secrets=secrets, refusing_statuses=statuses, refusing_errors=expired,
                login=self._logins,
            )  # fmt: skip
            if not all(map(is_header_value, parts.headers.values())):
                raise CredentialUnavailable("a value that it gives cannot be sent in a header")
        except CredentialUnavailable as refusal:
            if (fault := busy_fault(reply, self._login.method, unsent=True)) is not None:
                raise fault from None
            reason = excerpt(redact_text(refusal.reason, prepare_secrets(self.secrets())), _EXCERPT)
            if not refusal.busy:
                self._refusal = reason
                await self._tokens.tries.refuse(stops_calls=True)
            raise credential_unavailable(f"login: {reason}", busy=refusal.busy) from None
        except OutboundError as error:
            raise credential_unavailable(f"login: {error}") from error
        self._parts = parts
        await self._tokens.tries.accept()
        log.info("logged in at the backend", method=self._login.method)
        return parts

    async def _ask(self) -> Reply:
        backend, login = self._tokens.backend, self._login
        given = self._given()
        url = None if login.endpoint is None else same_origin(backend.url, login.endpoint)
        params = None if login.params is None else fill(login.params.get_secret_value(), given)
        parts = parts_to_send(_sent_at_login(self._send, given), given)
        body = jsonrpc.request_bytes(self._id, login.method, params if params is not None else [], backend.form.version)
        outgoing = Outgoing(self._id, body, parts, parts.headers, url, backend.form)
        return await backend.transport.send(outgoing, timeout=TIMEOUT, max_bytes=MAX_ANSWER)


def _sent_at_login(send: Send, given: Mapping[str, Any]) -> Send:
    """Return the headers and parameters of the query that need nothing of the answer to the login."""
    headers = {name: one for name, one in send.headers.items() if {*names_in(one.get_secret_value())} <= given.keys()}
    query = {name: one for name, one in send.query.items() if {*names_in(one.get_secret_value())} <= given.keys()}
    return Send(headers=headers, query=query)


def _values_in(reply: Reply, login: Login, id: str | int) -> dict[str, str | int]:
    """Return the values that ``login.find`` names, whatever the status: Transmission gives its id with a 409. Raises
    :class:`CredentialUnavailable` where one is missing, or is neither a text nor an integer."""
    result, reason = _result_of(reply, id)
    headers = {} if reply.http is None else reply.http.headers
    document = {
        "result": result,
        "message": _message_of(reply),
        "cookies": _cookies_of(headers),
        "headers": {name.lower(): value for name, value in headers.items()},
    }
    found: dict[str, str | int] = {}
    for name, path in login.find.items():
        try:
            value = path.first(document)
        except ValueError as error:
            raise CredentialUnavailable(str(error)) from None
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "" or len(str(value)) > MAX_VALUE:
            raise CredentialUnavailable(
                f"{reply.label}{reason}; no text or integer at {path}, which find.{name} needs",
                busy=not reason and reply.cannot_serve,
            )
        found[name] = value
    return found


def _message_of(reply: Reply) -> Any:
    """Return the whole response: FortiManager's session stands beside its result."""
    try:
        return jsonrpc.decode(reply.body.strip())
    except ValueError:
        return None


def _result_of(reply: Reply, id: str | int) -> tuple[Any, str]:
    """Return the result, None where there is none, and what else the answer says."""
    try:
        result, error = parse_response(reply.body, id, bare=True, alone=reply.is_alone)
    except ValueError:
        return None, UNQUOTED * echoes_unquoted(reply.body, id)
    code = "" if error is None or error.code is None else f" {error.code}"
    return result, "" if error is None else f", error{code}: {error.message}"


def _cookies_of(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the cookies that an answer sets, by name; the later one counts."""
    cookies: dict[str, str] = {}
    for name, header in headers.items():
        if name.lower() == "set-cookie":
            try:
                cookies |= {key: morsel.coded_value for key, morsel in SimpleCookie(header).items()}
            except CookieError:
                continue
    return cookies
