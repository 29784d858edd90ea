"""Send JSON-RPC calls to the backend.

Services disagree about everything around the message: the same error comes as HTTP 200, 400 or 500, with four
content types or none. So the body is parsed first whenever it is JSON, and the status only counts where it is not. But
a 429 or 503 that names a time to come again has not run the call, whatever error it holds.
A call is sent once. :mod:`gateway.backend.resending` names the exceptions.
"""

import asyncio
import itertools
import math
import random
import re
import time
from calendar import timegm
from collections.abc import Sequence
from email.utils import parsedate
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import structlog

from gateway import errors, jsonrpc
from gateway.backend.admission import CallAdmission
from gateway.backend.breaker import INTERVAL, CircuitOpen
from gateway.backend.queue import NoTurn, QueueFull
from gateway.backend.redaction import ErrorRedactor, redact_result, written_forms
from gateway.backend.request_parts import RequestParts
from gateway.backend.resending import Attempts, Reason
from gateway.http_client import response
from gateway.http_client.response import Answer, OutboundError
from gateway.jsonrpc.bounds import SMALL, UNSCANNED, echoes_unquoted, value_cost
from gateway.jsonrpc.response import ResponseError, parse_large_response, parse_response
from gateway.model import NO_RESULT, MessageForm, Version
from gateway.telemetry import tracing
from gateway.telemetry.record import RECORD, REQUEST_ID

HEADERS: Final = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "jsonrpc-mcp-gateway"}
"""Headers of every request to the backend."""
_ONE: Final = Version.ONE
_REFUSED: Final = "The backend refuses the credential that it was sent"
NOT_JSON: Final = "The backend did not answer with JSON"
UNQUOTED: Final = "; it does not quote the id: set backend.ids to integer"
_BUSY_STATUSES: Final = (429, 503)
MAX_RETRY_AFTER: Final = 300
_SECONDS: Final = re.compile("[0-9]{1,9}")
_RETRY_UNSENT: Final = 5
"""Seconds after which a caller may repeat a call that got no connection."""
_PAUSE: Final = (0.05, 0.15)
"""Least and most seconds before a call is sent again. Chance decides, so that many callers do not come together."""
_REFUSALS: Final = (-32602, -32600, -32700)
"""Codes for params of the wrong structure: of most services, of fastapi-jsonrpc, and of Ethereum clients."""

_UNSENT: Final = "was not sent, so it is safe to repeat"
_UNKNOWN: Final = "whether the call took effect is unknown"
_NOT_IN_TIME: Final = f"No connection to the backend came free in time; the call {_UNSENT}"

# The caller's error for each failure of the HTTP client. No text names the backend's host: a stranger may read it.
_FAULTS: Final[dict[type[OutboundError], tuple[type[errors.ToolFault], str]]] = {
    response.ConnectFailed: (errors.BackendUnavailable, "The backend is unavailable"),
    response.NoConnection: (errors.BackendBusy, _NOT_IN_TIME),
    NoTurn: (errors.BackendBusy, _NOT_IN_TIME),
    QueueFull: (errors.BackendBusy, f"Too many calls wait for the backend; this one {_UNSENT}"),
    CircuitOpen: (errors.BackendBusy, f"{{}}; the call {_UNSENT}"),
    response.Interrupted: (errors.BackendUnavailable, f"The backend closed the connection; {_UNKNOWN}"),
    response.DeadlinePassed: (errors.BackendTimeout, f"The backend did not answer in time; {_UNKNOWN}"),
    response.NoRoom: (errors.BackendBusy, f"The gateway holds too many answers to read this one; {_UNKNOWN}"),
    response.AnswerTooLarge: (errors.BadBackendAnswer, "The backend's answer is too large"),
    response.BadHttp: (errors.BadBackendAnswer, "The backend's answer is not HTTP"),
}
_REASONS: Final = {response.ConnectFailed: Reason.UNSENT, response.Interrupted: Reason.BROKEN_OFF}
"""Failures after which a call may be sent again. All others leave no time for it, or are an answer."""

_record: Final = RECORD.get
log = structlog.get_logger()


class BackendClient:
    """Send JSON-RPC calls to the backend at ``url``. A method may have another path, but only on the same origin.
    An answer has at most ``max_bytes``, after decompression. With ``passes_errors`` a fault also carries the service's
    own error. ``secrets`` are removed from results, too."""

    def __init__(
        self,
        admission: CallAdmission,
        url: str,
        max_bytes: int,
        redactor: ErrorRedactor,
        secrets: Sequence[str] = (),
        *,
        passes_errors: bool = False,
    ) -> None:
        self.url = url
        self._admission = admission
        self._max_bytes = max_bytes
        self._redactor = redactor
        self._secrets = tuple(secrets)
        self._secrets_in_results = written_forms(secrets)
        self._passes_errors = passes_errors
        self._ids = itertools.count(2)  # to Python, true is 1

    def __repr__(self) -> str:
        return f"<BackendClient {urlsplit(self.url).netloc} via {self._admission!r}>"  # paths may hold a token

    async def call_method(
        self,
        method: str,
        params: dict[str, Any] | list[Any] | None,
        *,
        attempts: Attempts,
        parts: RequestParts,
        endpoint: str | None = None,
        form: MessageForm,
        is_notification: bool = False,
        as_written: bool = False,
    ) -> Any:
        """Return the ``result`` of a call; with ``as_written`` a large one may come as :data:`~gateway.jsonrpc.Raw`.
        Return :data:`NO_RESULT` for a notification, also where the service responds to it. Raises
        :class:`~gateway.errors.ToolFault`, whose message the caller may read: those in :data:`_FAULTS`, and
        :class:`~gateway.errors.BackendUnauthorized` for a status by which the backend refuses the credential, whatever
        the body says."""
        # Some services echo an integer id as a string or null; a short string comes back as it went.
        id = None if is_notification else next(self._ids) if form.integer_ids else f"c{next(self._ids)}"
        while True:
            url, body, headers = self._request(id, method, params, parts, endpoint, form.version)
            try:
                answer = await self._admission.post(url, body, headers, attempts, max_bytes=self._max_bytes)
                break
            except OutboundError as error:
                self._check_repeat(error, method, attempts)
            await asyncio.sleep(random.uniform(*_PAUSE))  # noqa: S311, not a secret
        if answer.status in parts.refusing_statuses:
            _record().note_failure(errors.BackendUnauthorized.slug)
            raise errors.BackendUnauthorized(_REFUSED)
        try:
            result = self._read(answer, id, method, parts, form.version, as_written and len(answer.body) > SMALL)
        except errors.ToolFault as fault:
            _record().note_failure(fault.slug)
            raise
        # Nearly no response quotes what was sent, so the bytes are searched before the value is walked.
        forms = self._secrets_in_results
        if not parts.callers_own:  # callers may see their own token
            forms += parts.secrets_in_results() if parts.written_secrets is None else parts.written_secrets
        if forms and _contains_any(answer.body, forms):
            return await self._redacted(result, answer.body, parts)
        return result

    def _request(
        self,
        id: str | int | None,
        method: str,
        params: dict[str, Any] | list[Any] | None,
        parts: RequestParts,
        endpoint: str | None,
        version: Version,
    ) -> tuple[str, bytes, dict[str, str]]:
        """Return the URL, the body and the headers of a call. The headers of the credential come last."""
        url = self.url if endpoint is None else same_origin(self.url, endpoint)
        if parts.query:
            url = parts.url(url)
        record = _record()
        headers = {REQUEST_ID: record.request_id} if record.request_id else {}
        if (traces := tracing.active) is not None:
            headers |= traces.headers(record, method, url)
        elif record.trace:
            headers |= record.trace
        if parts.headers:
            headers |= parts.headers
        if parts.params or parts.arguments:
            params = parts.complete_params(params)
        body = (
            jsonrpc.request_bytes(id, method, params, version, **parts.message)
            if parts.message
            else jsonrpc.request_bytes(id, method, params, version)
        )
        return url, body, headers

    async def _redacted(self, result: Any, body: bytes, parts: RequestParts) -> Any:
        if type(result) is jsonrpc.Raw:
            _take_memory(value_cost(body))
            result = jsonrpc.decode(result)
        return await redact_result(result, self._secrets if parts.callers_own else (*self._secrets, *parts.secrets))

    def _check_repeat(self, error: OutboundError, method: str, attempts: Attempts) -> None:
        """Raise the caller's error for an exchange that failed, unless it may be made again."""
        kind, message = _FAULTS[type(error)]
        if not isinstance(error, NoTurn | QueueFull | CircuitOpen):  # else this one was not sent
            _record().note_failure(kind.slug)
        reason = _REASONS.get(type(error))
        again = reason is not None and attempts.may_repeat(reason)
        if not isinstance(error, CircuitOpen):  # which is logged when it opens
            log.warning("backend call failed", method=method, reason=str(error), fault=kind.slug, again=again)
        if not again:
            raise kind(message.format(error), retry_after=_retry_unsent(error)) from error

    def _read(
        self, answer: Answer, id: str | int | None, method: str, parts: RequestParts, version: Version, as_written: bool
    ) -> Any:
        """Return the result in an answer, :data:`NO_RESULT` for a notification, which has no ``id``."""
        if id is None and answer.status < 300 and not answer.body.strip():
            return NO_RESULT
        try:
            bare = version is _ONE and answer.status < 300 and id is not None
            if len(answer.body) > UNSCANNED:
                _take_memory(len(answer.body), is_text=True)
            if as_written:
                result, fault = parse_large_response(answer.body, id or "", bare=bare, take=_take_memory)
            else:
                if len(answer.body) > UNSCANNED:
                    _take_memory(value_cost(answer.body))
                result, fault = parse_response(answer.body, id or "", bare=bare)
        except ValueError as error:
            if id is None and answer.status < 300:
                return NO_RESULT
            raise busy_fault(answer, method) or self._not_a_response(answer, id, method, str(error)) from None
        if fault is not None:
            _record().note_failure(errors.BackendError.slug, fault.code or 0)
            raise busy_fault(answer, method) or self._fault(fault, method, answer, parts)
        return NO_RESULT if id is None else result

    def _fault(self, fault: ResponseError, method: str, answer: Answer, parts: RequestParts) -> errors.ToolFault:
        text = self._redactor.error_text(fault, parts.secrets)
        service_error = self._redactor.service_error(fault, parts.secrets) if self._passes_errors else None
        log.info("backend error", method=method, code=fault.code, message=text)
        if parts.refused_with(fault):
            return errors.BackendUnauthorized(_REFUSED)
        # Drupal answers a missing permission with HTTP 200 and -32600, and says so only in the data.
        if answer.status == 403 or (isinstance(fault.data, str) and fault.data.startswith("Access Denied")):
            return errors.BackendDenied(text, service_error=service_error)
        return (errors.ParamsRefused if fault.code in _REFUSALS else errors.BackendError)(
            text, service_error=service_error
        )

    def _not_a_response(self, answer: Answer, id: str | int | None, method: str, violation: str) -> errors.ToolFault:
        log.warning(
            "backend answer unusable",
            method=method,
            status=answer.status,
            content_type=answer.content_type,
            reason=violation,
        )
        if answer.status == 403:
            return errors.BackendDenied("The backend refuses this caller")
        if answer.status == 503:
            return errors.BackendBusy("The backend cannot serve now (HTTP 503)")
        if answer.status >= 500:
            return errors.BackendUnavailable(f"The backend failed (HTTP {answer.status})")
        if 300 <= answer.status < 400:
            return errors.BadBackendAnswer("The backend redirects, which is not followed")
        if not answer.body.strip():
            return errors.BadBackendAnswer("The backend's answer is empty")
        try:
            jsonrpc.decode(answer.body)
        except ValueError:
            return errors.BadBackendAnswer(NOT_JSON + UNQUOTED * echoes_unquoted(answer.body, id))
        knob = (
            "; the operator can set backend.version where it is 1.0"
            if answer.status == 200 and b'"jsonrpc"' not in answer.body
            else ""
        )
        return errors.BadBackendAnswer(f"The backend's answer is not a JSON-RPC response: {violation}{knob}")


def _take_memory(size: int, *, is_text: bool = False) -> None:
    """Count memory for a response until its request ends. Raise the fault of :data:`_FAULTS` where there is no room."""
    if not _record().memory.take(size, is_text=is_text):
        kind, message = _FAULTS[response.NoRoom]
        raise kind(message)


def _contains_any(body: bytes, forms: tuple[bytes, ...]) -> bool:
    return any(form in body for form in forms)


def _retry_unsent(error: OutboundError) -> int | None:
    """Seconds after which to repeat what was not sent."""
    if isinstance(error, CircuitOpen):
        return math.ceil(INTERVAL)
    return _RETRY_UNSENT if isinstance(error, response.NoConnection | QueueFull) else None


def busy_fault(answer: Answer, method: str) -> errors.BackendBusy | None:
    """Return the error for an answer that says when to come again. None for all others."""
    seconds = _retry_after(answer.headers.get("Retry-After", "")) if answer.status in _BUSY_STATUSES else None
    if seconds is None:
        return None
    log.info("the backend is busy", method=method, status=answer.status, retry_after=seconds)
    words = (
        f"The backend is busy and did not run the call (HTTP {answer.status}); it is safe to repeat after {seconds} s"
    )
    return errors.BackendBusy(words, retry_after=seconds)


def _retry_after(text: str) -> int | None:
    """Return the seconds that a Retry-After names (RFC 9110 §10.2.3), 0 for a date that is over. None where it cannot
    be read, and for a wait beyond :data:`MAX_RETRY_AFTER`."""
    try:
        # An HTTP date is in GMT, whatever zone it names (§5.6.7).
        seconds = int(text) if _SECONDS.fullmatch(text) else math.ceil(timegm(parsedate(text) or ()) - time.time())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return max(0, seconds) if seconds <= MAX_RETRY_AFTER else None


def same_origin(url: str, path: str) -> str:
    """Return the URL of ``path`` on the origin of ``url``. Raises :class:`ValueError` where it leads to another origin:
    a listing must not send credentials to another host."""
    joined = urljoin(url, path)
    if urlsplit(joined)[:2] != urlsplit(url)[:2]:
        raise ValueError(f"{path} is not on the backend's origin")
    return joined
