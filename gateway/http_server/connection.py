"""Serve one connection of a client: read its requests, send the responses one after the other, and end it."""

import asyncio
import select
from collections.abc import Callable
from typing import Final, Protocol, cast

from gateway.concurrency.turns import Deadline
from gateway.errors import GatewayError, MalformedHttp, RequestTimeout
from gateway.http_server.handler import MAX_AHEAD, TURNS, Serving
from gateway.http_server.held_bytes import UnreadResponse
from gateway.http_server.request import HTTP10, HttpRequest
from gateway.http_server.request_reader import RequestReader
from gateway.http_server.response import LARGE, Response, StreamedResponse

HEAD_TIMEOUT: Final = 10.0
"""Seconds for the head of a request to arrive, from the connection or from its first byte on."""
_KEEPALIVE: Final = 75.0  # seconds after which an idle connection is closed
_LINGERING: Final = 10.0
"""Seconds to read unneeded bytes: closing with unread bytes is a reset, and the client may lose the response."""
_YOUNG: Final = 1.0  # seconds that a part of a request has for the rest, where idle connections make room for any other
_MAX_DROPPED: Final = 16 * 1024 * 1024  # bytes that are read in that time at most
_FIRST_PROBE, _NEXT_PROBE = 0.5, 0.1  # seconds after the client's end of input; from then on, doubled each time
_LATE_HEAD: Final = RequestTimeout(f"The head of the request did not arrive within {HEAD_TIMEOUT:g} s")


class _HasFileno(Protocol):
    def fileno(self) -> int: ...


class Connection(asyncio.BufferedProtocol):
    """Serve one connection, the ``ClientConnection`` of its requests. ``task`` runs the current request's handler."""

    __slots__ = (
        "_behind", "_deadline", "_dropped", "_ended", "_half_since", "_has_eof", "_is_last", "_is_paused", "_loop",
        "_on_lost", "_reader", "_request", "_serving", "_stopped_reading", "_unread", "counted", "held", "is_draining",
        "owner", "remote", "task", "transport",
    )  # fmt: skip

    def __init__(self, serving: Serving, on_lost: Callable[[], None]) -> None:
        self.transport: asyncio.Transport  # from connection_made on, before there is a request
        self.task: asyncio.Task[None] | None = None
        self.held = serving.held
        self.is_draining = serving.is_draining
        self.owner = self.remote = ""
        self.counted = 0
        self._serving = serving
        self._loop = asyncio.get_running_loop()
        self._on_lost = on_lost
        self._reader: RequestReader | None = None
        self._request: HttpRequest | None = None
        self._behind = b""  # bytes after the running request, or that wait for their turn; not parsed yet
        self._half_since = 0.0  # when the first part came of a request that is not whole
        self._dropped = 0  # bytes that were read without need
        self._is_last = False  # no request begins after the running one
        self._is_paused = False
        self._stopped_reading = False  # later bytes are dropped
        self._has_eof = False
        self._deadline = Deadline(self._expire)
        self._unread = UnreadResponse(serving.held, serving.write_timeout)
        self._ended: asyncio.Future[None] | None = None

    # asyncio calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        address = transport.get_extra_info("peername")
        self.remote = str(address[0]) if address else ""
        self.transport.set_write_buffer_limits(high=0)  # pause_writing() is called for each byte that has to wait
        self._serving.connections.add(self)
        self._deadline.expire_in(HEAD_TIMEOUT)

    def connection_lost(self, exc: Exception | None) -> None:
        self._unread.end()
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
        if self._behind or (request is not None and request.is_whole and not self._stopped_reading):
            self._behind += data
            if len(self._behind) == MAX_AHEAD:
                self.pause_reading()
            self.count_ahead()
            return
        if self._stopped_reading or (request is not None and self.task is None):
            self._dropped += nbytes
            if self._dropped > _MAX_DROPPED:
                (self._close if self.task is None else self.pause_reading)()
        # One connection may have many reads in a turn, and many small chunks take 1 ms of each.
        if (nbytes == MAX_AHEAD or len(self._serving.connections) > TURNS) and not self._serving.ahead.has_turn():
            self._behind = b"" if self._stopped_reading else data
            self._serving.ahead.wait_for_turn(self)
            self.count_ahead()
        elif not self._stopped_reading:
            self._read(data)

    def eof_received(self) -> bool:
        """Keep the connection open for the running response; pipelined requests may be repeated (RFC 9112 §9.3.2)."""
        self._has_eof = True
        self._drop_ahead()
        self._loop.call_soon(self._after_eof)  # a request that came with it has been started by then
        return True

    def pause_writing(self) -> None:
        self._unread.begin(self.owner, self.transport)

    def resume_writing(self) -> None:
        self._unread.end()
        if self.task is not None and self._request is not None and self._request.response_sent:
            self._finish(self._request)

    # Read requests.

    def pause_reading(self) -> None:
        if not self._is_paused and not self.transport.is_closing():
            self._is_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if self._is_paused and len(self._behind) < MAX_AHEAD and not self.transport.is_closing():
            self._is_paused = False
            self.transport.resume_reading()

    def read_on(self) -> None:
        """Read the bytes that waited for this turn, unless they are behind a running request."""
        if self._request is None or not self._request.is_whole or self.task is None:
            behind, self._behind = self._behind, b""
            self.resume_reading()
            if behind:
                self._read(behind)

    def _read(self, data: bytes) -> None:
        reader = self._reader
        if reader is None:
            reader = self._reader = RequestReader(self, self._begin, self._next)
        was_in_head, was_in_body = reader.half, reader.request is not None
        try:
            behind = reader.feed(data)
        except MalformedHttp as fault:
            self._refuse(fault, reader.request)
            return
        if reader.half and not was_in_head:
            self._deadline.expire_in(HEAD_TIMEOUT)
        if (reader.half or reader.request is not None) and not was_in_head and not was_in_body:
            self._half_since = self._loop.time()
        if behind and not self._stopped_reading:
            self._behind = behind
            if self._request is None:
                self._serving.ahead.wait_for_turn(self)
        if behind or reader.request is not None or reader.half or self.counted:
            self.count_ahead()

    def count_ahead(self) -> None:
        size = len(self._behind) + (0 if self._reader is None else self._reader.held)
        self._serving.ahead.count(self, size + (0 if self._request is None else self._request.unread))

    def give_up(self, error: GatewayError) -> None:
        """Make room: drop what was sent ahead, and end the connection after the running request."""
        self._drop_ahead()
        request = self._request
        if request is None:
            self._send_refusal(error)
        elif self.task is None:
            self._linger()  # its response was sent, and the rest of its body was dropped
        elif not request.is_whole:
            request.drop_body()
            request.fail(error)

    def _drop_ahead(self) -> None:
        self._stopped_reading = self._is_last = True
        self._behind = b""
        if self._reader is not None:
            self._reader.half, self._reader.request = b"", None
        if self.counted:
            self._serving.ahead.count(self, 0)

    def _refuse(self, fault: MalformedHttp, unfinished: HttpRequest | None) -> None:
        """Read no more: the next request may begin anywhere. The fault is in the body of ``unfinished``, if given."""
        self._serving.log_malformed(fault.message)
        self._drop_ahead()
        if unfinished is not None and unfinished.is_begun:
            unfinished.fail()  # its response says what is wrong, if it needs the body
            if self.task is None:
                self._linger()
            return
        if self.task is not None:
            self.task.cancel()
            self.task = None
        self._send_refusal(MalformedHttp(fault.message))  # without the traceback, which refers to this connection

    # Send responses.

    def _begin(self, request: HttpRequest) -> None:
        if self._is_last or self._stopped_reading:
            return
        self._stopped_reading = request.fault is not None
        self._request = request
        self.owner, self._deadline.due = "", None
        self.task = self._loop.create_task(self._serve(request))

    async def _serve(self, request: HttpRequest) -> None:
        request.is_begun = True
        try:
            response = await self._serving.respond(request)
            if isinstance(response, StreamedResponse):
                await response.send(request)
                self._note_sent(request)
                return
        except asyncio.CancelledError:
            self.transport.abort()
            raise
        except Exception as error:  # noqa: BLE001, every failure gets a response
            response = self._serving.failure(request, error)
        if len(response.body) <= LARGE:
            self._serving.writes.add(self._send, request, response)  # at the end of this turn (decision 44)
        else:
            self._send(request, response)  # a large one must not wait: its bytes are not counted until it is sent

    def _send(self, request: HttpRequest, response: Response) -> None:
        if self.transport.is_closing():
            return
        if not request.response_begun:  # else a stream has failed
            try:
                response.send(request)
            except ValueError as error:  # a header that would break the head
                self._serving.failure(request, error).send(request)
        self._note_sent(request)

    def _note_sent(self, request: HttpRequest) -> None:
        request.response_sent = True
        if self._unread.drained is None and not self.transport.is_closing():
            self._finish(request)

    async def drain(self) -> None:
        if self._unread.drained is not None:
            await self._unread.drained
        if self.transport.is_closing():
            raise ConnectionResetError("the client is gone")

    def _finish(self, request: HttpRequest) -> None:
        """Go on after a response, once the request is whole. The rest of a body that is not needed has a time-out."""
        self.task = None
        if not request.keep_alive:
            self._is_last = True
        if self._stopped_reading or (self._ended is not None and not request.is_whole):
            self._linger()
        elif request.is_whole:
            self._next()
        else:
            request.drop_body()
            self._dropped = 0
            self._deadline.expire_in(_LINGERING)

    def _next(self) -> None:
        """Begin the next request, or wait for it."""
        self._request = None
        if self.counted:
            self.count_ahead()
        if not self._is_last:
            self._deadline.expire_in(_KEEPALIVE)
            if self._behind:
                self._serving.ahead.wait_for_turn(self)
            else:
                self._unread.since = 0.0
        else:
            (self._linger if self._behind else self._close)()

    # End the connection.

    def _expire(self) -> None:
        """Close, since no request has begun in time. Who waits for a turn to be read has sent something: look later."""
        if self._request is None and self._is_paused:
            self._deadline.expire_in(HEAD_TIMEOUT)
        elif self._request is None and self._reader is not None and self._reader.half:
            self._send_refusal(_LATE_HEAD)
        else:
            self._close()  # no response: an idle client has sent no request

    def _send_refusal(self, error: GatewayError) -> None:
        """Send an error for bytes that are not a valid request, then close."""
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
        self._deadline.expire_in(_LINGERING)

    def _close(self) -> None:
        self._drop_ahead()
        self._deadline.close()
        self._note_end()
        self.transport.close()

    def _note_end(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def finish(self) -> asyncio.Future[None] | None:
        """Close once the response to the running request is sent. Return a future of that, None if none is running."""
        self._is_last = True
        if self.task is None:
            self._close()
            return None
        self._ended = self._loop.create_future()
        return self._ended

    @property
    def is_waiting(self) -> bool:
        """Return whether the gateway only waits for the client: for a request, or the rest of one."""
        return self.task is None or (self._request is not None and not self._request.is_whole)

    @property
    def is_idle(self) -> bool:
        """Return whether no whole request is under way, no part of one is younger than a second, and no bytes wait; or
        the client has not read its responses for a second."""
        if self._unread.drained is not None:
            return self._loop.time() - self._unread.since >= _YOUNG
        if not self.is_waiting:
            return False
        if self._stopped_reading or self.transport.is_closing():
            return self.task is None
        if self.task is not None or (self._reader is not None and self._reader.half):
            return self._loop.time() - self._half_since >= _YOUNG
        was_answered = self._request is not None  # before its body had come
        return was_answered or not (self._behind or has_waiting(self.transport.get_extra_info("socket")))

    def _after_eof(self) -> None:
        request = self._request
        if request is None or request.is_stream or not request.is_whole:
            self._close()
        elif request.version != HTTP10:
            self._loop.call_later(_FIRST_PROBE, self._probe, request, _NEXT_PROBE)

    def _probe(self, request: HttpRequest, wait: float) -> None:
        """Send interim responses: a closed socket answers with a reset, which the next write shows."""
        if self.task is None or self.transport.is_closing():
            return
        if request.is_stream:
            self._close()
        elif not request.response_begun:
            request.send_interim()
            self._loop.call_later(wait, self._probe, request, 2 * wait)


def has_waiting(socket: _HasFileno) -> bool:
    """Return whether bytes wait to be read from a socket, or a connection waits to be accepted from it."""
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select((socket,), (), (), 0)[0])
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(0))
