"""What a scripted backend may do with one request, as small declarative objects.

A behaviour is a frozen object with one coroutine, ``play``, which writes to the :class:`Exchange`. Payloads
may say ``@ID@`` for the id of the request that is answered (see :meth:`tests.fault.wire.Request.fill`),
since a test cannot know which id the client under test chooses.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from tests.fault.methods import RpcFailure
from tests.fault.wire import Headers, Request, head

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

Ending: TypeAlias = Literal["keep", "close", "reset"]
Extent: TypeAlias = Literal["nothing", "head", "half"]
_MIB = 1024 * 1024


class Exchange(Protocol):
    """One request and the way to answer it; :mod:`tests.fault.scripted` implements it."""

    request: Request
    ending: Ending
    released: asyncio.Event
    other_port: int

    async def send(self, data: bytes) -> None:
        """Write, and return when the kernel has taken all of it."""

    async def wait(self, event: asyncio.Event) -> bool:
        """Wait for the event; False where the client hung up first."""

    def run(self) -> object:
        """Call the listed method honestly; :class:`RpcFailure` where it fails."""


class Behaviour(Protocol):
    async def play(self, exchange: Exchange) -> None: ...


@dataclass(frozen=True)
class Body:
    """An HTTP answer whose framing is right, whatever is in it. ``content_type=None`` sends none."""

    payload: bytes = b""
    status: int = 200
    content_type: str | None = "application/json"
    headers: Headers = ()
    ending: Ending = "keep"
    chunked: bool = False

    def render(self, request: Request) -> tuple[bytes, bytes]:
        """Head and body for this request."""
        body = request.fill(self.payload)
        headers = self.headers
        if self.content_type is not None:
            headers = (("Content-Type", self.content_type), *headers)
        if self.chunked:
            headers = (*headers, ("Transfer-Encoding", "chunked"))
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        elif self.status != 204:
            headers = (*headers, ("Content-Length", str(len(body))))
        return head(self.status, headers), body

    async def play(self, exchange: Exchange) -> None:
        exchange.ending = self.ending
        await exchange.send(b"".join(self.render(exchange.request)))


def result(value: object, **http: Any) -> Body:
    """A JSON-RPC result; ``http`` are the other fields of :class:`Body`."""
    return Body(b'{"jsonrpc":"2.0","id":@ID@,"result":%s}' % json.dumps(value).encode(), **http)


def error(code: int, message: str, data: object = None, **http: Any) -> Body:
    """A JSON-RPC error; ``http`` are the other fields of :class:`Body`."""
    members = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return Body(b'{"jsonrpc":"2.0","id":@ID@,"error":%s}' % json.dumps(members).encode(), **http)


@dataclass(frozen=True)
class Honest:
    """What a sound backend does: run the method and answer; 204 to a notification."""

    async def play(self, exchange: Exchange) -> None:
        try:
            answer = result(exchange.run())
        except RpcFailure as failure:
            answer = error(failure.code, failure.message, failure.data)
        if exchange.request.is_notification:
            answer = Body(status=204, content_type=None)
        await answer.play(exchange)


SUM = result({"sum": 5})
"""A right answer to ``add(2, 3)``, for behaviours that spoil only the transport."""


@dataclass(frozen=True)
class Raw:
    """These bytes, verbatim but for ``@ID@``, and then the end of the connection."""

    payload: bytes = b""
    ending: Ending = "close"

    async def play(self, exchange: Exchange) -> None:
        exchange.ending = self.ending
        await exchange.send(exchange.request.fill(self.payload))


CLOSE = Raw()
"""Close the connection without an answer."""


@dataclass(frozen=True)
class Cut:
    """An answer that breaks off: a truncated body, a truncated chunk, or a reset in the middle."""

    extent: Extent
    ending: Ending = "close"
    answer: Body = SUM

    async def play(self, exchange: Exchange) -> None:
        exchange.ending = self.ending
        begun, _ = _split(self.answer, exchange.request, self.extent)
        await exchange.send(begun)


@dataclass(frozen=True)
class Hang:
    """An answer that pauses until ``event`` (by default the backend's ``release``), and then goes on to its
    end.

    Where the client hangs up first, the exchange ends and the backend's ``abandoned`` is set.
    """

    extent: Extent
    answer: Body = SUM
    event: asyncio.Event | None = None

    async def play(self, exchange: Exchange) -> None:
        begun, rest = _split(self.answer, exchange.request, self.extent)
        await exchange.send(begun)
        if await exchange.wait(self.event or exchange.released):
            await exchange.send(rest)


def _split(answer: Body, request: Request, extent: Extent) -> tuple[bytes, bytes]:
    first, body = answer.render(request)
    at = {"nothing": 0, "head": len(first), "half": len(first) + len(body) // 2}[extent]
    whole = first + body
    return whole[:at], whole[at:]


@dataclass(frozen=True)
class Several:
    """More than one answer to one request, back to back on its connection: response smuggling."""

    answers: tuple[Body, ...]

    async def play(self, exchange: Exchange) -> None:
        rendered = (b"".join(answer.render(exchange.request)) for answer in self.answers)
        await exchange.send(b"".join(rendered))


@dataclass
class InTurn:
    """The n-th request gets the n-th behaviour, and the last one stays."""

    turns: tuple[Behaviour, ...]
    _next: int = field(default=0, init=False)

    async def play(self, exchange: Exchange) -> None:
        turn = self.turns[min(self._next, len(self.turns) - 1)]
        self._next += 1
        await turn.play(exchange)


@dataclass(frozen=True)
class Redirect:
    """A redirect to the backend's second listener, which counts whoever follows."""

    status: int
    location: str = "http://127.0.0.1:{port}/jsonrpc"

    async def play(self, exchange: Exchange) -> None:
        where = self.location.format(port=exchange.other_port)
        await Body(status=self.status, content_type=None, headers=(("Location", where),)).play(exchange)


@dataclass(frozen=True)
class EarlyHints:
    """``count`` interim 103 answers before the final one."""

    count: int
    answer: Body = SUM

    async def play(self, exchange: Exchange) -> None:
        await exchange.send(head(103, (("Link", "</style.css>; rel=preload"),)) * self.count)
        await self.answer.play(exchange)


@dataclass(frozen=True)
class Stream:
    """A sound answer with a string of ``size`` bytes as its result, written block by block."""

    size: int
    chunked: bool = False

    async def play(self, exchange: Exchange) -> None:
        before, after = exchange.request.fill(b'{"jsonrpc":"2.0","id":@ID@,"result":"'), b'"}'
        length = ("Content-Length", str(len(before) + self.size + len(after)))
        framing = ("Transfer-Encoding", "chunked") if self.chunked else length
        await exchange.send(head(200, (("Content-Type", "application/json"), framing)))
        for block in (before, *_blocks(self.size), after):
            await exchange.send(b"%x\r\n%s\r\n" % (len(block), block) if self.chunked else block)
        if self.chunked:
            await exchange.send(b"0\r\n\r\n")


def _blocks(size: int) -> Iterator[bytes]:
    block = b"x" * min(size, _MIB)
    whole, rest = divmod(size, _MIB)
    for _ in range(whole):
        yield block
    if rest:
        yield block[:rest]


@dataclass(frozen=True)
class GzipBomb:
    """A result of ``size`` zeros (whole mebibytes) that travels as about a thousandth of that.

    After a full flush deflate forgets its past, so one compressed mebibyte is compressed once and sent
    again and again: neither side of the test holds the bomb in memory, and making it costs a checksum.
    """

    size: int

    async def play(self, exchange: Exchange) -> None:
        headers = (
            ("Content-Type", "application/json"),
            ("Content-Encoding", "gzip"),
            ("Transfer-Encoding", "chunked"),
        )
        await exchange.send(head(200, headers))
        for block in self._compressed(exchange.request.fill(b'{"jsonrpc":"2.0","id":@ID@,"result":"')):
            await exchange.send(b"%x\r\n%s\r\n" % (len(block), block))
        await exchange.send(b"0\r\n\r\n")

    def _compressed(self, before: bytes) -> Iterator[bytes]:
        deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
        zeros, after = b"0" * _MIB, b'"}'
        yield b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
        yield deflate.compress(before) + deflate.flush(zlib.Z_FULL_FLUSH)
        block = deflate.compress(zeros) + deflate.flush(zlib.Z_FULL_FLUSH)
        checksum = zlib.crc32(before)
        for _ in range(self.size // _MIB):
            checksum = zlib.crc32(zeros, checksum)
            yield block
        yield deflate.compress(after) + deflate.flush()
        length = len(before) + self.size + len(after)
        yield zlib.crc32(after, checksum).to_bytes(4, "little") + (length % 2**32).to_bytes(4, "little")
