"""Define the response that each HTTP client of this folder returns, and the errors that it raises."""

import asyncio
import select
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from msgspec import Struct
from multidict import CIMultiDict

CONNECT_TIMEOUT: Final = 3.0
# Being first avoids writing into a connection that closes. Of common servers gunicorn is the quickest: 2 s, others 5 s.
KEEPALIVE: Final = 1.5
DNS_TTL: Final = 10
CHUNK: Final = 64 * 1024


class OutboundError(Exception):
    """Raised where an exchange has no usable answer. ``sent`` is False if certainly no byte of the request was sent."""

    sent = True


class ConnectFailed(OutboundError):
    """Raised where a connection failed: refused, no such name, a forbidden address, TLS not trusted by either side.
    With TLS 1.3 the request may have been sent when the server refuses our certificate; the server has not read it."""

    sent = False


class EndedUnsent(ConnectFailed):
    """Raised where a kept connection ended before the request was sent on it."""


class NoConnection(OutboundError):
    """Raised where no connection came free in time: all were in use, or the other side accepted none."""

    sent = False


class Interrupted(OutboundError):
    """Raised where the connection ended before the answer did."""


class DeadlinePassed(OutboundError):
    """Raised where no complete answer came in time. ``ignored_second``: the connection had brought one before."""

    ignored_second = False


class UnusableAnswer(OutboundError):
    """Raised where the other side did answer, with what cannot be used."""


class AnswerTooLarge(UnusableAnswer):
    """Raised where the answer is larger than allowed."""


class NoRoom(OutboundError):
    """Raised where the process holds too many answers to read this one."""


class BadHttp(UnusableAnswer):
    """Raised where the answer is not valid HTTP (RFC 9112)."""


class Answer(Struct):
    """Hold an HTTP answer, its body decompressed."""

    status: int
    _headers: Mapping[str, str] | list[tuple[bytes, bytes]]
    body: bytes

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers, decoded when they are first needed: those of a result never are."""
        if isinstance(self._headers, list):
            self._headers = CIMultiDict(
                (name.decode("latin-1"), value.decode("latin-1")) for name, value in self._headers
            )
        return self._headers

    @property
    def content_type(self) -> str:
        """Return the bare media type, lower-case."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()


class HandshakeRefused(OutboundError):
    """Raised where the answer to a WebSocket's handshake opens none (RFC 6455 §4.1)."""

    sent = False

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"the handshake was answered with HTTP {answer.status}")
        self.answer = answer


def has_input(transport: asyncio.BaseTransport | None) -> bool:
    """Return whether the other side of an idle connection sent or closed, which the loop may not have read yet."""
    return transport is None or transport.is_closing() or bool(input_check(transport)())


def input_check(transport: asyncio.BaseTransport) -> Callable[[], list[Any]]:
    """Return a function for one open connection that returns nothing unless the other side has sent something or closed
    it. It may not be called once the transport closes, for the descriptor may then be another's."""
    descriptor = transport.get_extra_info("socket").fileno()
    if not hasattr(select, "poll"):  # Windows, where select takes any number
        return lambda: select.select([descriptor], [], [], 0)[0]
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return partial(poll.poll, 0)
