"""One HTTP exchange: what the steps learn about it, and the three forms in which paths write errors."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from msgspec import Struct, field

from gateway import jsonrpc
from gateway.concurrency.background import UseCounter
from gateway.errors import GatewayError, ToolFault
from gateway.http_server.request import HttpRequest
from gateway.http_server.response import JSON, Response, raw_response
from gateway.jsonrpc import Id
from gateway.model import ANONYMOUS, Caller
from gateway.telemetry.record import Record

_JSONRPC_TYPES: Final = (JSON, "application/json-rpc", "application/jsonrequest")
"""Content types of plain JSON-RPC ("JSON-RPC over HTTP", a draft that many clients follow)."""

_MCP_PATH = re.compile("(/[a-z][a-z0-9_]*)?/mcp")


class Exchange(Struct, eq=False):
    """One request, and what the steps learn about it.

    ``tool`` is the name in a tool's own path. ``record`` becomes the log line; ``headers`` go on the response, also a
    stream's. ``error`` is the error that is answered, if any; it may add headers. ``uses`` counts the exchange among
    the running ones of its service until its call has ended, and ``small`` are the bytes that are counted for a small
    body.
    """

    request: HttpRequest
    record: Record
    body: bytes = b""
    caller: Caller = ANONYMOUS
    tool: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    error: GatewayError | None = None
    uses: UseCounter | None = None
    small: int = 0

    def take_body(self) -> bytes:
        """Return the body, which is forgotten here: once it is decoded, nobody needs it."""
        body, self.body = self.body, b""
        return body

    def note_error(self, error: GatewayError) -> None:
        """Note the error that is answered. The frames of its traceback refer to the exchange, and to all that it has
        read: it would stay in memory until a collection of garbage."""
        self.error = error
        error.__traceback__ = error.__context__ = error.__cause__ = None


@dataclass(frozen=True, slots=True)
class ErrorForm:
    """How a path is spoken to: the content types of request bodies, and how an error is written."""

    content_types: tuple[str, ...]
    error_bytes: Callable[[GatewayError, Id | None], bytes]


def rpc_error(error: GatewayError, id: Id | None = None) -> bytes:
    """Return an error response as JSON-RPC 2.0 §5 has it: an unknown ``id`` is null, where MCP leaves it out. The
    service's own error replaces ours with ``backend.errors: passed``."""
    passed = error.service_error if isinstance(error, ToolFault) else None
    return jsonrpc.error_bytes(jsonrpc.NULL if id is None else id, passed or error)


REST: Final = ErrorForm(
    (JSON,), lambda error, _: jsonrpc.encode({"error": {"code": error.slug, "message": error.message}})
)
"""``{"error": {"code", "message"}}``, as clients of older discovery endpoints expect it."""
MCP: Final = ErrorForm((JSON,), lambda error, _: jsonrpc.error_bytes(None, error))
"""A JSON-RPC error without ``id``: MCP's schema has no null id."""
RPC: Final = ErrorForm(_JSONRPC_TYPES, rpc_error)


def form_of_unknown(path: str) -> ErrorForm:
    """Return the form of an error on a path that is not served: MCP's on an MCP path, else REST's."""
    return MCP if _MCP_PATH.fullmatch(path) else REST


def raw_refusal(error: GatewayError) -> bytes:
    """Return a whole HTTP response to what was not a request, in MCP's form."""
    return raw_response(MCP.error_bytes(error, None), error.status, error.retry_after)


def error_response(exchange: Exchange, error: GatewayError, form: ErrorForm, id: Id | None = None) -> Response:
    """Return an error with its own HTTP status, and note it in the exchange."""
    exchange.note_error(error)
    return Response(form.error_bytes(error, id), error.status)
