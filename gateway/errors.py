"""Every failure that the gateway can answer with.

An error class *is* a row of the table in docs/http.md, which ``make config`` makes of this file: the JSON-RPC ``code``,
the HTTP ``status`` on REST (an MCP era may choose another, see :mod:`gateway.mcp`), the ``slug`` that REST clients
match on, and whether it ``refuses`` the HTTP request itself. A :class:`ToolFault` does not refuse it: on MCP it becomes
a tool result with ``isError: true``. A docstring says "Raised where …" and "A client should …": two cells of the row.

MCP reserves -32768..-32000 (2026-07-28, basic/index "Error codes"), so a code of our own is the HTTP status. Messages
are written for the caller: they never hold a backend's host, a stack trace or a token.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from gateway.text import mask_keys


class GatewayError(Exception):
    """Hold what every failure with a response has. ``data`` is JSON for the error's ``data`` member; ``retry_after`` is
    in seconds and becomes ``Retry-After``. A subclass names what differs: ``class Forbidden(Refused, status=403, …)``.
    """

    code: ClassVar[int] = -32603
    status: ClassVar[int] = 500
    slug: ClassVar[str] = "internal_error"
    refuses: ClassVar[bool] = False

    def __init_subclass__(cls, *, code: int = 0, status: int = 0, slug: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.code, cls.status, cls.slug = code or cls.code, status or cls.status, slug or cls.slug

    def __init__(self, message: str, *, data: object = None, retry_after: int | None = None) -> None:
        self.message = mask_keys(message)
        super().__init__(self.message)
        self.data = data
        self.retry_after = retry_after


class InternalError(GatewayError):
    """Raised where something unforeseen failed; only the log has the cause. A client should report it, with the
    ``X-Request-Id`` of the response."""

    def __init__(self) -> None:
        super().__init__("Internal error")


# --- JSON-RPC 2.0 §5.1 and what MCP adds to it -----------------------------------------------------------------


class ParseError(GatewayError, code=-32700, status=400, slug="invalid_json"):
    """Raised where the body is not JSON (RFC 8259) in UTF-8. A client should correct the body."""


class InvalidRequest(GatewayError, code=-32600, status=400, slug="invalid_request"):
    """Raised where the body is JSON, but not the one JSON-RPC 2.0 message that is expected, or not complete. A client
    should send one whole message."""


class MethodNotFound(GatewayError, code=-32601, status=404, slug="method_not_found"):
    """Raised where there is no such MCP method, or its capability is not offered. A client should use the methods that
    ``server/discover`` or ``initialize`` announced."""


class InvalidParams(GatewayError, code=-32602, status=400, slug="invalid_params"):
    """Raised where the parameters of a method or a path do not have its shape. A client should correct them."""


class MissingParameter(InvalidParams, slug="missing_parameter"):
    """Raised where a REST request lacks a parameter. A client should add the one that the message names."""


class InvalidCursor(InvalidParams, slug="invalid_cursor"):
    """Raised where a cursor was not issued by this gateway, was issued to another caller, or has expired. A client
    should begin again without a cursor."""


class UnknownTool(InvalidParams, status=404, slug="tool_not_found"):
    """Raised where the caller's view has no such tool. A client should list the tools again."""


class InvalidEnvelope(GatewayError, code=-32602, status=400, slug="invalid_envelope"):
    """Raised where ``_meta`` lacks a member that 2026-07-28 requires of every request (basic/index "Request metadata").
    A client should add it."""


class HeaderMismatch(GatewayError, code=-32020, status=400, slug="header_mismatch"):
    """Raised where a standard header is absent, malformed or repeated, or disagrees with the body (SEP-2243). A client
    should send the header with the value of the body."""


class MissingCapability(GatewayError, code=-32021, status=400, slug="missing_client_capability"):
    """Raised where the tool needs a capability that the client did not declare; ``data`` names it. A client should
    declare it, if it has it, or not call the tool."""


class UnsupportedVersion(GatewayError, code=-32022, status=400, slug="unsupported_protocol_version"):
    """Raised where the protocol revision is not served here. A client should choose one of those in ``data``."""


class BatchTooLarge(GatewayError, code=413, status=413, slug="batch_too_large"):
    """Raised where a response does not fit into its JSON-RPC batch; it is the error of that one response, and the call
    was made. A client should send such calls without a batch."""


# --- The HTTP request is refused -------------------------------------------------------------------------------


class Refused(GatewayError):
    """Refuse the request: it ends with this HTTP status, whatever the protocol."""

    refuses = True


class Challenged(Refused):
    """Refuse the request and tell the client what to present: ``WWW-Authenticate`` (RFC 6750 §3).

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


class Unauthorized(Challenged, code=401, status=401, slug="unauthorized"):
    """Raised where there is no token, or one that is not accepted here. A client should get a token from an
    authorization server that the metadata in ``WWW-Authenticate`` names."""


class MalformedAuthorization(Challenged, code=400, status=400, slug="invalid_authorization"):
    """Raised where the authorization is malformed: two tokens, a token in the query, characters no token can have. A
    client should send one token, in the header ``Authorization``."""


class InsufficientScope(Challenged, code=403, status=403, slug="insufficient_scope"):
    """Raised where the token lacks a scope that the request needs. A client should get a token with all scopes that
    ``WWW-Authenticate`` names."""


class AuthUnavailable(Refused, code=503, status=503, slug="auth_unavailable"):
    """Raised where a token cannot be verified now; never a 401, since clients would then discard a good token. A client
    should keep the token and try again after ``Retry-After``."""


class AuditUnavailable(Refused, code=503, status=503, slug="audit_unavailable"):
    """Raised where ``telemetry.audit.required`` is set and the audit cannot be written: the call was not sent. A client
    should repeat it after ``Retry-After``; the operator has to make room, or give back the right to write."""


class MalformedHttp(Refused, code=400, status=400, slug="malformed_http"):
    """Raised where the request is not valid HTTP (RFC 9112), or its framing is ambiguous (request smuggling). A client
    should correct it; the connection is closed."""


class Forbidden(Refused, code=403, status=403, slug="forbidden"):
    """Raised where a page of another origin calls, or the service lists no methods for this caller. A client should
    not repeat it; the operator can change ``server.allowed_origins``."""


class NotFound(Refused, code=404, status=404, slug="not_found"):
    """Raised where nothing is served at the path. A client should use the path of an endpoint."""


class MethodNotAllowed(Refused, code=405, status=405, slug="method_not_allowed"):
    """Raised where the path does not have this HTTP method. A client should use one of those in ``Allow``."""

    def __init__(self, message: str, *, allow: str) -> None:
        super().__init__(message)
        self.allow = allow


class NotAcceptable(Refused, code=406, status=406, slug="not_acceptable"):
    """Raised where ``Accept`` excludes the type of the response. A client should accept ``application/json`` and
    ``text/event-stream``."""


class RequestTimeout(Refused, code=408, status=408, slug="request_timeout"):
    """Raised where the head or the body of the request did not arrive in time. A client should send it faster."""


class TooLarge(Refused, code=413, status=413, slug="too_large"):
    """Raised where a body is too large, or its value would take too much memory. A client should send less."""


class UnsupportedMediaType(Refused, code=415, status=415, slug="unsupported_media_type"):
    """Raised where the type, the charset or the encoding of the body is not supported. A client should send JSON in
    UTF-8, plain or as gzip."""


class ExpectationFailed(Refused, code=417, status=417, slug="expectation_failed"):
    """Raised where ``Expect`` is not ``100-continue``. A client should leave the header out."""


class MisdirectedRequest(Refused, code=421, status=421, slug="misdirected_request"):
    """Raised where ``Host`` is none of this gateway's names: DNS rebinding, or ``server.allowed_hosts`` is incomplete.
    A client should use the public URL; the operator can add the name."""


class RateLimited(Refused, code=429, status=429, slug="rate_limited"):
    """Raised where a caller lists too often, or has too many streams. A client should wait for ``Retry-After``."""


class Overloaded(Refused, code=503, status=503, slug="overloaded"):
    """Raised where the gateway has no room for a connection or a body, or the caller does not read its responses. A
    client should read them, and try again after ``Retry-After``."""


class SessionNotFound(Refused, code=-32600, status=404, slug="session_not_found"):
    """Raised where a session of an older era ended, or is another caller's. A client should initialize again."""


class CatalogUnavailable(Refused, code=503, status=503, slug="catalog_unavailable"):
    """Raised where there is no listing, fresh or stale: an empty list would say that no tools exist. A client should
    try again after ``Retry-After``."""


class StoreUnavailable(Refused, code=503, status=503, slug="store_unavailable"):
    """Raised where something may be used once by all replicas, and the store that they share is unavailable. A client
    should try again after ``Retry-After``."""


# --- A tool call failed: isError on MCP, 4xx and 5xx on REST ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class ServiceError:
    """A service's own JSON-RPC error, its message and data redacted."""

    code: int
    message: str
    data: object = None


class ToolFault(GatewayError, slug="execution_error"):
    """Hold the failure of a tool call that was understood. ``service_error`` is the service's own error, kept with
    ``backend.errors: passed`` alone. Only ``/jsonrpc`` and the tools' own paths show it: MCP reserves the codes that
    most services use. ``seen`` is the message without its claim that this exchange did not run the call, "" where it
    claims nothing of that kind."""

    service_error: ServiceError | None = None
    seen: str = ""


class InvalidArguments(ToolFault, code=-32602, status=400, slug="invalid_arguments"):
    """Raised where the arguments break the tool's input schema; nothing was sent to the backend. A client should
    correct the arguments that the message names."""


class CallLimited(ToolFault, code=429, status=429, slug="rate_limited"):
    """Raised where the caller makes more calls than it may; this call was not made. A client should wait for
    ``Retry-After``."""


class ConfirmationRequired(ToolFault, code=403, status=403, slug="confirmation_required"):
    """Raised where the user has to confirm this call, and this surface cannot ask for that. A client should call the
    tool on ``/mcp``, with the capability ``elicitation``."""


class ConfirmationTooLong(ToolFault, code=403, status=403, slug="confirmation_too_long"):
    """Raised where the user has to confirm this call, and its arguments are more than a person can be shown. A client
    should call with fewer or shorter ones."""


class CapabilityRequired(ToolFault, code=403, status=403, slug="capability_required"):
    """Raised where the tool needs a client capability that clients of this surface cannot declare. A client should
    call the tool on ``/mcp``, with the capability that the message names."""


class InputRequired(ToolFault, code=403, status=403, slug="input_required"):
    """Raised where a call needs input from the user, and the surface cannot ask for it, or none came. A client should
    call the tool on ``/mcp``, with the capability ``elicitation``."""


class BackendError(ToolFault):
    """Raised where the backend responded with a JSON-RPC error; the message is redacted. A client should act on the
    message."""


class ParamsRefused(BackendError):
    """Raised where a backend's error may mean that ``params`` had the wrong structure. A client should act on the
    message; the operator can set the structure."""


class BackendDenied(ToolFault, code=403, status=403, slug="access_denied"):
    """Raised where the backend refuses this caller: its 403, or Drupal's "Access Denied" within a 200. A client should
    not repeat the call; the user needs the right in the service."""


class BackendUnauthorized(ToolFault, code=401, status=401, slug="unauthorized"):
    """Raised where the backend responded with 401 to the caller's own token, after the response had begun. A client
    should get a new token."""


class BackendUnavailable(ToolFault, code=502, status=502, slug="backend_unavailable"):
    """Raised where the backend gave no response: no connection, a reset, an HTTP error without a JSON-RPC body, or a
    401 to the gateway's own credential. A client should repeat the call only if the message says that it was not sent,
    or if it does no harm."""


class BackendBusy(ToolFault, code=503, status=503, slug="backend_busy"):
    """Raised where the backend says that it is busy, or nothing was sent: no connection or turn in time. A client
    should try again, after ``Retry-After`` if there is one; where the message says that it is unknown whether the call
    took effect, only if that does no harm."""


class BackendTimeout(ToolFault, code=504, status=504, slug="backend_timeout"):
    """Raised where no complete response came before the deadline; the call may have taken effect. A client should find
    out whether it did before it calls again."""


class BadBackendAnswer(ToolFault, code=502, status=502, slug="bad_backend_answer"):
    """Raised where the backend's response is not a JSON-RPC 2.0 response to the call, which may have taken effect. A
    client should report it to the operator."""


class ResultMismatch(ToolFault, code=502, status=502, slug="result_mismatch"):
    """Raised where the call ran, and its result breaks the output schema that the backend itself declares. A client
    should not repeat the call; on MCP the error has the result as text."""
