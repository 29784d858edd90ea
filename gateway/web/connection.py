"""Serve one connection of a client: read its requests, have them answered one after the other, and end it.

What a client can cost is bounded: the time for a head (:data:`HEAD_TIMEOUT`) and for a body
(:data:`gateway.web.site.BODY_TIMEOUT`), the time to take an answer or what a stream has sent (``write_timeout``), and
what it sends ahead of answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from gateway.errors import ExpectationFailed, GatewayError, InternalError, MalformedHttp, RequestTimeout
from gateway.web.answer import LARGE, HttpAnswer, StreamedAnswer
from gateway.web.exchange import MCP, raw_response
from gateway.web.handler import Serving
from gateway.web.request import HTTP10, HttpRequest, RequestReader, framing_fault
from gateway.web.slow_clients import Deadline
from gateway.web.wire import Wire

HEAD_TIMEOUT: Final = 10.0
"""Seconds for the head of a request to arrive, from the connection or from its first byte on."""
MAX_AHEAD: Final = 512 * 1024
"""Bytes of requests that are sent before the answer to an earlier one."""
_KEEPALIVE: Final = 75.0  # seconds after which an idle connection is closed
_LINGERING: Final = 10.0
"""Seconds for the rest of a body that nobody needs. A connection that is closed with bytes unread is reset, which may
overtake the answer."""
_PIECE: Final = 16 * 1024
"""Bytes that are parsed at a time. So not many small requests are parsed before one of them is answered."""
_FIRST_PROBE, _NEXT_PROBE = 0.5, 0.1  # seconds after the client's end of input; from then on, doubled each time
_LATE_HEAD: Final = RequestTimeout(f"The head of the request did not arrive within {HEAD_TIMEOUT:g} s")
_UNEXPECTED: Final = ExpectationFailed("Expect must be 100-continue")

log = structlog.get_logger()


class Connection(Wire):
    """Serve one connection. ``task`` answers the request that is running, which is at most one."""

    __slots__ = (
        "_ahead",
        "_aside",
        "_aside_size",
        "_deadline",
        "_ended",
        "_fault",
        "_is_deaf",
        "_is_last",
        "_loop",
        "_on_lost",
        "_reader",
        "_request",
        "_serving",
        "task",
    )

    def __init__(self, serving: Serving, on_lost: Callable[[], None]) -> None:
        super().__init__(serving.held, serving.write_timeout)
        self.task: asyncio.Task[None] | None = None
        self.is_draining = serving.is_draining
        self._serving = serving
        self._loop = asyncio.get_running_loop()
        self._on_lost = on_lost
        self._reader: RequestReader | None = None
        self._request: HttpRequest | None = None
        self._ahead: list[HttpRequest] = []
        """Requests that wait for the answer to an earlier one."""
        self._aside: list[bytes] = []
        """Bytes that came behind these, not parsed yet."""
        self._aside_size = 0
        self._fault: MalformedHttp | None = None
        """Error that is said, after the answers to earlier requests, of what could not be read."""
        self._is_last = False  # no request is begun after the running one
        self._is_deaf = False  # what comes is not read
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
        self._is_deaf = self._is_last = True
        self._request = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._serving.connections.discard(self)
        if self.task is not None:
            self.task.cancel()
        self._note_end()
        self._on_lost()

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        if self._ahead or self._aside:
            self._put_aside(data)
        elif len(data) <= _PIECE:
            self._read(data)
        else:
            self._read_pieces(data)

    def eof_received(self) -> bool:
        """Keep the connection open for writing: a client that sends no more may still wait for its answer.

        Of several pipelined requests only the running one is answered (RFC 9112 §9.3.2: clients may repeat the others).
        """
        self._drop_ahead()
        self._loop.call_soon(self._after_eof)  # a request that came with it has been started by then
        return True

    # What is read.

    def _read_pieces(self, data: bytes) -> None:
        for start in range(0, len(data), _PIECE):
            if self._is_deaf:
                return
            if self._ahead:
                self._put_aside(data[start:])
                return
            self._read(data[start : start + _PIECE])

    def _read(self, data: bytes) -> None:
        reader = self._reader
        if reader is None:
            reader = self._reader = RequestReader(self, self._begin, self._next)
        was_in_head = reader.in_head
        try:
            reader.feed(data)
        except MalformedHttp as fault:
            self._refuse(fault, reader.request)
            return
        if reader.in_head and not was_in_head and self._request is None:
            self._expect(HEAD_TIMEOUT)

    def _put_aside(self, data: bytes) -> None:
        self._aside.append(data)
        self._aside_size += len(data)
        if self._aside_size > MAX_AHEAD:
            self._drop_ahead()

    def _drop_ahead(self) -> None:
        """Begin none of the requests that were sent ahead, and read no more."""
        self._is_deaf = self._is_last = True
        self._ahead.clear()
        self._aside.clear()

    def _refuse(self, fault: MalformedHttp, unfinished: HttpRequest | None) -> None:
        """Read no more: nobody knows where the next request begins. ``unfinished`` is one whose body is at fault."""
        self._is_deaf = True
        self._fault = MalformedHttp(fault.message)  # without the traceback, which refers to this connection
        self._serving.log_malformed()
        if unfinished in self._ahead:
            self._ahead.remove(unfinished)
        elif unfinished is not None and (unfinished.is_begun or unfinished is not self._request):
            unfinished.fail()  # its answer tells what is wrong, if it needs the body
            self._is_last = True
            if self.task is None:
                self._close()
            return
        elif unfinished is not None and self.task is not None:
            self.task.cancel()
            self._request = self.task = None
        if self._request is None:
            self._say(fault)

    # What is answered.

    def _begin(self, request: HttpRequest) -> None:
        """Take a request whose head is here."""
        if self._is_last or self._is_deaf:
            return
        request.fault = framing_fault(request)
        self._is_deaf = request.fault is not None
        if self._request is None:
            self._start(request)
        else:
            self._ahead.append(request)

    def _start(self, request: HttpRequest) -> None:
        self._request = request
        self.caller = self._deadline.due = None
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
            self._serving.writes.call(self._send, request, answer)  # at the end of this turn (decision 45)
        else:
            self._send(request, answer)  # a large one must not wait: nobody counts its bytes until it is sent

    async def _answer(self, request: HttpRequest) -> HttpAnswer | StreamedAnswer:
        handler = self._serving.handler
        if request.fault is not None:
            self._serving.log_malformed()
            request.keep_alive = False
            return handler.refusal(request, request.fault)
        expected = None if request.version == HTTP10 else request.headers.get("Expect")
        if not expected:
            return await handler(request)
        if expected.lower() != "100-continue":
            return handler.refusal(request, _UNEXPECTED)
        answer = await handler(request)
        if not request.is_whole:
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
        if request.is_whole:
            self._next()
        elif self._fault is not None or self._ended is not None or self.transport.is_closing():
            self._close()
        else:
            request.drop_body()
            self._expect(_LINGERING)

    def _next(self) -> None:
        """Begin the next request, or wait for it."""
        self._request = None
        if self._is_last:
            self._close()
            return
        if self._ahead:
            self._start(self._ahead.pop(0))
        if self._aside and not self._ahead:  # the rest of the request that was just begun may be in it
            aside, self._aside, self._aside_size = b"".join(self._aside), [], 0
            self._read_pieces(aside)
        if self._request is not None:
            return
        if self._fault is not None:
            self._say(self._fault)
        else:
            in_head = self._reader is not None and self._reader.in_head
            self._expect(HEAD_TIMEOUT if in_head else _KEEPALIVE)

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
            self.transport.write(raw_response(MCP.error_bytes(error, None), error))
        self._close()

    def _close(self) -> None:
        self._is_deaf = self._is_last = True
        self._deadline.close()
        self._note_end()
        self.transport.close()

    def _note_end(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def _too_late(self) -> None:
        if self._request is None and self._reader is not None and self._reader.in_head:
            self._say(_LATE_HEAD)
        else:
            self._close()  # without an answer: who sends nothing asked nothing

    def finish(self) -> asyncio.Future[None] | None:
        """Begin no further request, and close once the running one is answered. Return what is done then, None where
        none is running."""
        self._is_last = True
        self._ahead.clear()
        if self.task is None:
            self._close()
            return None
        self._ended = self._loop.create_future()
        return self._ended

    def cut(self) -> None:
        """Close at once."""
        if self.task is not None:
            self.task.cancel()
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
