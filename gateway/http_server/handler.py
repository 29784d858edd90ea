"""Call the handler of a port, and hold what the connections of the port share."""

from __future__ import annotations

from typing import Any, Final, Protocol

import structlog

from gateway.concurrency.turns import EndOfTurnQueue
from gateway.errors import ExpectationFailed, GatewayError, InternalError
from gateway.http_server.held_bytes import HeldBytes
from gateway.http_server.request import HTTP10, HttpRequest
from gateway.http_server.response import Response, StreamedResponse
from gateway.http_server.sent_ahead import SAMPLE_SECONDS, SentAhead
from gateway.telemetry.sampling import Sampler

MAX_AHEAD: Final = 16 * 1024
"""Bytes that are read of one connection at a time, and kept behind the request that is running."""
_UNEXPECTED: Final = ExpectationFailed("Expect must be 100-continue")

log = structlog.get_logger()


class Handler(Protocol):
    """Answer the requests of a port."""

    async def __call__(self, request: HttpRequest, /) -> Response | StreamedResponse:
        """Return the response, unsent. It is sent, or at least begun, by the task that called."""
        ...

    def refusal(self, request: HttpRequest, error: GatewayError) -> Response:
        """Return the response to a request that did not reach the handler, or that made it raise."""
        ...

    def raw_refusal(self, error: GatewayError) -> bytes:
        """Return a whole HTTP response for a connection that no request was read from. It is closed then."""
        ...


class Serving:
    """Hold what the connections of one port share."""

    def __init__(self, handler: Handler, write_timeout: float, held: HeldBytes) -> None:
        self.handler = handler
        self.write_timeout = write_timeout
        self.held = held
        self.writes = EndOfTurnQueue()
        self.is_draining = False
        self.ahead = SentAhead(held)
        self.buffer = memoryview(bytearray(MAX_AHEAD))
        """Where each read of a connection puts its bytes. They are copied before the next read."""
        self.connections: set[Any] = set()
        """The open ones, each a :class:`gateway.http_server.connection.Connection`: that file imports this one."""
        self._malformed = Sampler(1, SAMPLE_SECONDS)

    async def respond(self, request: HttpRequest) -> Response | StreamedResponse:
        """Return the handler's response, or a refusal: of faulty framing (400), or an unknown expectation (417)."""
        if request.fault is not None:
            self.log_malformed()
            request.keep_alive = False
            return self.handler.refusal(request, request.fault)
        expected = "" if request.version == HTTP10 else request.headers.get("Expect", "")
        if expected and expected.lower() != "100-continue":
            return self.handler.refusal(request, _UNEXPECTED)
        response = await self.handler(request)
        if expected and not request.is_whole:
            request.keep_alive = False  # nobody can tell whether the body still comes
        return response

    def failure(self, request: HttpRequest, error: Exception) -> Response:
        """Log what a handler must not raise. Return a response that tells nothing of it, and ends the connection."""
        log.error("internal error", exc_info=error)
        request.keep_alive = False
        return self.handler.refusal(request, InternalError())

    def log_malformed(self) -> None:
        """Log that malformed HTTP is refused. Lines are sampled: a flood of garbage must not fill the disk."""
        more = self._malformed.admit()
        if more is not None:
            log.warning("malformed HTTP refused", **more)
