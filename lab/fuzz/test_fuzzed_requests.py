"""Five thousand nearly sound requests, read by us and by h11. ``python -m lab.fuzz`` has more."""

from __future__ import annotations

import gc
from typing import cast

from multidict import CIMultiDict

from gateway.http_server.request import ClientConnection, HttpRequest
from gateway.http_server.request_reader import RequestReader
from lab.fuzz.http import NoConnection, differences, h11s, ours


def test_our_reader_and_h11_see_the_same_requests_and_bodies_but_for_what_is_known() -> None:
    assert differences(5000) == []


def test_both_read_a_sound_request_behind_another() -> None:
    parts = [
        b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r",
        b"\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n",
    ]
    seen = ours(parts)
    assert seen == h11s(parts)
    assert seen.whole == [(b"POST", b"/a", b"12345"), (b"GET", b"/b", b"")]
    assert not seen.refuses


def test_a_head_that_comes_again_has_the_length_of_its_own_body() -> None:
    begun: list[HttpRequest] = []
    reader = RequestReader(cast(ClientConnection, NoConnection()), begun.append, lambda: None)
    for body in (b"1", b"2", b"1234567890", b"3"):
        head = f"POST /a HTTP/1.1\r\nHost: a\r\ncontent-length: {len(body)}\r\nX: %d\r\n\r\n"
        assert reader.feed(head.encode() + body) == b""
    assert [(request.headers["Content-Length"], request.take()) for request in begun] == [
        ("1", b"1"), ("1", b"2"), ("10", b"1234567890"), ("1", b"3"),
    ]  # fmt: skip
    assert all(request.is_whole and request.headers["X"] == "%d" for request in begun)


def test_a_head_that_differs_in_one_byte_is_read_anew() -> None:
    parts = [
        b"POST /%b HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nX: %b\r\n\r\n1" % end
        for end in ((b"a", b"a"), (b"b", b"a"), (b"b", b"b"))
    ]
    seen = ours(parts)
    assert seen == h11s(parts)
    assert [target for _, target, _ in seen.whole] == [b"/a", b"/b", b"/b"]
    refused = ours([parts[0], parts[0].replace(b"X: a", b"X\x00 a")])
    assert (len(refused.whole), refused.refuses) == (1, True)


def test_a_head_that_comes_again_behind_half_of_another_one_is_a_part_of_that() -> None:
    whole = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n1"
    parts = [whole, b"GET /b HTTP/1.1\r\nX: ", whole, b"GET /c HTTP/1.1\r\nHost: a\r\n\r\n"]
    seen = ours(parts)
    assert seen == h11s(parts)
    assert seen.whole == [(b"POST", b"/a", b"1"), (b"GET", b"/b", b"1"), (b"GET", b"/c", b"")]


def test_a_connection_remembers_no_long_head() -> None:
    reader = RequestReader(cast(ClientConnection, NoConnection()), lambda _: None, lambda: None)
    head = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nX: %b\r\n\r\n1"
    for length, remembers in ((9, True), (8000, False), (9, True)):
        assert reader.feed(head % (b"x" * length)) == b""
        held = gc.get_referents(reader)
        assert any(isinstance(one, CIMultiDict) for one in held) is remembers
        assert max(len(one) for one in held if isinstance(one, bytes)) < 100
