"""What ``make demo-oauth`` types and what it prints is what docs/oauth.md shows."""

from __future__ import annotations

import re
from pathlib import Path

from tests.authorization import demo

PAGE = Path(__file__).parents[2] / "docs" / "oauth.md"


def plain(text: str) -> str:
    """Without what differs from run to run: ports, and the client's secret."""
    return re.sub(r"machine:[\w-]+", "machine:SECRET", re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text))


async def test_the_demo_prints_what_the_page_shows() -> None:
    said: list[str] = []
    outputs = await demo.run(said.append, once=True)
    invited, metadata, _, _, listed, called, refused = outputs
    assert "HTTP/1.1 401 Unauthorized" in invited
    assert '"authorization_servers"' in metadata
    assert '"name":"books.search"' in listed
    assert "orders.create" not in listed
    assert "Twenty Thousand Leagues" in called
    assert "HTTP/1.1 403 Forbidden" in refused
    assert 'scope="books:read orders:write"' in refused
    section = plain(PAGE.read_text())
    for line in plain("\n".join(said)).splitlines():
        assert line in section
