"""What an answer says is read in bounded time, whatever a stranger sends."""

from __future__ import annotations

from typing import Any

from gateway.diagnosis.said import of_page, text_of
from gateway.model import HttpFacts
from tests.each import each
from tests.pace import quickly


@each("part", ["server: cloudflare ", "<script ", "<", '"result": "', '"arguments": {'])
def test_a_page_that_repeats_what_expressions_begin_with_holds_nobody_up(part: str) -> None:
    body = (part * 65_536)[:65_536].encode()
    nobody: Any = None
    for kind in ("text/html", "application/json"):
        page = HttpFacts(403, kind, {}, body)
        with quickly(1.2):
            assert of_page(nobody, page) is None
        assert len(text_of(page)) <= 16 * 1024
