"""config/examples/custom.yaml in front of a service that lists its methods in a form of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web
from pytest_aiohttp.plugin import AiohttpServer

from tests.front import SURFACES, Surface, front, shown
from tests.program import run, settings

EXAMPLE: Final = Path(__file__).parents[2] / "config" / "examples" / "custom.yaml"
STOCK: Final = {"A-1": {1: 7, 2: 5}, "B-2": {1: 1}}
FUNCTIONS: Final = {
    "stock.count": {
        "about": "How many there are.",
        "args": [
            {"key": "sku", "kind": "string", "mandatory": True, "about": "Article number."},
            {"key": "site", "kind": "int"},
        ],
        "gives": "int",
    },
    "stock.articles": {"about": "All article numbers.", "args": [], "gives": "list"},
}


def count(sku: str, site: int | None = None) -> int:
    return sum(number for place, number in STOCK[sku].items() if site in (None, place))


def answer(method: str, params: dict[str, Any]) -> Any:
    if method == "api.functions":
        return {"functions": FUNCTIONS} if params == {"detail": "full"} else {"functions": list(FUNCTIONS)}
    return count(**params) if method == "stock.count" else sorted(STOCK)


async def listing(_: web.Request) -> web.Response:
    return web.json_response({"functions": FUNCTIONS})


async def rpc(request: web.Request) -> web.Response:
    asked = await request.json()
    if asked["method"] not in ("api.functions", *FUNCTIONS):
        failed = {"code": -32601, "message": f"No {asked['method']} for {asked.get('params')}"}
        return web.json_response({"jsonrpc": "2.0", "id": asked["id"], "error": failed})
    result = answer(asked["method"], asked.get("params", {}))
    return web.json_response({"jsonrpc": "2.0", "id": asked["id"], "result": result})


@pytest.fixture
async def warehouse(aiohttp_server: AiohttpServer) -> str:
    """The origin of a running service."""
    application = web.Application()
    application.add_routes([web.get("/api/functions", listing), web.post("/jsonrpc", rpc)])
    return str((await aiohttp_server(application)).make_url("")).rstrip("/")


@pytest.mark.parametrize("surface", SURFACES)
async def test_the_methods_of_a_form_of_its_own_are_listed_and_called(warehouse: str, surface: Surface) -> None:
    there = f"backend.listing.url={warehouse}/api/functions"
    async with front(f"{warehouse}/jsonrpc", there, file=EXAMPLE) as gateway:
        tools = await gateway.tools(surface)
        articles, count = shown(surface, "stock.articles", "stock.count")
        assert list(tools) == [articles, count]
        assert tools[count]["description"] == "How many there are."
        assert tools[count]["inputSchema"] == {
            "type": "object",
            "properties": {"sku": {"type": "string", "description": "Article number."}, "site": {"type": "integer"}},
            "required": ["sku"],
        }
        assert (await gateway.call(surface, "stock.count", {"sku": "A-1"})).value == 12
        assert (await gateway.call(surface, "stock.count", {"sku": "A-1", "site": 2})).value == 5
        assert (await gateway.call(surface, "stock.articles", {})).value == ["A-1", "B-2"]
        assert (await gateway.call(surface, "stock.count", {"site": 2})).failed


async def test_the_listing_may_be_the_answer_to_a_call_with_params(warehouse: str) -> None:
    asked = (
        "backend.listing.url=",
        "backend.listing.custom.method=api.functions",
        "backend.listing.custom.params={detail: full}",
    )
    async with front(f"{warehouse}/jsonrpc", *asked, file=EXAMPLE) as gateway:
        assert list(await gateway.tools()) == ["stock_articles", "stock_count"]
        assert (await gateway.call("modern", "stock.count", {"sku": "B-2"})).value == 1


async def test_check_names_the_path_that_finds_nothing(warehouse: str) -> None:
    knobs = (f"backend.listing.url={warehouse}/api/functions", "backend.listing.custom.methods=$.methods[*]")
    ran = await run("check", "--config", str(EXAMPLE), *settings(f"{warehouse}/jsonrpc", *knobs))
    assert ran.code == 3
    found = "GET /api/functions: JSON, but backend.listing.custom.methods, $.methods[*], finds nothing"
    assert found in ran.err


async def test_a_token_in_the_params_is_told_to_nobody(warehouse: str) -> None:
    knobs = (
        "backend.listing.url=",
        "backend.listing.custom.method=api.secret",
        "backend.listing.custom.params={auth: [s3cret-token]}",
    )
    ran = await run("check", "--config", str(EXAMPLE), *settings(f"{warehouse}/jsonrpc", *knobs))
    assert ran.code == 3
    assert "api.secret: error -32601: No api.secret for {'auth': ['[redacted]']}" in ran.err
    assert "s3cret" not in ran.said


async def test_check_names_the_knob_that_is_no_path(warehouse: str) -> None:
    ran = await run("check", "--config", str(EXAMPLE), "--set", "backend.listing.custom.parameter.type=kind")
    assert ran.code == 2
    assert "backend.listing.custom.parameter.type: is not a JSONPath" in ran.err


async def test_where_no_dialect_fits_the_operator_learns_of_this_one(warehouse: str) -> None:
    ran = await run("check", *settings(f"{warehouse}/jsonrpc"))
    assert ran.code == 3
    assert "backend.listing.dialect: custom" in ran.err
