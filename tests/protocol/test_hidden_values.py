"""Values that hide something are in no listing, and callers who know them may send them (security S13)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.each import each
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.protocol.talk import LEGACY, MODERN, Client

pytestmark = pytest.mark.usefixtures("both_servers")

TAGGED = "b\u200b\U000e0049"


@pytest.fixture
def methods() -> Sequence[Rpc]:
    return [Rpc("pick", {"value": {"enum": ["a", TAGGED]}}, {"const": TAGGED}, run=lambda value: TAGGED)]


@each("era", [MODERN, *LEGACY])
async def test_a_value_that_hides_something_is_not_listed_and_is_taken(
    client: Client, backend: ScriptedBackend, era: str
) -> None:
    (tool,) = (await client.speak(era, "tools/list")).result["tools"]
    assert tool["inputSchema"]["properties"]["value"] == {"enum": ["a"]}
    assert "const" not in str(tool.get("outputSchema"))

    async def call(value: str) -> Any:
        return (await client.speak(era, "tools/call", {"name": "pick", "arguments": {"value": value}})).result

    assert (await call(TAGGED))["isError"] is False
    assert (await call("b"))["isError"] is True
    assert [sent.params for sent in backend.requests] == [{"value": TAGGED}]
