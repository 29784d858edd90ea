"""Requests whose end, or whose headers, two readers may see differently (security.md H01 to H04), byte by byte.

Each carries, behind the place where one of the readers would see its end, a second request: a call of :data:`HIDDEN`.
Whoever lets that call through was smuggled past (RFC 9112 §11.2).
"""

from __future__ import annotations

import json
from typing import Final

HIDDEN: Final = "echo"
"""The method that no service may be asked for."""
_CALL: Final = json.dumps({"name": "add", "arguments": {"a": 2, "b": 3}}).encode()
_HIDDEN_CALL: Final = json.dumps({"name": HIDDEN, "arguments": {"value": "smuggled"}}).encode()
_HOST: Final = b"Host: 127.0.0.1\r\nContent-Type: application/json\r\n"
_LENGTH: Final = b"Content-Length: %d" % len(_CALL)
_CHUNKED: Final = b"Transfer-Encoding: chunked"


def _post(*lines: bytes, body: bytes = _CALL, version: bytes = b"1.1") -> bytes:
    fields = b"".join(line + b"\r\n" for line in lines)
    return b"POST /mcp/tools/invoke HTTP/" + version + b"\r\n" + _HOST + fields + b"\r\n" + body


def _chunks(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


NEXT: Final = _post(b"Content-Length: %d" % len(_HIDDEN_CALL), body=_HIDDEN_CALL)
"""The second request."""
_WHOLE: Final = b"Content-Length: %d" % len(_chunks(_CALL) + NEXT)
_EMPTY_CHUNKS: Final = b"0\r\n\r\n" + NEXT
_HUGE: Final = 2**64 + len(_CALL)


def _two_ends(*lines: bytes) -> bytes:
    """A body that ends before the second request for who reads chunks, and behind it for who reads the length."""
    return _post(*lines, body=_chunks(_CALL) + NEXT)


H01: Final = {
    "length and chunked": _two_ends(_WHOLE, _CHUNKED),
    "chunked and length": _two_ends(_CHUNKED, _WHOLE),
    "chunked twice": _two_ends(_CHUNKED, _CHUNKED),
    "chunked and another": _two_ends(_CHUNKED, b"Transfer-Encoding: x", _WHOLE),
    "xchunked": _two_ends(b"Transfer-Encoding: xchunked", _WHOLE),
    "chunked, chunked": _two_ends(b"Transfer-Encoding: chunked, chunked", _WHOLE),
    "chunked, identity": _two_ends(b"Transfer-Encoding: chunked, identity", _WHOLE),
    "gzip, chunked": _two_ends(b"Transfer-Encoding: gzip, chunked"),
    "identity": _two_ends(b"Transfer-Encoding: identity", _WHOLE),
    "blank before the colon": _two_ends(b"Transfer-Encoding : chunked", _WHOLE),
    "vertical tab": _two_ends(b"Transfer-Encoding: \x0bchunked", _WHOLE),
    "folded": _two_ends(b"Transfer-Encoding:\r\n chunked", _WHOLE),
    "NUL in the name": _two_ends(_WHOLE, b"Transfer-Encoding\x00: chunked"),
}
H02: Final = {
    "length twice": _post(_LENGTH, _LENGTH) + NEXT,
    "two lengths": _post(_LENGTH, b"Content-Length: %d" % len(_CALL + NEXT)) + NEXT,
    "list": _post(b"Content-Length: %d, %d" % (len(_CALL), len(_CALL))) + NEXT,
    "plus": _post(b"Content-Length: +%d" % len(_CALL)) + NEXT,
    "minus": _post(b"Content-Length: -1") + NEXT,
    "10^20": _post(b"Content-Length: 100000000000000000000") + NEXT,
    "beyond 64 bits": _post(b"Content-Length: %d" % _HUGE) + NEXT,
    "hexadecimal": _post(b"Content-Length: 0x%x" % len(_CALL)) + NEXT,
    "blank within": _post(b"Content-Length: 4 2") + NEXT,
    "underscore": _post(b"Content-Length: 4_2") + NEXT,
    "empty": _post(b"Content-Length:") + NEXT,
    "other digits": _post("Content-Length: \u0664\u0662".encode()) + NEXT,
}
H03: Final = {
    "chunked in 1.0": _post(_CHUNKED, body=_chunks(_CALL), version=b"1.0") + NEXT,
    "chunked and kept alive in 1.0": _post(_CHUNKED, b"Connection: keep-alive", body=_EMPTY_CHUNKS, version=b"1.0"),
    "0.9 without a version": b"GET /mcp/tools/list\r\n\r\n" + NEXT,
    "0.9": _post(_LENGTH, version=b"0.9") + NEXT,
    "1.2": _post(_LENGTH, version=b"1.2") + NEXT,
    "2.0": _post(_LENGTH, version=b"2.0") + NEXT,
    "preface of 2.0": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + NEXT,
}
H04: Final = {
    "line feeds alone": _post(_LENGTH).replace(b"\r\n", b"\n") + NEXT,
    "a line feed alone": _post(_LENGTH, b"X: a\nY: b") + NEXT,
    "a carriage return alone": _post(_LENGTH, b"X: a\rY: b") + NEXT,
    "folded": _post(_LENGTH, b"X: a\r\n b") + NEXT,
    "NUL": _post(_LENGTH, b"X: a\x00b") + NEXT,
    "blank in the name": _post(_LENGTH, b"X Y: a") + NEXT,
    "blank before the colon": _post(_LENGTH, b"X : a") + NEXT,
    "blank before the name": _post(b" " + _LENGTH) + NEXT,
    "no name": _post(_LENGTH, b": a") + NEXT,
    "line feeds between chunks": _post(_CHUNKED, body=_chunks(_CALL).replace(b"\r\n", b"\n")) + NEXT,
    "a chunk's size with a sign": _post(_CHUNKED, body=b"+" + _chunks(_CALL)) + NEXT,
    "a chunk's size with a prefix": _post(_CHUNKED, body=b"0x" + _chunks(_CALL)) + NEXT,
    "a chunk's size beyond 64 bits": _post(_CHUNKED, body=b"f" * 18 + b"\r\n") + NEXT,
    "a chunk longer than its size": _post(_CHUNKED, body=b"2\r\n" + _CALL + b"\r\n0\r\n\r\n") + NEXT,
    "a line feed in a chunk's extension": _post(_CHUNKED, body=b"2;\na\r\n{}\r\n0\r\n\r\n") + NEXT,
    "a length in the trailer": _post(_CHUNKED, body=_chunks(_CALL)[:-2] + b"Content-Length: 5\r\n\r\n") + NEXT,
}
EVERY: Final = {
    f"{id} {name}": sent
    for id, table in {"H01": H01, "H02": H02, "H03": H03, "H04": H04}.items()
    for name, sent in table.items()
}
