"""What tests of several folders stand before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from tests.fault.methods import METHODS, Rpc
from tests.fault.scripted import ScriptedBackend


@pytest.fixture
def methods() -> Sequence[Rpc]:
    """What the backend lists; who needs others overrides this."""
    return METHODS


@pytest.fixture
async def backend(methods: Sequence[Rpc]) -> AsyncIterator[ScriptedBackend]:
    async with ScriptedBackend(methods) as scripted:
        yield scripted
