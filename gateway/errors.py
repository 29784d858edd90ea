"""Every failure the gateway can answer with.

An error class *is* a row of the table: the JSON-RPC ``code``, the HTTP ``status`` that REST answers (an MCP
era may choose another for a JSON-RPC error, see :mod:`gateway.mcp`), the ``slug`` that REST clients match on, and
whether the failure ``refuses`` the HTTP exchange itself. What does not refuse and is a :class:`ToolFault` reads
as a tool result with ``isError: true`` on MCP.

MCP reserves -32768..-32000 (2026-07-28, basic/index "Error codes"), so a code of our own is the HTTP status as a
positive integer. Messages are written for the caller: they never hold a backend's host, a stack or a token.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar


class GatewayError(Exception):
    """Base of all failures that have an answer.

    ``data`` is JSON for the error's ``data`` member; ``retry_after`` is in seconds and becomes ``Retry-After``.
    """

    code: ClassVar[int] = -32603
    status: ClassVar[int] = 500
    slug: ClassVar[str] = "internal_error"
    refuses: ClassVar[bool] = False

    def __init__(self, message: str, *, data: object = None, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.data = data
        self.retry_after = retry_after


class InternalError(GatewayError):
    """Something unforeseen; the text is fixed and the cause is only in the log."""

    def __init__(self) -> None:
        super().__init__("Internal error")


# --- JSON-RPC 2.0 §5.1 and what MCP adds to it -----------------------------------------------------------------


class ParseError(GatewayError):
    """The body is not JSON (RFC 8259) in UTF-8."""

    code, status, slug = -32700, 400, "invalid_json"


class InvalidRequest(GatewayError):
    """The body is JSON but not the one JSON-RPC 2.0 message that is expected."""

    code, status, slug = -32600, 400, "invalid_request"


class MethodNotFound(GatewayError):
    """No such MCP method, or one whose capability is not offered."""

    code, status, slug = -32601, 404, "method_not_found"


class InvalidParams(GatewayError):
    """The parameters of an MCP method do not have its shape."""

    code, status, slug = -32602, 400, "invalid_params"


class MissingParameter(InvalidParams):
    """A REST request lacks a parameter."""

    slug = "missing_parameter"


class InvalidCursor(InvalidParams):
    """A cursor that this gateway did not issue, or to another caller, or too long ago."""

    slug = "invalid_cursor"


class UnknownTool(InvalidParams):
    """No such tool in the caller's view."""

    status, slug = 404, "tool_not_found"


class InvalidEnvelope(GatewayError):
    """The request's ``_meta`` lacks what 2026-07-28 requires of every request (basic/index "Request metadata")."""

    code, status, slug = -32602, 400, "invalid_envelope"


class HeaderMismatch(GatewayError):
    """A standard header is absent, malformed, repeated or disagrees with the body (SEP-2243)."""

    code, status, slug = -32020, 400, "header_mismatch"


class MissingCapability(GatewayError):
    """The tool needs something of the client that the client did not declare; ``data`` names it."""

    code, status, slug = -32021, 400, "missing_client_capability"


class UnsupportedVersion(GatewayError):
    """A protocol revision that is not served here."""

    code, status, slug = -32022, 400, "unsupported_protocol_version"


class BatchTooLarge(GatewayError):
    """An answer beyond what the answers of a JSON-RPC batch may have together; the error of its item alone."""

    code, status, slug = 413, 413, "batch_too_large"


# --- The HTTP exchange is refused ------------------------------------------------------------------------------


class Refused(GatewayError):
    """The exchange ends with this HTTP status whatever the protocol."""

    refuses = True


class Challenged(Refused):
    """A refusal that tells the client how to come back: ``WWW-Authenticate`` (RFC 6750 §3).

    ``error`` is a word of RFC 6750 §3.1 and the message a fixed sentence; ``scopes`` are all that the request needs;
    ``scheme`` is Bearer or DPoP.
    """

    def __init__(
        self,
        message: str,
        *,
        error: str | None = None,
        scopes: Iterable[str] = (),
        scheme: str = "Bearer",
    ) -> None:
        super().__init__(message)
        self.error = error
        self.scopes = tuple(sorted(scopes))
        self.scheme = scheme


class Unauthorized(Challenged):
    """There is no token, or one that does not count here."""

    code, status, slug = 401, 401, "unauthorized"


class MalformedAuthorization(Challenged):
    """Authorization that cannot be read: two tokens, a token in the query, characters that no token has."""

    code, status, slug = 400, 400, "invalid_authorization"


class InsufficientScope(Challenged):
    """The token does not grant what the request needs; the challenge names all of it."""

    code, status, slug = 403, 403, "insufficient_scope"


class AuthUnavailable(Refused):
    """Whether a token is good cannot be told now: no usable keys, or no answer of the issuer. Never a 401, for which
    clients would throw their tokens away."""

    code, status, slug = 503, 503, "auth_unavailable"


class MalformedHttp(Refused):
    """The request is not HTTP as RFC 9112 has it, or readers may understand its framing differently."""

    code, status, slug = 400, 400, "malformed_http"


class Forbidden(Refused):
    code, status, slug = 403, 403, "forbidden"


class NotFound(Refused):
    code, status, slug = 404, 404, "not_found"


class MethodNotAllowed(Refused):
    code, status, slug = 405, 405, "method_not_allowed"

    def __init__(self, message: str, *, allow: str) -> None:
        super().__init__(message)
        self.allow = allow


class NotAcceptable(Refused):
    code, status, slug = 406, 406, "not_acceptable"


class RequestTimeout(Refused):
    code, status, slug = 408, 408, "request_timeout"


class TooLarge(Refused):
    code, status, slug = 413, 413, "too_large"


class UnsupportedMediaType(Refused):
    code, status, slug = 415, 415, "unsupported_media_type"


class ExpectationFailed(Refused):
    code, status, slug = 417, 417, "expectation_failed"


class MisdirectedRequest(Refused):
    """The Host header names none of this gateway's names: DNS rebinding, or ``server.allowed_hosts`` is incomplete."""

    code, status, slug = 421, 421, "misdirected_request"


class RateLimited(Refused):
    code, status, slug = 429, 429, "rate_limited"


class SessionNotFound(Refused):
    """A session of an older era that ended, expired, or is another caller's. Clients initialize again."""

    code, status, slug = -32600, 404, "session_not_found"


class CatalogUnavailable(Refused):
    """There is no listing to show, fresh or stale: never an empty list that a client would believe."""

    code, status, slug = 503, 503, "catalog_unavailable"


# --- A tool call came to nothing: isError on MCP, 4xx and 5xx on REST -------------------------------------------


@dataclass(frozen=True, slots=True)
class ServiceError:
    """A service's own JSON-RPC error, its message and data cleaned."""

    code: int
    message: str
    data: object = None


class ToolFault(GatewayError):
    """The call was understood, and failed.

    ``service_error`` is the service's own error where ``backend.errors: passed`` has it shown, by ``/jsonrpc`` and the
    tools' own paths alone: MCP reserves the codes that most services use.
    """

    slug = "execution_error"

    def __init__(
        self,
        message: str,
        *,
        data: object = None,
        retry_after: int | None = None,
        passed: ServiceError | None = None,
    ) -> None:
        super().__init__(message, data=data, retry_after=retry_after)
        self.service_error = passed


class InvalidArguments(ToolFault):
    """The arguments break the tool's input schema; the backend was not touched."""

    code, status, slug = -32602, 400, "invalid_arguments"


class ConfirmationRequired(ToolFault):
    """A person has to agree to this call, and this surface cannot ask one."""

    code, status, slug = 403, 403, "confirmation_required"


class CapabilityRequired(ToolFault):
    """The tool needs something of the client that clients of this surface do not declare."""

    code, status, slug = 403, 403, "capability_required"


class InputRequired(ToolFault):
    """The backend asks the client for more input, and this surface cannot pass the question on."""

    code, status, slug = 403, 403, "input_required"


class BackendError(ToolFault):
    """The backend answered with a JSON-RPC error; the message is cleaned for strangers' eyes."""


class ParamsRefused(BackendError):
    """A backend's error that may mean that ``params`` came in the wrong shape."""


class BackendDenied(ToolFault):
    """The backend refuses this caller: its 403, or Drupal's "Access Denied" within a 200."""

    code, status, slug = 403, 403, "access_denied"


class BackendUnauthorized(ToolFault):
    """The backend's 401 to what it was shown. Where that was the caller's own token and nothing was sent to the caller
    yet, it becomes :class:`Unauthorized`."""

    code, status, slug = 401, 401, "unauthorized"


class BackendUnavailable(ToolFault):
    """No connection, a reset, an HTTP error without a JSON-RPC body, or a 401 to what is not the caller's own."""

    code, status, slug = 502, 502, "backend_unavailable"


class BackendBusy(ToolFault):
    """The backend's HTTP 503; its Retry-After goes on to the caller where it is a number of seconds, and few. Or no
    connection to it came free before the deadline: then nothing was sent."""

    code, status, slug = 503, 503, "backend_busy"


class BackendTimeout(ToolFault):
    """No complete answer before the deadline; whether the call took effect is unknown."""

    code, status, slug = 504, 504, "backend_timeout"


class BadBackendAnswer(ToolFault):
    """The backend's answer is not a JSON-RPC 2.0 response to the call."""

    code, status, slug = 502, 502, "bad_backend_answer"


class ResultMismatch(ToolFault):
    """The call ran, and its result breaks the output schema that the backend itself declares."""

    code, status, slug = 502, 502, "result_mismatch"
