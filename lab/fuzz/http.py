"""Requests that are nearly sound, read by our reader and by h11."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast

import h11

from gateway.errors import MalformedHttp
from gateway.http_server.request import ClientConnection, HttpRequest
from gateway.http_server.request_reader import RequestReader

SEED: Final = 21
_METHODS: Final = (
    b"GET",
    b"POST",
    b"POST",
    b"PUT",
    b"HEAD",
    b"OPTIONS",
    b"DELETE",
    b"CONNECT",
    b"PRI",
    b"TRACE",
    b"get",
    b"G\x85T",
)
_TARGETS: Final = (
    b"/mcp", b"/", b"/a?b=c", b"*", b"http://127.0.0.1/mcp", b"ftp://a/b", b"http://a@127.0.0.1/", b"/a#b", b"a", b"",
    b"//a", b"/%zz", b"/\xc3\xa4", b"http://[::1/", b"127.0.0.1:80", b"/a b",
    b"/a\r\nX:", b"/a\nX:", b"/a\tb",
)  # fmt: skip
_VERSIONS: Final = (
    *(b"HTTP/1.1",) * 12, b"HTTP/1.0", b"HTTP/2.0", b"HTTP/0.9", b"RTSP/1.0", b"ICE/1.0", b"http/1.1", b"HTTP/1.1 ",
    b"",
)  # fmt: skip
_BLANKS: Final = (*(b" ",) * 12, b"  ", b"\t", b"")
_ENDS: Final = (*(b"\r\n",) * 30, b"\n", b"\r", b"\r\r\n")
_HEADERS: Final = (
    b"Host: 127.0.0.1", b"Host: a", b"X: y", b"X:y", b"X:", b"X : y", b" X: y", b"X: \x00", b"X: \x85", b"X\x85: y",
    b"X", b"content-length: 5", b"X-Length: 5", b"X-Content-Length: 5", b"Length: 5", b"HOST: b",
    b"Connection: close", b"Connection: keep-alive", b"Connection: upgrade", b"Upgrade: h2c", b"Connection: upgrade",
    b"Expect: 100-continue", b"Content-Encoding: gzip", b"Content-Type: a", b"Content-Length: 5", b"Content-Length: 5",
    b"Content-Length: +5", b"Content-Length: 5, 5", b"Content-Length: 0x5", b"Content-Length: 05",
    b"Content-Length: -1",
    b"Content-Length: 99999999999999999999", b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\x85", b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: Chunked",
    b"Transfer-Encoding: \x0bchunked", b"Transfer-Encoding: identity",
    b"CONTENT-LENGTH: 5", b"Content-Length:5", b"Content-Length:\t5 ", b"transfer-encoding: chunked",
    b"content-encoding: gzip", b"Expect: x", b"X: HTTP/1.1", b"X:\ty\t", b"Upgrade: websocket",
    b"Connection: Upgrade, close",
)  # fmt: skip
_BODIES: Final = (
    b"12345", b"", b"\r\n\r\n1", b"5\r\n12345\r\n0\r\n\r\n", b"0\r\n\r\n", b"5;a=b\r\n12345\r\n0\r\nX: y\r\n\r\n",
    b"4\r\n\r\n\r\n\r\n0\r\n\r\n", b"5\n12345\n0\n\n", b"05\r\n12345\r\n00\r\n\r\n", b"5 \r\n12345\r\n0\r\n\r\n",
    b"G\r\n", b"ffffffffffffffffff\r\n", b"5\r\n123456\r\n0\r\n\r\n", b"0\r\nHost: b\r\n\r\n",
)  # fmt: skip


@dataclass
class Seen:
    """What a reader made of the bytes: method, target and body of each whole request, and whether it refused more."""

    whole: list[tuple[bytes, bytes, bytes]] = field(default_factory=list)
    refuses: bool = False


Known: TypeAlias = Callable[[bytes, Seen, Seen], bool]


class NoConnection:
    """Stands for a connection whose reading nobody holds up."""

    counted = 0

    def pause_reading(self) -> None:
        """Nothing comes in any case."""

    resume_reading = pause_reading


def made(choice: random.Random) -> bytes:
    """One to three requests, of which most have a fault or two."""
    return b"".join(_one(choice) for _ in range(choice.choice((1, 1, 2, 3))))


def _one(choice: random.Random) -> bytes:
    pick = choice.choice
    if choice.random() < 0.6:  # sound up to its framing
        line = pick((b"GET", b"POST")) + b" /mcp HTTP/1.1"
    else:
        line = pick(_METHODS) + pick(_BLANKS) + pick(_TARGETS) + pick(_BLANKS) + pick(_VERSIONS)
    headers = [b"Host: 127.0.0.1"] * (choice.random() < 0.9) + [pick(_HEADERS) for _ in range(pick((0, 1, 1, 2, 3)))]
    sent = b"".join(part + pick(_ENDS) for part in (line, *headers, b"")) + pick(_BODIES)
    if choice.random() < 0.1:
        at = choice.randrange(len(sent))
        sent = sent[:at] + pick((b"\0", b"\r", b"\n", b" ", b"\x85", b"\xff", b"")) + sent[at + 1 :]
    return sent


def again(choice: random.Random) -> list[bytes]:
    """A request three times, each as a whole with a body of its own, and sometimes with a byte that is another."""
    pick = choice.choice
    headers = [b"Host: 127.0.0.1", b"Content-Length: %d", *(pick(_HEADERS) for _ in range(pick((0, 0, 1, 2))))]
    choice.shuffle(headers)
    head = b"".join(part + b"\r\n" for part in (b"POST /mcp HTTP/1.1", *headers, b""))
    sent = [head % len(body) + body for body in (b"x" * pick((0, 1, 9, 10, 123)) for _ in range(3))]
    if choice.random() < 0.5:
        last, at = sent[-1], choice.randrange(len(head) - 1)
        sent[-1] = last[:at] + pick((b"\0", b"\r", b"\n", b" ", b"0", b"x", b"")) + last[at + 1 :]
    return sent


def parts_of(sent: bytes, choice: random.Random) -> list[bytes]:
    places = sorted(choice.randrange(len(sent) + 1) for _ in range(choice.choice((0, 1, 2, 9))))
    return [sent[a:b] for a, b in zip([0, *places], [*places, len(sent)], strict=True) if a < b]


def differences(count: int, seed: int = SEED) -> list[str]:
    """Return those of so many cases that :data:`KNOWN` does not explain."""
    found = []
    for number in range(count):
        choice = random.Random(f"{seed}-{number}")
        sent = made(choice)
        found += [
            f"case {number}: {parts!r}\n  ours {seen[0]}\n  h11  {seen[1]}"
            for parts in (parts_of(sent, choice), again(choice))
            if (seen := difference(b"".join(parts), parts)) is not None
        ]
    return found


def ours(parts: list[bytes]) -> Seen:
    """Read as a connection does. What is no :class:`MalformedHttp` is raised."""
    seen, begun, bodies = Seen(), cast("list[HttpRequest]", []), Counter[int]()
    texts: dict[int, bytes] = {}
    reader = RequestReader(cast(ClientConnection, NoConnection()), begun.append, lambda: None)
    try:
        for part in parts:
            left = part
            while left:
                left = reader.feed(left)
                if begun:
                    request = begun[-1]
                    texts[len(begun)] = texts.get(len(begun), b"") + request.take()
                    if request.fault is not None:
                        raise request.fault
                    if request.is_whole and not bodies[len(begun)]:
                        bodies[len(begun)] = 1
                        target = request.target.encode("utf-8", "surrogateescape")
                        seen.whole.append((request.method.encode(), target, texts[len(begun)]))
                        if not request.keep_alive:
                            return seen
    except MalformedHttp:
        seen.refuses = True
    return seen


def h11s(parts: list[bytes]) -> Seen:
    seen, body, asked = Seen(), b"", None
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=64 * 1024)
    try:
        for part in parts:
            connection.receive_data(part)
            while (event := connection.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                if isinstance(event, h11.Request):
                    asked, body = event, b""
                elif isinstance(event, h11.Data):
                    body += event.data
                elif isinstance(event, h11.EndOfMessage) and asked is not None:
                    seen.whole.append((bytes(asked.method), bytes(asked.target), body))
                    connection.send(h11.Response(status_code=404, headers=[("Content-Length", "0")]))
                    connection.send(h11.EndOfMessage())
                    if connection.our_state is h11.MUST_CLOSE or connection.their_state is not h11.DONE:
                        return seen
                    connection.start_next_cycle()
    except h11.RemoteProtocolError:
        seen.refuses = True
    return seen


def difference(sent: bytes, parts: list[bytes]) -> tuple[Seen, Seen] | None:
    """Return what both see, where that is not the same and no row of :data:`KNOWN` says why."""
    mine, theirs = ours(parts), h11s(parts)
    if mine == theirs or any(is_it(sent, mine, theirs) for is_it, _ in KNOWN):
        return None
    return mine, theirs


def _refused(pattern: bytes) -> Known:
    """Ours refuses what matches, and h11 saw what ours did before that."""
    found = re.compile(pattern)
    return lambda sent, mine, theirs: (
        mine.refuses and mine.whole == theirs.whole[: len(mine.whole)] and found.search(sent) is not None
    )


def _taken(pattern: bytes) -> Known:
    """Ours takes what matches and h11 refuses; no request of ours is other than h11's."""
    found = re.compile(pattern)
    return lambda sent, mine, theirs: (
        theirs.refuses and theirs.whole == mine.whole[: len(theirs.whole)] and found.search(sent) is not None
    )


def _stops_at_connect(_: bytes, mine: Seen, theirs: Seen) -> bool:
    seen = mine.whole
    return bool(seen) and seen[-1][0] == b"CONNECT" and seen == theirs.whole[: len(seen)]


def _is_earlier(_: bytes, mine: Seen, theirs: Seen) -> bool:
    return mine.refuses and not theirs.refuses and mine.whole == theirs.whole


KNOWN: Final[tuple[tuple[Known, str], ...]] = (
    (_refused(rb"(?<!\r)\n|\r(?!\n)"), "a line that ends with LF or CR alone (RFC 9112 §2.2)"),
    (_refused(rb"\r\n[ \t]"), "a folded header line (RFC 9112 §5.2: 400)"),
    (_refused(rb"(?i)Content-Length: (?:5, 5|9{20})"), "a list of lengths, a length of more than 64 bits"),
    (_refused(rb"(?is)\nContent-Length:.*\nContent-Length:"), "a length that is said twice"),
    (_refused(rb"(?is)Transfer-Encoding: .*\nContent-Length:"), "both framings"),
    (_refused(rb"(?is)\nContent-Length:.*Transfer-Encoding: "), "both framings"),
    (_refused(rb"(?i)HTTP/(?:2.0|0.9)|RTSP/|ICE/"), "another protocol or version"),
    (_refused(rb"(?is)HTTP/1.0.*Transfer-Encoding"), "HTTP/1.0 with a transfer coding (RFC 9112 §6.1)"),
    (_refused(rb"(?is)Content-Encoding: .*Content-Encoding: "), "Content-Encoding twice"),
    (
        _refused(rb"(?:^|\n)(?!(?:GET|POST|PUT|HEAD|OPTIONS|DELETE|CONNECT) )\S+ \S+ HTTP/"),
        "a method that HTTP does not know",
    ),
    (_refused(rb"(?i)\nContent-Length:\s?0?5(?s:.*)\r\n\r\nG\r\n[A-Z]"), "half a method, behind a body with the other"),
    (_refused(rb"\n5;[\x00-\x08]"), "a control character in the extension of a chunk (RFC 9112 §7.1.1)"),
    (_refused(rb"\n5 \r\n"), "a blank behind the size of a chunk (RFC 9112 §7.1)"),
    (_refused(rb" (?:\S*[#@\[]\S*|(?!/|http://)\S+) HTTP/"), "a target that is not one of an HTTP service"),
    (_refused(rb"(?s)Content-Type: .*Content-Type: "), "a header of one value that is given twice"),
    (_taken(rb"\r\n\r\n(?:\r\n)+|^\r\n"), "empty lines before a request (RFC 9112 §2.2)"),
    (_stops_at_connect, "what is behind CONNECT is not read: it gets 405 and the end of the connection"),
    (_is_earlier, "what is no request is refused at its first line; h11 waits for the end of the head"),
)  # fmt: skip
"""What ours and h11 see differently, and why."""
