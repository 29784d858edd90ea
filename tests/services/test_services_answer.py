"""Each service starts, and its listing has the shape that the gateway's dialects are written for."""

import base64
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.services import launch
from tests.services.launch import ARIA2_SECRET, Drupal
from tests.services.process import Service, ServiceFailed, ServiceMissing

Site = Callable[..., Drupal]


def fetch(url: str, body: object = None, **headers: str) -> tuple[int, str]:
    """Status and text, whatever the status; POST when there is a body."""
    data = None if body is None else json.dumps(body).encode()
    named = {
        "Content-Type": "application/json",
        **{key.replace("_", "-"): text for key, text in headers.items()},
    }
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, named), timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def call(service: Service, method: str, params: object = None, **headers: str) -> dict[str, Any]:
    request: dict[str, Any] = {"jsonrpc": "2.0", "id": "1", "method": method}
    if params is not None:
        request["params"] = params
    answer: dict[str, Any] = json.loads(fetch(service.url, request, **headers)[1])
    return answer


def ids(service: Drupal, **headers: str) -> list[str]:
    status, text = fetch(f"{service.base}/jsonrpc/methods", **headers)
    assert status == 200
    return [method["id"] for method in json.loads(text)["data"]]


def basic(name: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{name}".encode()).decode()}


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer tok-{name}"}


def test_openrpc_app_lists_recursive_schemas_and_echoes_integers_beyond_64_bits(openrpc_app: Service) -> None:
    document = call(openrpc_app, "rpc.discover")["result"]

    names = [method["name"] for method in document["methods"]]
    assert names[:5] == ["add", "cross", "walk", "ping", "untyped"]
    assert document["components"]["schemas"]["Node"]["properties"]["children"]["items"] == {
        "$ref": "#/components/schemas/Node"
    }
    assert call(openrpc_app, "add", [1])["result"] == 3
    assert call(openrpc_app, "echo", {"value": 2**70})["result"] == 2**70
    assert call(openrpc_app, "withdraw", {"amount": 200})["error"]["code"] == 1001


def test_fastapi_app_lists_by_get_only_and_takes_no_positions(fastapi_app: Service) -> None:
    document = json.loads(fetch(f"{fastapi_app.base}/openrpc.json")[1])

    assert document["openrpc"] == "1.2.6"
    assert {method["servers"][0]["url"] for method in document["methods"]} == {"/api/v1/jsonrpc"}
    assert call(fastapi_app, "rpc.discover")["error"]["code"] == -32601
    assert call(fastapi_app, "move", {"p": {"x": 1}})["result"] == {"x": 2, "y": 2}
    assert call(fastapi_app, "echo", ["x"])["error"]["code"] == -32600
    assert call(fastapi_app, "echo", {"data": "error"})["error"]["data"] == {"details": "error"}


def test_flask_app_describes_itself_and_hides_a_side_effect_behind_invalid_params(flask_app: Service) -> None:
    methods = call(flask_app, "rpc.describe")["result"]["methods"]
    before = call(flask_app, "App.spent")["result"]

    assert methods["App.add"]["params"] == [{"name": "a", "type": "Number"}, {"name": "b", "type": "Number"}]
    assert call(flask_app, "system.describe")["error"]["code"] == -32601
    assert call(flask_app, "App.spend", {"amount": 5})["error"]["code"] == -32602
    assert call(flask_app, "App.spent")["result"] == before + 5


def test_openrpc_server_answers_nothing_for_undefined_and_dies_without_params(
    openrpc_server: Service,
) -> None:
    document = call(openrpc_server, "rpc.discover")["result"]

    structures = {method["name"]: method["paramStructure"] for method in document["methods"]}
    assert structures["list_pets"] == "by-name"
    assert structures["get_pet"] == "by-position"
    assert call(openrpc_server, "get_pet", [1])["result"]["name"] == "rex"
    assert call(openrpc_server, "forget_pet", {"petId": 2}) == {"id": "1", "jsonrpc": "2.0"}
    with pytest.raises(OSError, match=r"closed connection|reset"):
        call(openrpc_server, "list_pets")

    openrpc_server.restart()
    assert len(call(openrpc_server, "list_pets", {})["result"]) == 2


def test_aria2_lists_its_methods_to_anybody_and_runs_them_for_its_secret(aria2: Service) -> None:
    assert "aria2.getVersion" in call(aria2, "system.listMethods")["result"]
    assert "version" in call(aria2, "aria2.getVersion", [f"token:{ARIA2_SECRET}"])["result"]
    assert call(aria2, "aria2.getVersion", {})["error"]["code"] == -32602


def test_drupal_lists_to_each_user_what_that_user_may_call(drupal: Site) -> None:
    site = drupal()

    assert len(ids(site, **basic("admin"))) == 9
    assert ids(site, **bearer("editor")) == ["examples.articles.list", "examples.contentTypes.list"]
    assert ids(site, **basic("api")) == []
    assert fetch(f"{site.base}/jsonrpc/methods")[0] == 401
    assert fetch(f"{site.base}/jsonrpc/methods", Authorization="Bearer junk")[0] == 401
    wrong = base64.b64encode(b"admin:wrong").decode()
    assert fetch(f"{site.base}/jsonrpc/methods", Authorization=f"Basic {wrong}")[0] == 403


def test_drupal_writes_json_as_php_does_and_translates_usages(drupal: Site) -> None:
    site = drupal()
    address = f"{site.base}/jsonrpc/methods"

    english = fetch(address, **basic("admin"))[1]
    assert r"Rebuilds the application\u0027s router." in english
    assert r"\/jsonrpc\/methods\/cache.rebuild" in english
    german = fetch(address, Accept_Language="de-DE,de;q=0.9", **basic("admin"))[1]
    assert "Baut den Systemcache neu auf." in german
    assert r"Listet alle verf\u00fcgbaren Inhaltstypen auf" in german


def test_drupal_loses_ids_and_denies_with_status_200(drupal: Site) -> None:
    site = drupal()
    request = {"jsonrpc": "2.0", "id": 0, "method": "plugins.list", "params": {}}

    status, text = fetch(site.url, request, **basic("admin"))
    assert (status, json.loads(text)["id"]) == (400, None)
    status, text = fetch(site.url, {**request, "id": 1, "method": "cache.rebuild"}, **basic("api"))
    assert status == 200
    assert json.loads(text)["id"] is None
    assert json.loads(text)["error"]["code"] == -32600
    assert "Access Denied: The" in json.loads(text)["error"]["data"]


def test_drupal_versions_differ_in_their_shapes(drupal: Site) -> None:
    listings = {}
    for version in (1, 2, 3):
        text = fetch(f"{drupal(version=version).base}/jsonrpc/methods", **basic("admin"))[1]
        listings[version] = {method["id"]: method for method in json.loads(text)["data"]}

    assert listings[1]["route_builder.rebuild"]["attributes"] == []
    assert "params" not in listings[1]["plugins.list"]["attributes"]
    assert "params" in listings[2]["plugins.list"]["attributes"]
    assert {method["type"] for method in listings[3].values()} == {"JsonRpcMethodDefinition"}
    assert call(drupal(version=2), "cache.rebuild", {}, **basic("admin"))["result"] is True
    assert call(drupal(version=3), "cache.rebuild", {}, **basic("admin"))["error"]["code"] == -32602


def test_jsonrpc_mcp_pages_its_tools_for_bearers_only(drupal: Site) -> None:
    site = drupal(mcp=True, page_size=2)
    address = f"{site.base}/mcp/tools/list"

    first = json.loads(fetch(address, **bearer("admin"))[1])
    query = urllib.parse.urlencode({"cursor": first["nextCursor"]})
    second = json.loads(fetch(f"{address}?{query}", **bearer("admin"))[1])
    assert [len(first["tools"]), len(second["tools"]), second["nextCursor"]] == [2, 1, None]
    assert first["tools"][1]["inputSchema"] == {"type": "object", "properties": []}
    assert fetch(address, **basic("admin"))[0] == 403
    assert fetch(address)[0] == 403


def test_jsonrpc_mcp_describe_is_poisoned_by_a_wrong_name_until_a_cache_rebuild(drupal: Site) -> None:
    site = drupal(mcp=True)
    right, wrong = (f"{site.base}/mcp/tools/describe?name={name}" for name in ("examples.articles.list", "nope"))

    assert [fetch(url, **bearer("admin"))[0] for url in (right, wrong, right)] == [200, 404, 404]
    assert call(site, "cache.rebuild", **basic("admin"))["result"] is True
    assert fetch(right, **bearer("admin"))[0] == 200


def test_drupal_tells_what_it_was_asked_and_lets_anybody_in_when_told_to(drupal: Site) -> None:
    site = drupal(anonymous=True)
    site.forget_requests()

    assert call(site, "maintenance_mode.isEnabled", {"enabled": True}, X_Trace="7")["result"] == "enabled"
    (seen,) = site.requests()
    assert (seen["method"], seen["path"], seen["headers"]["x-trace"]) == ("POST", "/jsonrpc", "7")
    assert json.loads(seen["body"])["params"] == {"enabled": True}


def test_a_service_that_does_not_start_shows_its_output_and_a_missing_one_its_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    service = Service("broken", lambda port: ["/bin/sh", "-c", "echo nothing to serve; exit 3"])
    with pytest.raises(ServiceFailed, match=r"exit code 3(?s:.*)nothing to serve"):
        service.start()

    monkeypatch.setitem(os.environ, "PATH", str(tmp_path))
    with pytest.raises(ServiceMissing, match="apt-get install aria2"):
        launch.aria2()
