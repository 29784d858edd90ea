"""The command line knows groups: check, tools, call, connect, stdio and status."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.stdio_client import META, started
from tests.e2e.test_service_option import GREET, ORDER, Two
from tests.fault.behaviours import Body
from tests.fault.scripted import ScriptedBackend

GROUP = {"all": {"services": "*"}}


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Two]:
    async with ScriptedBackend((GREET,)) as crm, ScriptedBackend((ORDER,)) as shop:
        services = Two(crm, shop, tmp_path / "gateway.yaml")
        services.written(groups=GROUP)
        yield services


async def test_check_reports_on_the_group_after_its_services(two: Two) -> None:
    ran = await two.run("check")
    assert (ran.code, ran.err) == (0, "")
    _, group = ran.out.split("\ngroup        ")
    assert group.startswith("all, at /all/mcp; its knobs are under groups.all\n")
    assert f"backend      {two.crm.url}\nbackend      {two.shop.url}\n" in group
    assert "tools        2\n" in group
    assert "  crm_greet(name)     Say hello\n  shop_order(copies)  Order copies\n" in group
    document = json.loads((await two.run("check", "--service", "all", "--json")).out)
    (found,) = document["services"]
    assert (found["name"], found["path"], found["backend"]) == ("all", "/all/mcp", None)
    assert [tool["name"] for tool in found["tools"]] == ["crm_greet", "shop_order"]


async def test_check_names_what_the_group_lacks(two: Two) -> None:
    two.shop.on("rpc.discover", Body(status=500, content_type=None))
    ran = await two.run("check", "--service", "all")
    assert ran.code == 0
    assert "the tools of shop are missing" in ran.out


async def test_check_says_why_each_service_lacks_its_tools_where_all_do(two: Two) -> None:
    for service in (two.crm, two.shop):
        service.on("rpc.discover", Body(status=500, content_type=None))
    ran = await two.run("check", "--service", "all")
    assert ran.code == 3
    assert "crm: " in ran.err
    assert "shop: " in ran.err
    assert ran.err.count("500") >= 2


async def test_tools_and_call_take_the_name_of_a_group(two: Two) -> None:
    listed = await two.run("tools", "--service", "all", "--json")
    assert [tool["name"] for tool in json.loads(listed.out)["tools"]] == ["crm_greet", "shop_order"]
    called = await two.run("call", "--service", "all", "shop.order", "--arg", "copies=3")
    assert (called.code, called.out) == (0, "3\n")
    unknown = await two.run("call", "--service", "all", "order", "--arg", "copies=3")
    assert (unknown.code, "Unknown tool: order" in unknown.err) == (1, True)
    chosen = await two.run("tools")
    assert "Choose a service with --service: crm, shop, all." in chosen.err


@pytest.mark.parametrize("arguments", [("tools", "--pin"), ("tools", "--try", "crm.greet"), ("methods",)])
async def test_what_is_for_one_service_says_so(two: Two, arguments: tuple[str, ...]) -> None:
    ran = await two.run(*arguments, "--service", "all")
    assert ran.code == 2
    assert "group" in ran.err


async def test_connect_makes_an_entry_for_the_group(two: Two) -> None:
    ran = await two.run("connect", "--http", "--service", "all")
    assert json.loads(ran.out)["mcpServers"] == {"all": {"type": "http", "url": "http://127.0.0.1:8080/all/mcp"}}
    starts = json.loads((await two.run("connect", "--service", "all")).out)["mcpServers"]["all"]
    assert starts["args"][-2:] == ["--service", "all"]
    every = json.loads((await two.run("connect", "--http")).out)["mcpServers"]
    assert [*every] == ["crm", "shop", "all"]


async def test_stdio_serves_a_group(two: Two) -> None:
    async with started("--config", str(two.file), "--service", "all") as (client, _):
        await client.initialize()
        for meta in ({}, {"_meta": META}):
            listed = (await client.ask("tools/list", meta))["result"]["tools"]
            assert [tool["name"] for tool in listed] == ["crm_greet", "shop_order"]
        assert (await client.call("crm_greet", name="Ann"))["structuredContent"] == {"result": "Hello Ann"}
        await client.close()
