"""Values so large that checking them could hold everybody up: arguments are refused, results are passed on."""

from __future__ import annotations

import pytest

from gateway.schema.validation import TOO_LARGE
from tests.each import each
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Surface, front

pytestmark = pytest.mark.usefixtures("both_servers")

CHOICES = {"type": "array", "items": {"anyOf": [{"const": f"v{n}"} for n in range(100)]}}
MANY = ["v99"] * 30_000
TAKE = Rpc("take", {"values": CHOICES}, {"type": "integer"}, run=len)
GIVE = Rpc("give", {}, CHOICES, run=lambda: MANY)


@each("surface", SURFACES)
async def test_arguments_too_large_for_their_schema_are_refused_before_the_backend_hears_of_them(
    surface: Surface,
) -> None:
    async with ScriptedBackend((TAKE, GIVE)) as backend, front(backend.url) as gateway:
        refused = await gateway.call(surface, "take", {"values": MANY})
        assert TOO_LARGE in refused.message
        assert backend.calls("take") == 0


@each("surface", SURFACES)
async def test_a_result_too_large_to_be_checked_is_passed_on(surface: Surface) -> None:
    async with ScriptedBackend((TAKE, GIVE)) as backend, front(backend.url) as gateway:
        assert (await gateway.call(surface, "give", {})).value == MANY
        assert (await gateway.tools(surface))["give"]["outputSchema"]
