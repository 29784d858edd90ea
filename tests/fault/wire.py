"""HTTP/1.1 as the scripted backend reads and writes it.

Reading is plain: whatever the client under test sends must be well formed, so a fault here is the client's
and raises :class:`BadRequest`. Writing is as free as the behaviours need: nothing stops a caller from a
status of 99, 300 headers or a ``Content-Length`` that lies.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeAlias

from multidict import CIMultiDict

if TYPE_CHECKING:
    import asyncio

Headers: TypeAlias = tuple[tuple[str, str], ...]

MAX_HEAD = 256 * 1024


class BadRequest(Exception):
    """The client under test sent something that is no HTTP/1.1 request."""


@dataclass(frozen=True)
class Request:
    """One request as it arrived. ``json`` is None where the body is no JSON; ``connection`` counts from 1."""

    verb: str
    path: str
    headers: CIMultiDict[str]
    body: bytes
    json: Any
    connection: int

    @property
    def method(self) -> str | None:
        """The JSON-RPC method, or None where the body is not a JSON-RPC request."""
        name = self.json.get("method") if isinstance(self.json, dict) else None
        return name if isinstance(name, str) else None

    @property
    def params(self) -> Any:
        return self.json.get("params") if isinstance(self.json, dict) else None

    @property
    def is_notification(self) -> bool:
        return isinstance(self.json, dict) and "id" not in self.json

    def fill(self, template: bytes) -> bytes:
        """Put the request's own id where the template says ``@ID@``, and its other spelling for
        ``@SWAPPED-ID@``.

        The other spelling of ``7`` is ``"7"`` and the reverse; a string that is no number becomes ``1``.
        """
        own = self.json.get("id") if isinstance(self.json, dict) else None
        swapped: object = str(own)
        if isinstance(own, str):
            swapped = int(own) if own.isdecimal() else 1
        return template.replace(b"@ID@", json.dumps(own).encode()).replace(
            b"@SWAPPED-ID@", json.dumps(swapped).encode()
        )


async def read_request(reader: asyncio.StreamReader, connection: int) -> Request | None:
    """The next request of a connection, or None where the client has closed it between two requests."""
    first = await reader.readline()
    if not first:
        return None
    parts = first.decode("latin-1").split()
    if len(parts) != 3:
        raise BadRequest(f"request line {first!r}")
    headers = await _read_headers(reader)
    if headers.get("Transfer-Encoding", "").lower() == "chunked":
        body = await _read_chunked(reader)
    else:
        body = await reader.readexactly(int(headers.get("Content-Length", "0")))
    return Request(parts[0], parts[1], headers, body, _json(body), connection)


async def _read_headers(reader: asyncio.StreamReader) -> CIMultiDict[str]:
    headers: CIMultiDict[str] = CIMultiDict()
    while line := (await reader.readline()).rstrip(b"\r\n"):
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon:
            raise BadRequest(f"header line {line!r}")
        headers.add(name, value.strip())
    return headers


async def _read_chunked(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await _read_headers(reader)
    return bytes(body)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def head(status: int, headers: Headers) -> bytes:
    """A response head, whatever is in it, with the empty line that ends it."""
    reason = HTTPStatus(status).phrase if status in HTTPStatus.__members__.values() else "Odd"
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
