"""Requests that two readers may see end at different places (security.md H01 to H04): refused with what follows."""

from __future__ import annotations

import asyncio

from gateway.process.server import Server
from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.protocol import smuggled
from tests.protocol.talk import all_said
from tests.protocol.test_malformed_http import refused
from tests.waiting import PATIENCE


@each("port", ["port", "admin_port"])
@each("sent", smuggled.EVERY)
async def test_what_may_end_at_two_places_is_400_once_and_the_service_is_asked_nothing(
    gateway: Server, backend: ScriptedBackend, sent: bytes, port: str
) -> None:
    """RFC 9112 §6.3, §2.2 and §5.1: one 400, the end of the connection, and nothing of what stands behind it."""
    raw = await all_said(getattr(gateway, port), sent)
    refused(raw)
    assert raw.count(b"\r\n\r\n") == 1
    assert backend.requests == []


async def test_an_upgrade_to_http_2_is_not_taken_up_and_the_connection_goes_on(
    gateway: Server, backend: ScriptedBackend
) -> None:
    """H03, RFC 9110 §7.8: a server may ignore Upgrade. What a client of h2c sends next is no tunnel here."""
    head = b"GET /mcp/tools/list HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    async with asyncio.timeout(PATIENCE):
        writer.write(head + upgrade)
        top = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert top.startswith(b"http/1.1 200 ")
        assert b"upgrade" not in top
        fields = dict(line.split(b": ", 1) for line in top.splitlines()[1:] if line)
        await reader.readexactly(int(fields[b"content-length"]))
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + smuggled.NEXT)
        refused(await reader.read())
    writer.close()
    assert backend.requests == []
