"""What nobody foresaw becomes one line of the log, and an answer that tells callers nothing of it."""

from __future__ import annotations

import structlog

from gateway.errors import GatewayError, InternalError

log = structlog.get_logger()


def to_gateway_error(error: BaseException, **fields: object) -> GatewayError:
    """Return the error to answer with: this one where it is of the gateway's own table. Any other is logged with these
    fields and its traceback, and :class:`InternalError` stands in its place."""
    if isinstance(error, GatewayError):
        return error
    # Only a failure comes here. A context manager around each request would cost the good ones, too.
    log.error("internal error", **fields, exc_info=error)
    return InternalError()
