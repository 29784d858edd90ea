"""Turn an unexpected exception into one log line, and an answer that tells callers nothing of it."""

from __future__ import annotations

import structlog

from gateway.errors import GatewayError, InternalError

log = structlog.get_logger()


def to_gateway_error(error: BaseException, **fields: object) -> GatewayError:
    """Return the error to answer with: this one where it is a :class:`GatewayError`. Any other is logged with these
    fields and its traceback, and becomes :class:`InternalError`."""
    if isinstance(error, GatewayError):
        return error
    # A function for failures alone: a context manager around each request would cost the good ones, too.
    log.error("internal error", **fields, exc_info=error)
    return InternalError()
