"""Five thousand nearly sound requests, read by us and by h11. ``python -m tests.fuzz`` has more."""

from __future__ import annotations

from tests.fuzz.http import differences, h11s, ours


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
