"""The command line where there are several services: which one is meant, and what is said of each."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.program import Ran, run, settings

GREET = Rpc("greet", {"name": {"type": "string"}}, {"type": "string"}, "Say hello", lambda name: f"Hello {name}")
ORDER = Rpc("order", {"copies": {"type": "integer"}}, {"type": "integer"}, "Order copies", lambda copies: copies)


class Two(NamedTuple):
    """A gateway's two services, and the file that says so."""

    crm: ScriptedBackend
    shop: ScriptedBackend
    file: Path

    def written(self, **top: Any) -> dict[str, Any]:
        """Write the file, with ``top`` besides; return what is in it."""
        services = {
            name: {"backend": {"url": backend.url, "listing": {"dialect": "openrpc"}}}
            for name, backend in (("crm", self.crm), ("shop", self.shop))
        }
        tree = {"auth": {"mode": "off"}, "services": services, **top}
        self.file.write_text(json.dumps(tree))
        return tree

    async def run(self, *arguments: str) -> Ran:
        return await run(*arguments, "--config", str(self.file))


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Two]:
    async with ScriptedBackend((GREET,)) as crm, ScriptedBackend((ORDER,)) as shop:
        services = Two(crm, shop, tmp_path / "gateway.yaml")
        services.written()
        yield services


async def test_check_goes_through_all_services_each_under_its_name(two: Two) -> None:
    ran = await two.run("check")
    assert (ran.code, ran.err) == (0, "")
    before, crm, shop = ran.out.split("\nservice      ")
    assert before == ""
    assert crm.startswith("crm, at /crm/mcp; its knobs are under services.crm\n")
    assert f"backend      {two.crm.url}\n" in crm
    assert "  greet(name)  Say hello\n" in crm
    assert shop.startswith("shop, at /shop/mcp; ")
    assert "  order(copies)  Order copies\n" in shop
    assert "greet" not in shop


async def test_check_ends_with_the_worst_code_and_still_goes_through_all(two: Two) -> None:
    tree = two.written()
    tree["services"]["crm"]["backend"]["url"] = two.crm.refused_url
    two.written(services=tree["services"])
    ran = await two.run("check")
    assert ran.code == 3
    assert "order(copies)" in ran.out
    assert f"{two.crm.refused_url} gave no listing of its methods." in ran.err
    assert ran.err.endswith("The service with this failure is crm.\n")
    tree["services"]["shop"]["catalog"] = {"include": ["nothing"]}
    two.written(services=tree["services"])
    ran = await two.run("check")
    assert ran.code == 3
    assert ran.err.endswith("There are no tools to offer.\nThe service with this failure is shop.\n")
    assert (await two.run("check", "--service", "shop")).code == 1


async def test_check_of_one_service_says_nothing_of_the_other(two: Two) -> None:
    ran = await two.run("check", "--service", "shop")
    assert (ran.code, ran.err) == (0, "")
    assert "order" in ran.out
    assert "crm" not in ran.out
    assert two.crm.requests == []


async def test_check_names_the_resource_and_the_metadata_of_each(two: Two) -> None:
    backend = {"url": two.crm.url, "credentials": {"mode": "none"}}
    two.written(
        auth={"issuers": [{"issuer": two.crm.refused_url.removesuffix("/jsonrpc")}]},
        services={"crm": {"backend": backend}, "shop": {"backend": backend}},
    )
    ran = await two.run("check")
    assert ran.code == 1
    for name in ("crm", "shop"):
        assert f"resource     http://127.0.0.1:8080/{name}/mcp\n" in ran.out
        assert f"  http://127.0.0.1:8080/.well-known/oauth-protected-resource/{name}/mcp\n" in ran.out


async def test_what_is_remarked_of_the_process_is_said_once(two: Two) -> None:
    secret = two.file.with_name("secret")
    secret.write_text("s" * 64)
    secret.chmod(0o644)
    two.written(server={"secret_file": str(secret)})
    ran = await two.run("check")
    assert ran.out.startswith("remarks\n  server.secret_file: ")
    assert ran.out.count("server.secret_file") == 1


async def test_tools_and_call_are_about_the_service_that_is_named(two: Two) -> None:
    ran = await two.run("tools", "--service", "crm")
    assert (ran.code, ran.err, ran.out.split("(")[0]) == (0, "", "greet")
    ran = await two.run("call", "order", "--arg", "copies=3", "--service", "shop")
    assert (ran.code, ran.out, ran.err) == (0, "3\n", "")
    ran = await two.run("call", "order", "--arg", "copies=3", "--service", "crm")
    assert (ran.code, ran.err) == (1, "Unknown tool: order\n")
    assert two.shop.calls("order") == 1


@pytest.mark.parametrize("command", [("tools",), ("tools", "--json"), ("call", "greet")], ids=" ".join)
async def test_with_several_services_tools_and_call_have_to_be_told_which(two: Two, command: tuple[str, ...]) -> None:
    ran = await two.run(*command)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "Choose a service with --service: crm, shop.\n"
    assert two.crm.requests == two.shop.requests == []


@pytest.mark.parametrize("command", [("check",), ("tools",), ("call", "greet")], ids=" ".join)
async def test_a_service_that_is_not_there_is_told_with_those_that_are(two: Two, command: tuple[str, ...]) -> None:
    ran = await two.run(*command, "--service", "shpo")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "--service shpo: is not a service; there are crm, shop; did you mean shop?\n"


async def test_the_only_service_at_the_root_has_no_name(two: Two) -> None:
    ran = await run("tools", "--service", "crm", *settings(two.crm.url))
    assert ran.code == 2
    assert ran.err == "--service crm: is not a service; the only one has no name: leave --service out\n"


async def test_a_service_that_is_the_only_one_in_services_need_not_be_named(two: Two) -> None:
    tree = two.written()
    two.written(services={"crm": tree["services"]["crm"]})
    ran = await two.run("tools")
    assert (ran.code, ran.out.split("(")[0]) == (0, "greet")


async def test_changes_are_told_of_the_service_of_the_same_name(two: Two) -> None:
    other = two.file.with_name("other.yaml")
    tree = two.written()
    tree["services"]["shop"]["catalog"] = {"tools": {"order": {"title": "Order"}}}
    other.write_text(json.dumps(tree))
    ran = await two.run("tools", "--diff", str(other), "--service", "crm")
    assert (ran.code, ran.out) == (0, "no difference\n")
    ran = await two.run("tools", "--diff", str(other), "--service", "shop")
    assert (ran.code, ran.out.splitlines()[0]) == (1, "~ order")
    tree["services"] = {"one": tree["services"]["shop"]}
    other.write_text(json.dumps(tree))
    assert (await two.run("tools", "--diff", str(other), "--service", "shop")).code == 1
    tree["services"]["two"] = tree["services"]["one"]
    other.write_text(json.dumps(tree))
    ran = await two.run("tools", "--diff", str(other), "--service", "shop")
    assert ran.code == 2
    assert f"--diff {other}: has the services one, two, and none with the name of this one." in ran.err


async def test_pins_are_written_for_one_service(two: Two) -> None:
    tree = two.written()
    tree["services"]["shop"]["catalog"] = {"pin": "shop.pins"}
    two.written(services=tree["services"])
    ran = await two.run("tools", "--pin", "--service", "crm")
    assert (ran.code, ran.err) == (
        2,
        "services.crm.catalog.pin names no file to write the pins to: --set services.crm.catalog.pin=tools.pin\n",
    )
    ran = await two.run("tools", "--pin", "--service", "shop")
    assert (ran.code, ran.err) == (0, "")
    assert list(json.loads(two.file.with_name("shop.pins").read_text())["tools"]) == ["order"]
