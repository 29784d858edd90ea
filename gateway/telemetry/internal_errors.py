"""What nobody foresaw becomes one line of the log, and an answer that tells callers nothing of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from gateway.errors import GatewayError, InternalError

log = structlog.get_logger()


@contextmanager
def internal_errors(**fields: object) -> Iterator[None]:
    """Let errors of the gateway's own table pass. Log any other with these fields and its traceback, and raise
    :class:`InternalError` in its place."""
    try:
        yield
    except GatewayError:
        raise
    except Exception:
        log.exception("internal error", **fields)
        raise InternalError from None
