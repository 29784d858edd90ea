"""Tell messages apart on a stream: by a mark behind each, by a header before it, or by the JSON alone.

| framing | what is sent | what is read |
|---|---|---|
| ``newline`` | a message in one line | lines |
| ``etx`` | a message and the byte 3 | what stands before each byte 3 |
| ``content-length`` | a header and a message, as language servers have them | the same |
| ``none`` | a message | JSON objects and arrays; what stands between them is skipped |
| ``auto`` | a message in one line | as for ``none`` |

A line break may stand between any two JSON values, so ``auto`` suits services that speak ``newline`` or ``none``.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Final

from gateway.http_client.streams import PerSecond
from gateway.jsonrpc.response import parse_head

_MOST_HEADER: Final = 8 * 1024
_HEADER_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"^content-length:[ \t]*(\d{1,12})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_OPENING: Final = re.compile(rb"[{\[]")
_STRING: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
"""The rest of a string, without its last quote."""
_BRACKET: Final = re.compile(rb'[^"{}\[\]]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}\[\]]*+)*+([{}\[\]"])', re.DOTALL)
"""The next bracket after any whole strings, or the quote of a string that is not complete."""


_BRACKETS: Final = 500
"""Brackets that are counted in one step, which takes a fraction of a millisecond."""
_NOT_YET: Final = -1
_MOST_EMPTY: Final = 10_000
"""Empty messages, as blank lines are, that may come in a second."""


class UnusableStream(ValueError):
    """Raised where no further message can be told apart."""


class Reader(ABC):
    """Cut what comes into messages. An unfinished one has at most ``most`` bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.held = bytearray()
        self._empty = PerSecond(_MOST_EMPTY)
        self._seen = 0
        """Bytes of ``held`` that belong to the message and need no second look."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the messages that are complete with these bytes, and nothing in between: for an empty one, and where a
        look for the end takes long. Raises :class:`UnusableStream`."""
        self.held += data
        while (end := self._end_of_message()) is not None:
            if end == _NOT_YET:
                yield b""
                continue
            self._check(end)
            with memoryview(self.held) as held:
                message = bytes(held[:end])
            del self.held[: end + self._after]
            self._seen = 0
            if not message or message.isspace():
                message = b""
                if self._empty.is_over():
                    raise UnusableStream("it brought too many empty messages")
            yield message
        self._check(len(self.held))

    def _check(self, size: int) -> None:
        if size > self._most:
            raise UnusableStream("a message was too large")

    _after = 0
    """Bytes of the mark behind a message."""

    @abstractmethod
    def _end_of_message(self) -> int | None:
        """Return the size of the message at the beginning of ``held``, None if it is not complete, :data:`_NOT_YET` to
        be called again."""


class _Marked(Reader):
    _after = 1

    def __init__(self, most: int, mark: bytes) -> None:
        super().__init__(most)
        self._mark = mark

    def _end_of_message(self) -> int | None:
        end = self.held.find(self._mark, self._seen)
        self._seen = len(self.held)
        return None if end < 0 else end


class _Measured(Reader):
    _length: int | None = None

    def _end_of_message(self) -> int | None:
        if self._length is None:
            end = self.held.find(_HEADER_END)
            if end > _MOST_HEADER or (end < 0 and len(self.held) > _MOST_HEADER):
                raise UnusableStream("a header was too large")
            if end < 0:
                return None
            lengths = _LENGTH.findall(self.held[:end])
            if len(lengths) != 1:
                raise UnusableStream("a message had no Content-Length")
            self._length = int(lengths[0])
            self._check(self._length)
            del self.held[: end + len(_HEADER_END)]
        length = self._length
        if len(self.held) < length:
            return None
        self._length = None
        return length


class _Unmarked(Reader):
    _depth = 0
    _is_in_string = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield as :meth:`Reader.feed` does. Whole messages mostly come, of which the engine says so in less time."""
        at = 0
        while at < len(data) and not self.held:
            end = data.find(b"\n", at) + 1 or len(data)
            self._check(end - at)
            try:
                parse_head(data[at:end])
            except ValueError:
                break
            yield data[at:end].strip()
            at = end
        if at < len(data):
            yield from super().feed(data[at:])

    def _end_of_message(self) -> int | None:
        held, at, depth = self.held, self._seen, self._depth
        if not depth:
            opening = _OPENING.search(held)
            del held[: len(held) if opening is None else opening.start()]
        for _ in range(_BRACKETS):
            if at >= len(held):
                break
            if self._is_in_string:
                at = _STRING.match(held, at).end()  # type: ignore[union-attr]  # it matches nothing, too
                if held[at : at + 1] != b'"':  # the string goes on, perhaps with the rest of an escape
                    break
                self._is_in_string = False
                at += 1
                continue
            found = _BRACKET.match(held, at)
            if found is None:
                at = len(held)
                break
            at, mark = found.end(), found[1]
            if mark == b'"':
                self._is_in_string = True
                continue
            depth += 1 if mark in b"{[" else -1
            if not depth:
                self._depth = 0
                return at
        else:
            self._seen, self._depth = at, depth
            return _NOT_YET
        self._seen, self._depth = at, depth
        return None


class Framing:
    """Write and read the messages of one connection as this framing has them. One that comes has at most ``most``
    bytes."""

    def __init__(self, name: str, most: int) -> None:
        self._is_measured = name == "content-length"
        self._sent = {"auto": b"\n", "newline": b"\n", "etx": b"\x03"}.get(name, b"")
        read = self._sent if name != "auto" else b""
        self._reader: Reader = (
            _Measured(most) if self._is_measured else _Marked(most, read) if read else _Unmarked(most)
        )
        self.feed = self._reader.feed
        self._held = self._reader.held

    @property
    def unfinished(self) -> int:
        """Return how many bytes are held of what is not complete."""
        return len(self._held)

    def wrap(self, message: bytes) -> bytes:
        """Return the bytes to send for a message."""
        return b"Content-Length: %d\r\n\r\n%b" % (len(message), message) if self._is_measured else message + self._sent

    def owed(self) -> bytes:
        """Return nothing: no framing sends anything of its own."""
        return b""

    def farewell(self) -> bytes:
        return b""
