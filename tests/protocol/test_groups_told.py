"""What is told of a group: on the pages, in /status and the metrics, in the log and the audit."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
from structlog.testing import capture_logs

from tests.authorization.stand import REST, Bearer
from tests.fault.methods import ADD, ECHO, Rpc
from tests.protocol.grouped import Grouped, grouped
from tests.protocol.test_audit import calls
from tests.protocol.test_pages import plain, tools_on

TWO_AND_THREE = {"a": 2, "b": 3}
STATUS = json.loads((Path(__file__).parents[2] / "config" / "status.schema.json").read_text())


async def admin(it: Grouped, path: str) -> str:
    url = f"http://127.0.0.1:{it.gateway.admin_port}{path}"
    async with it.session.get(url) as response:
        assert response.status == 200
        return await response.text()


async def test_the_pages_show_a_group_as_they_show_a_service() -> None:
    async with grouped("groups.all.catalog.search=true") as it:
        root = Bearer(it.session, it.gateway.port, None)
        assert "The tools of crm, shop." in plain(await root.get("/"))
        group = it.client()
        assert tools_on(await group.get("/")) == ["crm.add", "shop.echo"]
        assert tools_on(await group.get("/?q=numbers")) == ["crm.add"]
        assert "crm.add" in plain(await group.get("/page/crm.add"))
        assert (await group.get("/page/none")).status == 404
        tried = (await group.post("/page/crm.add", {"arguments": TWO_AND_THREE})).json
        assert (tried["method"], tried["params"], tried["request"]["url"]) == ("add", TWO_AND_THREE, "/all/mcp")
        assert json.loads(tried["request"]["body"])["params"]["name"] == "crm_add"
        named = {"name": "crm.add", "arguments": TWO_AND_THREE}
        through = (await group.post("/page/call_tool", {"arguments": named})).json
        assert (through["method"], through["params"]) == ("add", TWO_AND_THREE)
        assert (await group.post("/page/crm.add", {"arguments": {}})).json["faults"]
        assert (await group.post("/page/crm.none", {"arguments": {}})).status == 404
        assert it.backends["crm"].calls("add") == 0


async def test_a_preview_is_logged_under_the_groups_name_of_the_tool() -> None:
    async with grouped() as it:
        await it.names()
        with capture_logs() as logged:
            assert (await it.client().post("/page/crm.add", {"arguments": TWO_AND_THREE})).status == 200
    assert [line["tool"] for line in logged if line["event"] == "request"] == ["crm.add"]


async def test_search_on_the_page_of_a_large_group_is_told() -> None:
    async with grouped(
        "groups.all.catalog.search={above: 1000}", services={"crm": [Rpc(f"m{number}") for number in range(201)]}
    ) as it:
        assert "Clients list two tools" in plain(await it.client().get("/"))


async def test_the_admin_port_knows_a_group() -> None:
    async with grouped() as it:
        await it.names()
        await it.client().call(REST, "crm.add", TWO_AND_THREE)
        status = json.loads(await admin(it, "/status"))
        jsonschema.validate(status, STATUS)
        (process,) = status["processes"]
        group = process["services"][-1]
        assert (group["name"], group["path"], group["tools"]) == ("all", "/all/mcp", 2)
        assert (group["quarantined"], group["listing_age"], group["problems"]) == (None, None, [])
        metrics = await admin(it, "/metrics")
        assert 'mcp_gateway_catalog_tools{service="all"} 2' in metrics
        assert 'mcp_gateway_tool_calls_total{gen_ai_tool_name="crm.add",outcome="ok",service="all"}' in metrics
        assert 'mcp_gateway_slots{service="all"}' not in metrics
        assert "all" in await admin(it, "/")
        assert (await admin(it, "/readyz")).startswith("ok\n")
        assert "all: 2 tools\n" in await admin(it, "/readyz?verbose")


async def test_the_log_and_the_audit_say_by_which_address_a_call_came_and_whose_tool_it_is(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    async with grouped(f"telemetry.audit.to={file}", services={"crm": [ADD], "shop": [ECHO]}) as it:
        with capture_logs() as logged:
            assert (await it.client().call(REST, "crm.add", TWO_AND_THREE)).status == 200
            assert (await it.client().call(REST, "crm.none", {})).status == 404
            assert (await it.client().call(REST, "crm.add", {})).status == 400
        found = [(line["service"], line["tool"]) for line in logged if line["event"] == "request"]
        assert found == [("all", "crm.add"), ("all", "crm.none"), ("all", "crm.add")]
        first, *_ = await calls(file, 1)
        assert (first["service"], first["tool"], first["method"]) == ("all", "crm.add", "add")
