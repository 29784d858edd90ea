"""Serve one connection of a client: read its requests, have them answered one after the other, and end it.

What a client can cost is bounded: the time for a head (:data:`HEAD_TIMEOUT`), for a body (``BODY_TIMEOUT``) and to take
what is sent (``write_timeout``), and what it sends ahead of answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from gateway.errors import ExpectationFailed, GatewayError, InternalError, MalformedHttp, RequestTimeout
from gateway.http_server.handler import MAX_AHEAD, TURNS, Serving
from gateway.http_server.request import HTTP10, HttpRequest
from gateway.http_server.request_reader import RequestReader
from gateway.http_server.response import LARGE, HttpAnswer, StreamedAnswer
from gateway.http_server.slow_clients import Deadline
from gateway.http_server.wire import Wire

HEAD_TIMEOUT: Final = 10.0
"""Seconds for the head of a request to arrive, from the connection or from its first byte on."""
_KEEPALIVE: Final = 75.0  # seconds after which an idle connection is closed
_LINGERING: Final = 10.0
"""Seconds for bytes that nobody needs: a connection closed before they are read is reset, and may lose its answer."""
_MAX_DROPPED: Final = 16 * 1024 * 1024  # bytes that are read in that time at most
_FIRST_PROBE, _NEXT_PROBE = 0.5, 0.1  # seconds after the client's end of input; from then on, doubled each time
_LATE_HEAD: Final = RequestTimeout(f"The head of the request did not arrive within {HEAD_TIMEOUT:g} s")
_UNEXPECTED: Final = ExpectationFailed("Expect must be 100-continue")

log = structlog.get_logger()


class Connection(Wire):
    """Serve one connection. ``task`` answers the request that is running, which is at most one."""

    __slots__ = (
        "_behind", "_deadline", "_dropped", "_ended", "_has_eof", "_is_deaf", "_is_last", "_loop", "_on_lost",
        "_reader", "_request", "_serving", "task",
    )  # fmt: skip

    def __init__(self, serving: Serving, on_lost: Callable[[], None]) -> None:
        super().__init__(serving.held, serving.write_timeout)
        self.task: asyncio.Task[None] | None = None
        self.is_draining = serving.is_draining
        self._serving = serving
        self._loop = asyncio.get_running_loop()
        self._on_lost = on_lost
        self._reader: RequestReader | None = None
        self._request: HttpRequest | None = None
        self._behind = b""  # what came behind the running request, or waits for its turn; not parsed yet
        self._dropped = 0  # bytes that were read and not needed
        self._is_last = False  # no request is begun after the running one
        self._is_deaf = False  # what comes is dropped
        self._has_eof = False  # nothing comes any more
        self._deadline = Deadline(self._too_late)
        self._ended: asyncio.Future[None] | None = None

    # asyncio calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._serving.connections.add(self)
        self._expect(HEAD_TIMEOUT)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._deadline.close()
        self._request = None
        self._drop_ahead()
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._serving.connections.discard(self)
        if self.task is not None:
            self.task.cancel()
        self._note_end()
        self._on_lost()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go: as many as there may be behind the request that is running."""
        return self._serving.buffer[: MAX_AHEAD - len(self._behind)] if self._behind else self._serving.buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = self._serving.buffer[:nbytes].tobytes()
        request = self._request
        if self._behind or (request is not None and request.is_whole and not self._is_deaf):
            self._behind += data
            if len(self._behind) == MAX_AHEAD:
                self.pause_reading()
            self.count_ahead()
            return
        if self._is_deaf or (request is not None and self.task is None):
            self._dropped += nbytes
            if self._dropped > _MAX_DROPPED:
                (self._close if self.task is None else self.pause_reading)()
        # One connection may have many reads in a turn, and many small chunks take 1 ms of each.
        if (nbytes == MAX_AHEAD or len(self._serving.connections) > TURNS) and not self._serving.ahead.has_turn():
            self._behind = b"" if self._is_deaf else data
            self._serving.ahead.wait_for_turn(self)
            self.count_ahead()
        elif not self._is_deaf:
            self._read(data)

    def resume_reading(self) -> None:
        if len(self._behind) < MAX_AHEAD:
            super().resume_reading()

    def eof_received(self) -> bool:
        """Keep the connection open for writing: a client that sends no more may still wait for its answer. Of several
        pipelined requests only the running one is answered (RFC 9112 §9.3.2: clients may repeat the others)."""
        self._has_eof = True
        self._drop_ahead()
        self._loop.call_soon(self._after_eof)  # a request that came with it has been started by then
        return True

    # What is read.

    def _read(self, data: bytes) -> None:
        reader = self._reader
        if reader is None:
            reader = self._reader = RequestReader(self, self._begin, self._next)
        was_in_head = reader.half
        try:
            behind = reader.feed(data)
        except MalformedHttp as fault:
            self._refuse(fault, reader.request)
            return
        if reader.half and not was_in_head:
            self._expect(HEAD_TIMEOUT)
        if behind and not self._is_deaf:
            self._behind = behind
            if self._request is None:
                self._serving.ahead.wait_for_turn(self)
        if behind or reader.request is not None or reader.half or self.counted:
            self.count_ahead()

    def read_on(self) -> None:
        """Read what has come, unless it is behind a request that runs: its turn has come."""
        if self._request is None or not self._request.is_whole or self.task is None:
            behind, self._behind = self._behind, b""
            self.resume_reading()
            if behind:
                self._read(behind)

    def count_ahead(self) -> None:
        size = len(self._behind) + (0 if self._reader is None else self._reader.held)
        self._serving.ahead.count(self, size + (0 if self._request is None else self._request.unread))

    def give_up(self, error: GatewayError) -> None:
        """Make room: drop what was sent ahead, and end the connection after the running request."""
        self._drop_ahead()
        request = self._request
        if request is None:
            self._say(error)
        elif self.task is None:
            self._linger()  # it is answered, and the rest of its body was dropped
        elif not request.is_whole:
            request.drop_body()
            request.fail(error)

    def _drop_ahead(self) -> None:
        """Begin none of the requests that were sent ahead, and read no more."""
        self._is_deaf = self._is_last = True
        self._behind = b""
        if self._reader is not None:
            self._reader.half, self._reader.request = b"", None
        if self.counted:
            self._serving.ahead.count(self, 0)

    def _refuse(self, fault: MalformedHttp, unfinished: HttpRequest | None) -> None:
        """Read no more: nobody knows where the next request begins. ``unfinished`` is one whose body is at fault."""
        self._serving.log_malformed()
        self._drop_ahead()
        if unfinished is not None and unfinished.is_begun:
            unfinished.fail()  # its answer tells what is wrong, if it needs the body
            if self.task is None:
                self._linger()
            return
        if self.task is not None:
            self.task.cancel()
            self.task = None
        self._say(MalformedHttp(fault.message))  # without the traceback, which refers to this connection

    # What is answered.

    def _begin(self, request: HttpRequest) -> None:
        """Take a request whose head is here."""
        if self._is_last or self._is_deaf:
            return
        self._is_deaf = request.fault is not None
        self._request = request
        self.owner, self._deadline.due = "", None
        self.task = self._loop.create_task(self._serve(request))

    async def _serve(self, request: HttpRequest) -> None:
        request.is_begun = True
        try:
            answer = await self._answer(request)
        except asyncio.CancelledError:
            self.transport.abort()
            raise
        except Exception as error:  # noqa: BLE001, the client gets an answer to every failure
            answer = self._failure(request, error)
        if isinstance(answer, HttpAnswer) and len(answer.body) <= LARGE:
            self._serving.writes.call(self._send, request, answer)  # at the end of this turn (decision 44)
        else:
            self._send(request, answer)  # a large one must not wait: nobody counts its bytes until it is sent

    async def _answer(self, request: HttpRequest) -> HttpAnswer | StreamedAnswer:
        if request.fault is not None:
            self._serving.log_malformed()
            request.keep_alive = False
            return self._serving.handler.refusal(request, request.fault)
        expected = "" if request.version == HTTP10 else request.headers.get("Expect", "")
        if expected and expected.lower() != "100-continue":
            return self._serving.handler.refusal(request, _UNEXPECTED)
        answer = await self._serving.handler(request)
        if expected and not request.is_whole:
            request.keep_alive = False  # nobody can tell whether the body still comes
        return answer

    def _failure(self, request: HttpRequest, error: Exception) -> HttpAnswer:
        """Log what a handler must not raise. Return an answer that tells nothing of it, and ends the connection."""
        log.error("internal error", exc_info=error)
        request.keep_alive = False
        return self._serving.handler.refusal(request, InternalError())

    def _send(self, request: HttpRequest, answer: HttpAnswer | StreamedAnswer) -> None:
        if self.transport.is_closing():
            return
        if not request.has_answer and isinstance(answer, HttpAnswer):
            try:
                answer.send(request)
            except ValueError as error:  # a header that would break the head
                self._failure(request, error).send(request)
        request.is_answered = True
        if not self.is_blocked:
            self._finish(request)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.task is not None and self._request is not None and self._request.is_answered:
            self._finish(self._request)

    def _finish(self, request: HttpRequest) -> None:
        """Go on after an answer, once the request is whole. The rest of a body that nobody needs has its time."""
        self.task = None
        if not request.keep_alive:
            self._is_last = True
        if self._is_deaf or (self._ended is not None and not request.is_whole):
            self._linger()
        elif request.is_whole:
            self._next()
        else:
            request.drop_body()
            self._dropped = 0
            self._expect(_LINGERING)

    def _next(self) -> None:
        """Begin the next request, or wait for it."""
        self._request = None
        if self.counted:
            self.count_ahead()
        if not self._is_last:
            self._expect(_KEEPALIVE)
            if self._behind:
                self._serving.ahead.wait_for_turn(self)
        else:
            (self._linger if self._behind else self._close)()

    # How it ends.

    def _expect(self, seconds: float) -> None:
        """Close the connection after so many seconds, unless a request begins before."""
        deadline, due = self._deadline, self._loop.time() + seconds
        deadline.due = due
        if deadline.timer_at > due:
            deadline.start_timer(due)

    def _say(self, error: GatewayError) -> None:
        """Answer what was no request, and close."""
        if not self.transport.is_closing():
            self.transport.write(self._serving.handler.raw_refusal(error))
        self._linger()

    def _linger(self) -> None:
        """Close after the bytes that are still on their way to us: see :data:`_LINGERING`."""
        self._drop_ahead()
        if self._has_eof or self.transport.is_closing():
            self._close()
            return
        self._request = None
        self._note_end()
        self.transport.write_eof()
        self.resume_reading()
        self._expect(_LINGERING)

    def _close(self) -> None:
        self._drop_ahead()
        self._deadline.close()
        self._note_end()
        self.transport.close()

    def _note_end(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def _too_late(self) -> None:
        is_head = self._request is None and self._reader is not None and self._reader.half
        self._say(_LATE_HEAD) if is_head else self._close()  # who sends nothing asked nothing

    def finish(self) -> asyncio.Future[None] | None:
        """Close once the running request is answered. Return what is done then, None where none is running."""
        self._is_last = True
        if self.task is None:
            self._close()
            return None
        self._ended = self._loop.create_future()
        return self._ended

    @property
    def is_waiting(self) -> bool:
        """Return whether all that the gateway waits for here is the client: a request, or the rest of one."""
        return self.task is None or (self._request is not None and not self._request.is_whole)

    def cut(self) -> None:
        """Close at once. The end of the connection cancels the task."""
        self.transport.abort()

    def _after_eof(self) -> None:
        request = self._request
        if request is None or request.is_stream or not request.is_whole:
            self._close()
        elif request.version != HTTP10:
            self._loop.call_later(_FIRST_PROBE, self._probe, request, _NEXT_PROBE)

    def _probe(self, request: HttpRequest, wait: float) -> None:
        """Find out whether the client still listens: a closed socket answers data with a reset, which ends the call.
        The data is an interim answer. A second one is sent because the reset shows only at the next write."""
        if self.task is None or self.transport.is_closing():
            return
        if request.is_stream:
            self._close()
        elif not request.has_answer:
            request.send_interim()
            self._loop.call_later(wait, self._probe, request, 2 * wait)
