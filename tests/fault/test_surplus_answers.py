"""Answers on a connection between two calls, which nobody asked for: none is ever given to a caller."""

from __future__ import annotations

import pytest

from tests.each import each
from tests.fault.rows import LEAK
from tests.fault.scripted import ScriptedBackend
from tests.fault.unasked import SURPLUS, Lingering
from tests.front import SURFACES, Surface, front


@each("more", SURPLUS.values(), ids=SURPLUS)
@pytest.mark.parametrize("surface", SURFACES)
async def test_what_nobody_asked_for_is_no_answer_to_the_next_call(surface: Surface, more: bytes) -> None:
    """RFC 9112 §9.3: a response on an idle connection belongs to no request. The connection is given up."""
    async with ScriptedBackend() as backend, front(backend.url, "backend.timeout=2s") as gateway:
        lingering = Lingering(more, "keep")
        backend.on("add", lingering)
        assert (await gateway.call(surface, "add", {"a": 2, "b": 3})).value == {"sum": 5}
        await lingering.goes_on()
        called = await gateway.call(surface, "echo", {"value": "mine"})
        assert called.value == "mine"
        assert LEAK not in called.everything
        assert backend.calls("echo") == 1
