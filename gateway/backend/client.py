"""Send JSON-RPC calls to the backend, and say what came of them.

A call is sent once. :mod:`gateway.backend.resending` names the exceptions.
"""

import asyncio
import itertools
import math
import random
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import structlog
from msgspec import structs

from gateway import errors, jsonrpc
from gateway.backend.admission import CallAdmission
from gateway.backend.breaker import INTERVAL, CircuitOpen
from gateway.backend.params import ParamsValue
from gateway.backend.queue import NoTurn, QueueFull
from gateway.backend.redaction import ErrorRedactor, redact_result, written_forms
from gateway.backend.request_parts import RequestParts
from gateway.backend.resending import Attempts, Reason
from gateway.backend.transport import UNKNOWN, UNSENT, Outgoing, Refusal, Reply
from gateway.concurrency.turns import Turns, run_in_turns
from gateway.http_client import response
from gateway.http_client.response import OutboundError
from gateway.jsonrpc.bounds import SMALL, UNSCANNED, echoes_unquoted, value_cost
from gateway.jsonrpc.mending import json_fault, mend_in_steps
from gateway.jsonrpc.response import ResponseError, parse_large_response, parse_response
from gateway.model import NO_RESULT, Binding, Version
from gateway.telemetry import tracing
from gateway.telemetry.record import RECORD, REQUEST_ID

_ONE: Final = Version.ONE
_REFUSED: Final = "The backend refuses the credential that it was sent"
NOT_JSON: Final = f"The backend did not answer with JSON ({{}}); {UNKNOWN}"
UNQUOTED: Final = "; it does not quote the id: set backend.ids to integer"
_RETRY_UNSENT: Final = 5
"""Seconds after which a caller may repeat a call that got no connection."""
_PAUSE: Final = (0.05, 0.15)
"""Least and most seconds before a call is sent again. Chance decides, so that many callers do not come together."""
_REFUSALS: Final = (-32602, -32600, -32700)
"""Codes for params of the wrong structure: of most services, of fastapi-jsonrpc, and of Ethereum clients."""

_NOT_IN_TIME: Final = "No connection to the backend came free in time"
_NOT_SENT: Final = f"the call {UNSENT}"

# The caller's error for each failure of a transport: what was seen, and what became of the call. No text names the
# backend's host: a stranger may read it.
_FAULTS: Final[dict[type[OutboundError], tuple[type[errors.ToolFault], str, str]]] = {
    response.ConnectFailed: (errors.BackendUnavailable, "The backend is unavailable", _NOT_SENT),
    response.NoConnection: (errors.BackendBusy, _NOT_IN_TIME, _NOT_SENT),
    NoTurn: (errors.BackendBusy, _NOT_IN_TIME, _NOT_SENT),
    QueueFull: (errors.BackendBusy, "Too many calls wait for the backend", f"this one {UNSENT}"),
    CircuitOpen: (errors.BackendBusy, "{}", _NOT_SENT),
    response.Interrupted: (errors.BackendUnavailable, "The backend closed the connection", UNKNOWN),
    response.DeadlinePassed: (errors.BackendTimeout, "The backend did not answer in time", UNKNOWN),
    response.NoRoom: (errors.BackendBusy, "The gateway holds too many answers to read this one", UNKNOWN),
    response.AnswerTooLarge: (errors.BadBackendAnswer, "The backend's answer is too large", UNKNOWN),
    response.BadHttp: (errors.BadBackendAnswer, "The backend's answer is not HTTP", UNKNOWN),
}
_REASONS: Final = {response.ConnectFailed: Reason.UNSENT, response.Interrupted: Reason.BROKEN_OFF}
"""Failures after which a call may be sent again. All others leave no time for it, or are an answer."""

_record: Final = RECORD.get
log = structlog.get_logger()


class BackendClient:
    """Send JSON-RPC calls to the backend at ``url``. A method may have another path, but only on the same origin.
    An answer has at most ``max_bytes``, after decompression. With ``passes_errors`` a fault also carries the service's
    own error. ``secrets`` are removed from results, too. With ``lenient`` an answer that is no sound JSON is mended."""

    def __init__(
        self,
        admission: CallAdmission,
        url: str,
        max_bytes: int,
        redactor: ErrorRedactor,
        secrets: Sequence[str] = (),
        *,
        passes_errors: bool = False,
        lenient: bool = True,
    ) -> None:
        self.url = url
        self._admission = admission
        self._max_bytes = max_bytes
        self._redactor = redactor
        self._secrets = tuple(secrets)
        self._secrets_in_results = written_forms(secrets)
        self._passes_errors = passes_errors
        self._lenient = lenient
        self._ids = itertools.count(2)  # to Python, true is 1

    def __repr__(self) -> str:
        return f"<BackendClient {urlsplit(self.url).netloc} via {self._admission!r}>"  # paths may hold a token

    async def call_method(
        self,
        binding: Binding,
        params: ParamsValue,
        attempts: Attempts,
        parts: RequestParts,
        *,
        as_written: bool,
    ) -> Any:
        """Return the ``result`` of a call; with ``as_written`` a large one may come as :data:`~gateway.jsonrpc.Raw`.
        Return :data:`NO_RESULT` for a notification, also where the service responds to it. Raises
        :class:`~gateway.errors.ToolFault`, whose message the caller may read: those in :data:`_FAULTS`, and
        :class:`~gateway.errors.BackendUnauthorized` for a status by which the backend refuses the credential, whatever
        the body says."""
        # Some services echo an integer id as a string or null; a short string comes back as it went.
        number = None if binding.notification else next(self._ids)
        id = number if number is None or binding.form.integer_ids else f"c{number}"
        while True:
            outgoing = self._outgoing(id, binding, params, parts)
            try:
                reply = await self._admission.send(outgoing, attempts, max_bytes=self._max_bytes)
                break
            except OutboundError as error:
                self._check_repeat(error, binding.method, attempts)
            await asyncio.sleep(random.uniform(*_PAUSE))  # noqa: S311, not a secret
        if reply.refused is not None and reply.refused is Refusal.CREDENTIAL:
            _record().note_failure(errors.BackendUnauthorized.slug)
            raise errors.BackendUnauthorized(_REFUSED)
        try:
            try:
                result = self._read(reply, id, binding, parts, as_written=as_written)
            except ValueError as error:
                if id is None and reply.is_success:
                    return NO_RESULT
                result, reply = await self._read_mended(reply, id, binding, parts, str(error), as_written=as_written)
        except errors.ToolFault as fault:
            _record().note_failure(fault.slug)
            raise
        # Nearly no response quotes what was sent, so the bytes are searched before the value is walked.
        forms = self._secrets_in_results
        if not parts.callers_own:  # callers may see their own token
            forms += parts.secrets_in_results() if parts.written_secrets is None else parts.written_secrets
        if forms and any(form in reply.body for form in forms):
            return await self._redacted(result, reply.body, parts)
        return result

    def _outgoing(self, id: str | int | None, binding: Binding, params: ParamsValue, parts: RequestParts) -> Outgoing:
        """Return the message of a call."""
        method, form = binding.method, binding.form
        url = None if binding.endpoint is None else same_origin(self.url, binding.endpoint)
        record = _record()
        headers = {REQUEST_ID: record.request_id} if record.request_id else {}
        if (traces := tracing.active) is not None:
            headers |= traces.headers(record, method, url or self.url)
        elif record.trace:
            headers |= record.trace
        if parts.headers:
            headers |= parts.headers  # the last word
        if parts.params or parts.arguments:
            params = parts.complete_params(params)
        body = (
            jsonrpc.request_bytes(id, method, params, form.version, **parts.message)
            if parts.message
            else jsonrpc.request_bytes(id, method, params, form.version)
        )
        return Outgoing(id, body, parts, headers, url, form)

    async def _redacted(self, result: Any, body: bytes, parts: RequestParts) -> Any:
        if type(result) is jsonrpc.Raw:
            _take_memory(value_cost(body))
            result = jsonrpc.decode(result)
        return await redact_result(result, self._secrets if parts.callers_own else (*self._secrets, *parts.secrets))

    def _check_repeat(self, error: OutboundError, method: str, attempts: Attempts) -> None:
        """Raise the caller's error for an exchange that failed, unless it may be made again."""
        kind, seen, effect = _FAULTS[type(error)]
        if not isinstance(error, NoTurn | QueueFull | CircuitOpen):  # else this one was not sent
            _record().note_failure(kind.slug)
        reason = _REASONS.get(type(error))
        again = reason is not None and attempts.may_repeat(reason)
        if not isinstance(error, CircuitOpen):  # which is logged when it opens
            log.warning("backend call failed", method=method, reason=str(error), fault=kind.slug, again=again)
        if not again:
            seconds = math.ceil(INTERVAL) if isinstance(error, CircuitOpen) else _RETRY_UNSENT
            retry_after = None if error.sent or kind is not errors.BackendBusy else seconds
            seen = seen.format(error)
            fault = kind(f"{seen}; {effect}", retry_after=retry_after)
            fault.seen = "" if effect is UNKNOWN else seen
            raise fault from error

    def _read(
        self, reply: Reply, id: str | int | None, binding: Binding, parts: RequestParts, *, as_written: bool
    ) -> Any:
        """Return the result in an answer, :data:`NO_RESULT` for a notification, which has no ``id``. Raise
        :class:`ValueError` for what is no response."""
        method = binding.method
        bare = binding.form.version is _ONE and reply.is_success and id is not None
        if len(reply.body) > UNSCANNED:
            _take_memory(len(reply.body), is_text=True)
        if as_written and len(reply.body) > SMALL:
            result, fault = parse_large_response(
                reply.body, id or "", bare=bare, alone=reply.is_alone, take=_take_memory
            )
        else:
            if len(reply.body) > UNSCANNED:
                _take_memory(value_cost(reply.body))
            result, fault = parse_response(reply.body, id or "", bare=bare, alone=reply.is_alone)
        if fault is not None:
            _record().note_failure(errors.BackendError.slug, fault.code or 0)
            busy = busy_fault(reply, method) if reply.is_throttled else None
            raise busy or self._fault(fault, method, reply, parts)
        return NO_RESULT if id is None else result

    async def _read_mended(
        self,
        reply: Reply,
        id: str | int | None,
        binding: Binding,
        parts: RequestParts,
        violation: str,
        *,
        as_written: bool,
    ) -> tuple[Any, Reply]:
        """Return the result in an answer that is no response, with its JSON mended, and that answer. Raise the fault of
        one that cannot be mended, or must not."""
        if len(reply.body) > UNSCANNED:
            _take_memory(2 * len(reply.body), is_text=True)
        mended = await run_in_turns(mend_in_steps(reply.body, id, self._max_bytes), Turns())
        if mended is not None and self._lenient:
            record, reply_again = _record(), structs.replace(reply, body=mended.body)
            record.note_mended(mended)
            try:
                return self._read(reply_again, id, binding, parts, as_written=as_written), reply_again
            except ValueError:
                record.mended = None
        raise self._not_a_response(reply, id, binding.method, violation, "" if mended is None else str(mended))

    def _fault(self, fault: ResponseError, method: str, reply: Reply, parts: RequestParts) -> errors.ToolFault:
        text = self._redactor.error_text(fault, parts.secrets)
        log.info("backend error", method=method, code=fault.code, message=text)
        if parts.refused_with(fault):
            return errors.BackendUnauthorized(_REFUSED)
        kind: type[errors.ToolFault] = errors.ParamsRefused if fault.code in _REFUSALS else errors.BackendError
        # Drupal answers a missing permission with HTTP 200 and -32600, and says so only in the data.
        if reply.refused is Refusal.CALLER or (isinstance(fault.data, str) and fault.data.startswith("Access Denied")):
            kind = errors.BackendDenied
        error = kind(text)
        if self._passes_errors:
            error.service_error = self._redactor.service_error(fault, parts.secrets)
        return error

    def _not_a_response(
        self, reply: Reply, id: str | int | None, method: str, violation: str, broken: str = ""
    ) -> errors.ToolFault:
        """Return the fault of an answer that is no response. ``broken`` says what is wrong with its JSON, if known."""
        if (busy := busy_fault(reply, method)) is not None:
            return busy
        http = reply.http
        seen = {} if http is None else {"status": http.status, "content_type": http.content_type}
        log.warning("backend answer unusable", method=method, **seen, reason=violation)
        if (failure := reply.failure()) is not None:
            return failure
        status = f" ({reply.label})" if http is not None and not reply.is_success else ""
        if not reply.body.strip():
            return errors.BadBackendAnswer(f"The backend's answer is empty{status}; {UNKNOWN}")
        try:
            jsonrpc.decode(reply.body)
        except ValueError:
            broken = broken or json_fault(reply.body)
            return errors.BadBackendAnswer(
                NOT_JSON.format(broken) + status + UNQUOTED * echoes_unquoted(reply.body, id)
            )
        knob = (
            "; the operator can set backend.version where it is 1.0"
            if reply.is_success and b'"jsonrpc"' not in reply.body
            else ""
        )
        words = f"The backend's answer{status} is not a JSON-RPC response: {violation}; {UNKNOWN}{knob}"
        return errors.BadBackendAnswer(words)


def _take_memory(size: int, *, is_text: bool = False) -> None:
    """Count memory for a response until its request ends. Raise the fault of :data:`_FAULTS` where there is no room."""
    if not _record().memory.take(size, is_text=is_text):
        kind, seen, effect = _FAULTS[response.NoRoom]
        raise kind(f"{seen}; {effect}")


def busy_fault(reply: Reply, method: str, *, unsent: bool = False) -> errors.BackendBusy | None:
    """Return the error for a reply that says when to come again, None for all others. ``unsent`` says that the caller's
    own call was not sent, since this one came before it."""
    if (seconds := reply.retry_after) is None:
        return None
    log.info("the backend is busy", method=method, status=reply.http and reply.http.status, retry_after=seconds)
    if not (reply.ran_nothing or unsent):
        words = f"The backend is busy ({reply.label}); {UNKNOWN}; come again after {seconds} s"
        return errors.BackendBusy(words, retry_after=seconds)
    words = f"The backend is busy and did not run the call ({reply.label}); it is safe to repeat after {seconds} s"
    fault = errors.BackendBusy(words, retry_after=seconds)
    fault.seen = f"The backend is busy ({reply.label})"
    return fault


def same_origin(url: str, path: str) -> str:
    """Return the URL of ``path`` on the origin of ``url``. Raises :class:`ValueError` where it leads to another origin:
    a listing must not send credentials to another host."""
    joined = urljoin(url, path)
    if urlsplit(joined)[:2] != urlsplit(url)[:2]:
        raise ValueError(f"{path} is not on the backend's origin")
    return joined
