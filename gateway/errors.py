"""Every failure that the gateway can answer with.

An error class *is* a row of the table: the JSON-RPC ``code``, the HTTP ``status`` on REST (an MCP era may choose
another, see :mod:`gateway.mcp`), the ``slug`` that REST clients match on, and whether it ``refuses`` the HTTP
exchange itself. A :class:`ToolFault` does not refuse it: on MCP it becomes a tool result with ``isError: true``.

MCP reserves -32768..-32000 (2026-07-28, basic/index "Error codes"), so a code of our own is the HTTP status. Messages
are written for the caller: they never hold a backend's host, a stack trace or a token.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar


class GatewayError(Exception):
    """Hold what every failure with an answer has. ``data`` is JSON for the error's ``data`` member; ``retry_after`` is
    in seconds and becomes ``Retry-After``."""

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
    """Raised where something unforeseen failed. The message is fixed; the cause is only in the log."""

    def __init__(self) -> None:
        super().__init__("Internal error")


# --- JSON-RPC 2.0 §5.1 and what MCP adds to it -----------------------------------------------------------------


class ParseError(GatewayError):
    """Raised where the body is not JSON (RFC 8259) in UTF-8."""

    code, status, slug = -32700, 400, "invalid_json"


class InvalidRequest(GatewayError):
    """Raised where the body is JSON, but not the one JSON-RPC 2.0 message that is expected."""

    code, status, slug = -32600, 400, "invalid_request"


class MethodNotFound(GatewayError):
    """Raised where there is no such MCP method, or its capability is not offered."""

    code, status, slug = -32601, 404, "method_not_found"


class InvalidParams(GatewayError):
    """Raised where the parameters of an MCP method do not have its shape."""

    code, status, slug = -32602, 400, "invalid_params"


class MissingParameter(InvalidParams):
    """Raised where a REST request lacks a parameter."""

    slug = "missing_parameter"


class InvalidCursor(InvalidParams):
    """Raised where a cursor was not issued by this gateway, was issued to another caller, or has expired."""

    slug = "invalid_cursor"


class UnknownTool(InvalidParams):
    """Raised where the caller's view has no such tool."""

    status, slug = 404, "tool_not_found"


class InvalidEnvelope(GatewayError):
    """Raised where ``_meta`` lacks what 2026-07-28 requires of every request (basic/index "Request metadata")."""

    code, status, slug = -32602, 400, "invalid_envelope"


class HeaderMismatch(GatewayError):
    """Raised where a standard header is absent, malformed or repeated, or disagrees with the body (SEP-2243)."""

    code, status, slug = -32020, 400, "header_mismatch"


class MissingCapability(GatewayError):
    """Raised where the tool needs a capability that the client did not declare; ``data`` names it."""

    code, status, slug = -32021, 400, "missing_client_capability"


class UnsupportedVersion(GatewayError):
    """Raised where the protocol revision is not served here."""

    code, status, slug = -32022, 400, "unsupported_protocol_version"


class BatchTooLarge(GatewayError):
    """Raised where a response does not fit into its JSON-RPC batch. It is the error of that one response."""

    code, status, slug = 413, 413, "batch_too_large"


# --- The HTTP exchange is refused ------------------------------------------------------------------------------


class Refused(GatewayError):
    """Refuse the exchange: it ends with this HTTP status, whatever the protocol."""

    refuses = True


class Challenged(Refused):
    """Refuse the exchange and tell the client what to present: ``WWW-Authenticate`` (RFC 6750 §3).

    ``error`` is a code of RFC 6750 §3.1 and the message a fixed sentence; ``scopes`` are all that the request needs;
    ``scheme`` is Bearer or DPoP.
    """

    def __init__(
        self, message: str, *, error: str | None = None, scopes: Iterable[str] = (), scheme: str = "Bearer"
    ) -> None:
        super().__init__(message)
        self.error = error
        self.scopes = tuple(sorted(scopes))
        self.scheme = scheme


class Unauthorized(Challenged):
    """Raised where there is no token, or one that is not accepted here."""

    code, status, slug = 401, 401, "unauthorized"


class MalformedAuthorization(Challenged):
    """Raised where the authorization is malformed: two tokens, a token in the query, characters no token can have."""

    code, status, slug = 400, 400, "invalid_authorization"


class InsufficientScope(Challenged):
    """Raised where the token lacks a scope that the request needs; the challenge names all scopes it needs."""

    code, status, slug = 403, 403, "insufficient_scope"


class AuthUnavailable(Refused):
    """Raised where a token cannot be verified now. It is never a 401: clients would then throw their tokens away."""

    code, status, slug = 503, 503, "auth_unavailable"


class MalformedHttp(Refused):
    """Raised where the request is not valid HTTP (RFC 9112), or its framing is ambiguous (request smuggling)."""

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
    """Raised where Host is none of this gateway's names: DNS rebinding, or ``server.allowed_hosts`` is incomplete."""

    code, status, slug = 421, 421, "misdirected_request"


class RateLimited(Refused):
    code, status, slug = 429, 429, "rate_limited"


class Overloaded(Refused):
    code, status, slug = 503, 503, "overloaded"


class SessionNotFound(Refused):
    """Raised where a session of an older era ended, expired or is another caller's. Clients then initialize again."""

    code, status, slug = -32600, 404, "session_not_found"


class CatalogUnavailable(Refused):
    """Raised where there is no listing, fresh or stale. An empty list would tell clients that no tools exist."""

    code, status, slug = 503, 503, "catalog_unavailable"


class StoreUnavailable(Refused):
    """Raised where something may be used once by all replicas, and the store that they share is away."""

    code, status, slug = 503, 503, "store_unavailable"


# --- A tool call failed: isError on MCP, 4xx and 5xx on REST ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class ServiceError:
    """A service's own JSON-RPC error, its message and data redacted."""

    code: int
    message: str
    data: object = None


class ToolFault(GatewayError):
    """Raised where a tool call was understood, and failed.

    ``service_error`` is the service's own error, kept with ``backend.errors: passed`` alone. Only ``/jsonrpc`` and the
    tools' own paths show it: MCP reserves the codes that most services use.
    """

    slug = "execution_error"

    def __init__(
        self,
        message: str,
        *,
        data: object = None,
        retry_after: int | None = None,
        service_error: ServiceError | None = None,
    ) -> None:
        super().__init__(message, data=data, retry_after=retry_after)
        self.service_error = service_error


class InvalidArguments(ToolFault):
    """Raised where the arguments break the tool's input schema. Nothing was sent to the backend."""

    code, status, slug = -32602, 400, "invalid_arguments"


class CallLimited(ToolFault):
    """Raised where the caller makes more calls than it may. This call was not made."""

    code, status, slug = 429, 429, "rate_limited"


class ConfirmationRequired(ToolFault):
    """Raised where the user has to confirm this call, and this surface cannot ask for that."""

    code, status, slug = 403, 403, "confirmation_required"


class CapabilityRequired(ToolFault):
    """Raised where the tool needs a client capability that clients of this surface cannot declare."""

    code, status, slug = 403, 403, "capability_required"


class InputRequired(ToolFault):
    """Raised where a call needs input from the user, and the surface cannot ask for it, or none came."""

    code, status, slug = 403, 403, "input_required"


class BackendError(ToolFault):
    """Raised where the backend answered with a JSON-RPC error. The message is redacted."""


class ParamsRefused(BackendError):
    """Raised where a backend's error may mean that ``params`` had the wrong structure."""


class BackendDenied(ToolFault):
    """Raised where the backend refuses this caller: its 403, or Drupal's "Access Denied" within a 200."""

    code, status, slug = 403, 403, "access_denied"


class BackendUnauthorized(ToolFault):
    """Raised where the backend answered 401. It becomes :class:`Unauthorized` if the caller's own token was sent."""

    code, status, slug = 401, 401, "unauthorized"


class BackendUnavailable(ToolFault):
    """Raised where the backend gave no answer: no connection, a reset, an HTTP error without a JSON-RPC body, or a 401
    to a credential that is not the caller's own."""

    code, status, slug = 502, 502, "backend_unavailable"


class BackendBusy(ToolFault):
    """Raised where the backend says that it is busy, or where nothing was sent: no connection or turn in time."""

    code, status, slug = 503, 503, "backend_busy"


class BackendTimeout(ToolFault):
    """Raised where no complete answer came before the deadline. Whether the call took effect is unknown."""

    code, status, slug = 504, 504, "backend_timeout"


class BadBackendAnswer(ToolFault):
    """Raised where the backend's answer is not a JSON-RPC 2.0 response to the call."""

    code, status, slug = 502, 502, "bad_backend_answer"


class ResultMismatch(ToolFault):
    """Raised where the call ran, and its result breaks the output schema that the backend itself declares."""

    code, status, slug = 502, 502, "result_mismatch"
