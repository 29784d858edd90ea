"""A head of HTTP/1.0 may have no header at all, not even Host."""

from __future__ import annotations

from typing import cast

from gateway.http_server.request import ClientConnection, HttpRequest
from gateway.http_server.request_reader import RequestReader


def test_a_head_without_headers_has_none() -> None:
    begun: list[HttpRequest] = []
    reader = RequestReader(cast(ClientConnection, None), begun.append, lambda: None)
    assert reader.feed(b"GET /a HTTP/1.0\r\n\r\n") == b""
    assert [(request.target, [*request.headers.items()]) for request in begun] == [("/a", [])]
