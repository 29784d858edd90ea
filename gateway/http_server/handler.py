"""Call the handler of a port, and hold what the connections of the port share."""

import asyncio
import ssl
from collections import deque
from typing import Any, Final, Protocol

import structlog

from gateway.concurrency.turns import EndOfTurnQueue
from gateway.errors import ExpectationFailed, GatewayError, InternalError, Overloaded
from gateway.http_server.held_bytes import HeldBytes
from gateway.http_server.request import HTTP10, HttpRequest
from gateway.http_server.response import Response, StreamedResponse
from gateway.telemetry.sampling import Sampler

_PART: Final = 8
"""Bytes sent ahead may take an eighth of ``server.max_buffered``: less than what makes new calls be refused."""
_ENOUGH: Final = 7 / 8  # the part of that which is left once room was made. So it is made seldom.
_FREE: Final = 4 * 1024  # bytes of each connection that are not counted
TURNS: Final = 16
"""Connections that are read in one turn of the event loop, and as many that waited for theirs."""
_NO_ROOM: Final = "The gateway holds too much of what was not sent to its end; it was not run, so it is safe to repeat"
_REMEDY: Final = "raise server.max_buffered if the memory allows it, or look who sends so much"
SAMPLE_SECONDS: Final = 10.0

log = structlog.get_logger()


class SentAhead:
    """Limit the bytes that clients send before the handler reads them (requests behind a running one, incomplete heads,
    unread bodies) to a part of the held bytes. Beyond it, the connections that have sent most are ended. Also give
    turns: a few connections are read in each turn of the loop, so that the requests of thousands delay no other."""

    def __init__(self, held: HeldBytes) -> None:
        self.bytes = 0
        self._held = held
        self._most = held.most // _PART
        self._connections: set[Any] = set()  # each a Connection, as in :attr:`Serving.connections`
        self._waiting: deque[Any] = deque()
        self._loop = asyncio.get_running_loop()
        self._begun = 0  # connections that were read in this turn
        self._refused = Sampler(1, SAMPLE_SECONDS)

    def has_turn(self) -> bool:
        """Return whether one more connection may be read in this turn of the event loop."""
        if not self._begun:
            self._loop.call_soon(self._end_turn)
        self._begun += 1
        return self._begun <= TURNS

    def _end_turn(self) -> None:
        self._begun = 0

    def wait_for_turn(self, connection: Any) -> None:
        """Put a connection at the end of the queue of those to read. Its reading pauses until then."""
        connection.pause_reading()
        if not self._waiting:
            self._loop.call_soon(self._give_turns)
        self._waiting.append(connection)

    def count(self, connection: Any, size: int) -> None:
        """Count the bytes that a connection holds now. A few are free, so that a head in two parts finds room."""
        size = size if size > _FREE else 0
        more, connection.counted = size - connection.counted, size
        if size:
            self._connections.add(connection)
        else:
            self._connections.discard(connection)
        self.bytes += more
        if more > 0:
            self._held.add("", more)
            if self.bytes > self._most:
                self._make_room()
        elif more:
            self._held.remove("", -more)

    def _give_turns(self) -> None:
        for _ in range(min(TURNS, len(self._waiting))):
            self._waiting.popleft().read_on()
        if self._waiting:
            self._loop.call_soon(self._give_turns)

    def _make_room(self) -> None:
        given_up = 0
        for connection in sorted(self._connections, key=lambda one: one.counted, reverse=True):
            if self.bytes <= self._most * _ENOUGH:
                break
            connection.give_up(Overloaded(_NO_ROOM, retry_after=1))
            given_up += 1
        if given_up and (more := self._refused.admit()) is not None:
            log.warning(
                "connections that send ahead are ended", ended=given_up, most=self._most, remedy=_REMEDY, **more
            )


MAX_AHEAD: Final = 16 * 1024
"""Bytes that are read of one connection at a time, and kept behind the request that is running."""
_UNEXPECTED: Final = ExpectationFailed("Expect must be 100-continue")


class Handler(Protocol):
    """Answer the requests of a port."""

    async def __call__(self, request: HttpRequest, /) -> Response | StreamedResponse:
        """Return the response, unsent: the connection sends it. A stream must be sent, or its ``on_end`` never runs."""
        ...

    def refusal(self, request: HttpRequest, error: GatewayError) -> Response:
        """Return the response to a request that did not reach the handler, or that made it raise."""
        ...

    def raw_refusal(self, error: GatewayError) -> bytes:
        """Return a whole HTTP response for a connection that no request was read from. It is closed then."""
        ...


class Serving:
    """Hold what the connections of one port share."""

    def __init__(
        self, handler: Handler, write_timeout: float, held: HeldBytes, tls: ssl.SSLContext | None = None
    ) -> None:
        self.handler = handler
        self.tls = tls
        """What the next connections are encrypted with; None for plain ones."""
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
            self.log_malformed(request.fault.message)
            request.keep_alive = False
            return self.handler.refusal(request, request.fault)
        expected = "" if request.version == HTTP10 else request.headers.get("Expect", "")
        if expected and expected.lower() != "100-continue":
            return self.handler.refusal(request, _UNEXPECTED)
        response = await self.handler(request)
        if expected and not request.is_whole:
            request.keep_alive = False  # the body may still come, or not
        return response

    def failure(self, request: HttpRequest, error: Exception) -> Response:
        """Log what a handler must not raise. Return a response that tells nothing of it, and ends the connection."""
        log.error("internal error", exc_info=error)
        request.keep_alive = False
        return self.handler.refusal(request, InternalError())

    def log_malformed(self, reason: str) -> None:
        """Log that malformed HTTP or TLS is refused. Lines are sampled: a flood of garbage must not fill the disk."""
        if (more := self._malformed.admit(reason)) is not None:
            log.warning("malformed HTTP refused", reason=reason, **more)
