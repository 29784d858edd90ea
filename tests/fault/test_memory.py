"""An answer that is too large is refused without being held: the process does not grow by what a backend sends."""

from __future__ import annotations

import pytest

from tests.fault.behaviours import Behaviour, GzipBomb, Honest, Stream
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES
from tests.program import serving

MB = 1024 * 1024
GROWTH = 40 * MB


@pytest.mark.parametrize(
    "behaviour",
    [Stream(50 * MB), Stream(50 * MB, chunked=True), GzipBomb(300 * MB)],
    ids=["50-mb", "50-mb-chunked", "gzip-bomb"],
)
async def test_the_process_does_not_grow_by_what_it_refuses(behaviour: Behaviour) -> None:
    async with ScriptedBackend() as backend, serving(backend.url) as (program, gateway):
        for surface in SURFACES:
            assert (await gateway.call(surface, "add", {"a": 2, "b": 3})).value == {"sum": 5}
        before = program.peak_memory()

        backend.default = behaviour
        for surface in SURFACES:
            called = await gateway.call(surface, "add", {"a": 2, "b": 3})
            assert called.message == "The backend's answer is too large"
        assert program.peak_memory() - before < GROWTH

        backend.default = Honest()
        assert (await gateway.call("rest", "add", {"a": 2, "b": 3})).value == {"sum": 5}


async def test_the_measure_sees_an_answer_that_is_held() -> None:
    """A measurement that never rises would prove nothing."""
    async with (
        ScriptedBackend(default=Stream(60 * MB)) as backend,
        serving(backend.url, "backend.max_response=100MiB") as (program, gateway),
    ):
        before = program.peak_memory()
        await gateway.call("rest", "echo", {"value": 1})
        assert program.peak_memory() - before > GROWTH
