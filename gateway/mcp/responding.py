"""A whole JSON-RPC response, whatever becomes of the work for it: what ends a stream, and what outlives its client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from gateway import jsonrpc
from gateway.errors import GatewayError, InternalError
from gateway.jsonrpc import Request

log = structlog.get_logger()


async def response_to(request: Request, work: Callable[[], Awaitable[bytes]], *, can_refuse: bool = False) -> bytes:
    """The response with the serialized result of ``work``, or with the error that came of it.

    Where nothing was sent yet (``can_refuse``), what refuses the whole exchange is raised: :class:`Refused`.
    """
    try:
        return jsonrpc.result_bytes(request.id, await work())
    except GatewayError as error:
        if can_refuse and error.refuses:
            raise
        return jsonrpc.error_bytes(request.id, error)
    except Exception:
        log.exception("internal error", method=request.method)
        return jsonrpc.error_bytes(request.id, InternalError())
