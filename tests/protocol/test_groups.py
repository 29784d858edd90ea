"""A group: several services at one address."""

from __future__ import annotations

import pytest

from tests.authorization.stand import CALLS, LISTS, REST
from tests.each import each
from tests.protocol.grouped import grouped
from tests.protocol.official import MODERN

pytestmark = pytest.mark.usefixtures("both_servers")

TWO_AND_THREE = {"a": 2, "b": 3}


@each("surface", LISTS)
async def test_a_group_lists_the_tools_of_its_services_under_their_names(surface: str) -> None:
    async with grouped() as it:
        shown = ["crm.add", "shop.echo"] if surface == REST else ["crm_add", "shop_echo"]
        assert await it.names(surface) == shown


@each("surface", CALLS)
async def test_a_call_at_the_group_reaches_the_service(surface: str) -> None:
    async with grouped() as it:
        answer = await it.client().call(surface, "crm.add", TWO_AND_THREE)
        assert answer.status == 200
        assert '{"sum":5}' in answer.body.decode().replace(" ", "")
        assert it.backends["crm"].calls("add") == 1
        assert it.backends["shop"].calls("add") == 0
