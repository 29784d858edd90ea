"""What a caller costs while it is known: equal tools of many callers are the same objects. Bytes are a row of
``make bench``."""

from __future__ import annotations

from gateway.catalog.build import Builder
from gateway.discovery.discovery import Discovery
from gateway.model import Caller, Listing, Method, View
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params


async def test_callers_whose_listings_are_equal_share_every_tool() -> None:
    asked: list[str] = []

    async def list_all(caller: Caller) -> Listing:
        """Each caller's listing is made anew, as it comes off the wire."""
        asked.append(caller.view.subject)
        return Listing("static", tuple(Method(name) for name in ("add", "echo")))

    knobs = CatalogSettings(ttl=3600)
    discovery = Discovery(list_all, Builder(Params(), ValidatorCache()), knobs, uses_callers_token=True)
    catalogs = [
        await discovery.catalog(Caller(view=View("https://login.example.com", f"user-{number}", frozenset({"read"}))))
        for number in range(100)
    ]
    assert asked == [f"user-{number}" for number in range(100)]
    assert {len(catalog.tools) for catalog in catalogs} == {2}
    assert len({id(tool) for catalog in catalogs for tool in catalog.tools}) == 2
