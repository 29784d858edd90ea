"""What a listing's texts and signatures may cost to read: time linear in their size, and few questions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from gateway.backend.http import HttpTransport
from gateway.backend.request_parts import RequestParts
from gateway.backend.source import BackendSource
from gateway.http_client.response import Answer
from gateway.listing import help as help_pages
from gateway.listing import introspection, openrpc, smd
from gateway.listing.dialect import NoListing
from gateway.listing.docstrings import parse_docstring
from gateway.listing.entries import schema_of_word
from gateway.listing.jsonrpc_mcp import JsonrpcMcp
from gateway.listing.plain import Plain
from gateway.settings import ListingSettings
from tests.each import each
from tests.pace import quickly


@each("text", ["---\n\n" * 6000, "---\n" * 8000, "a:\n" * 10_000, "Args:\n" + " a:\n\n\n" * 5000])
def test_a_description_of_rules_and_titles_takes_linear_time(text: str) -> None:
    with quickly(0.3):
        parse_docstring(text, "f")


def test_a_line_of_help_with_many_words_takes_linear_time() -> None:
    line = "x " + " ".join(f"a{number}" for number in range(30_000))
    with quickly(0.3):
        (method,) = help_pages.parse_listing(f"== Other ==\n{line}", {}).methods
    assert method.parameters is not None
    assert method.parameters[0].name == "a0"


def test_a_page_with_many_forms_of_one_argument_takes_linear_time() -> None:
    page = "x\n\nArguments:\n" + "\n".join(f"1. a ({{{number}}})" for number in range(4000))
    with quickly(0.5):
        (method,) = help_pages.parse_listing("== Other ==\nx", {"x": page}).methods
    assert method.parameters is not None
    assert method.parameters[0].schema is True


def test_a_method_with_many_signatures_takes_linear_time() -> None:
    signatures = [["int"]] * 5000 + [["int"] * 5000]
    with quickly(0.3):
        listing = introspection.parse_listing(["f"], {"f": signatures[::-1]}, {})
    assert len(listing.methods[0].parameters or ()) == 4999


def test_a_type_of_many_alternatives_allows_any_value() -> None:
    with quickly(0.3):
        assert schema_of_word([{"const": number} for number in range(20_000)]) is True


def test_large_examples_and_errors_that_many_methods_share_are_read_in_part() -> None:
    shared = {
        "e": {"params": [{"$ref": "#/components/x/p"}], "result": {"value": "r" * 10**6}},
        "p": {"name": "p", "value": [{"k": "x" * 50}] * 20_000},
        "f": {"code": 1, "message": "a " * 10**6},
    }
    members = {"examples": [{"$ref": "#/components/x/e"}] * 2, "errors": [{"$ref": "#/components/x/f"}] * 10}
    methods = [{"name": f"m{number}", "params": [], **members} for number in range(50)]
    with quickly(0.5):
        listing = openrpc.parse_listing({"openrpc": "1.2.6", "components": {"x": shared}, "methods": methods})
    assert '{"p":[{"k":"xxx' in listing.methods[0].description
    assert listing.methods[0].description.endswith("rrr…")


def test_entries_that_refer_to_one_method_are_read_once() -> None:
    shared = {"name": "f", "params": [{"name": f"a{number}"} for number in range(1000)]}
    document = {"openrpc": "1.2.6", "x": {"f": shared}, "methods": [{"$ref": "#/x/f"}] * 1000}
    assert [method.name for method in openrpc.parse_listing(document).methods] == ["f"]


def test_parameters_of_all_methods_are_not_multiplied_without_bound() -> None:
    common = [{"name": f"a{number}", "type": "string"} for number in range(21)]
    document = {"SMDVersion": "2.0", "services": {"f": {}, "g": {}}, "parameters": common}
    listing = smd.parse_listing(document)
    assert [entry.name for entry in listing.quarantined] == ["f", "g"]
    assert "more than 20 parameters of all methods" in listing.quarantined[0].reason
    listing = smd.parse_listing({**document, "parameters": common[:20]})
    assert [len(method.parameters or ()) for method in listing.methods] == [20, 20]


URL = "http://backend.example/rpc"


class Names:
    """Answer ``system.listMethods`` with names, and each question about one with ``detail``."""

    def __init__(self, names: list[str], detail: Any) -> None:
        self.names = names
        self.detail = detail
        self.asked: list[str] = []

    async def request(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], *, timeout: float, max_bytes: int
    ) -> Answer:
        question = json.loads(body)
        listed = question["method"] == introspection.LIST
        if not listed:
            params = question["params"]
            self.asked.append(params[0] if isinstance(params, list) else "by name")
        result = self.names if listed else self.detail
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": result}
        return Answer(200, {"Content-Type": "application/json"}, json.dumps(answer).encode())

    async def close(self) -> None: ...


async def listed_by(service: Names, max_bytes: int = 2**20) -> dict[str, str]:
    source = BackendSource(
        HttpTransport(service, URL), URL, RequestParts(), listing=ListingSettings(timeout=60), max_bytes=max_bytes
    )
    listing = await introspection.SystemIntrospection().fetch_listing(source)
    return {method.name: method.description for method in listing.methods}


async def test_a_service_is_asked_once_about_a_name_that_stands_twice() -> None:
    service = Names([introspection.LIST, introspection.HELP, *["f"] * 500], "Adds.")
    assert (await listed_by(service))["f"] == "Adds."
    assert service.asked == ["f", "by name"]


async def test_a_service_is_asked_about_a_bounded_number_of_names() -> None:
    names = [f"f{number}" for number in range(5100)]
    service = Names([introspection.LIST, introspection.HELP, *names], "Adds.")
    descriptions = await listed_by(service)
    assert len(service.asked) == 5000 + 1, "and once by name"
    assert (descriptions["f4999"], descriptions["f5000"]) == ("Adds.", "")


async def test_the_answers_about_one_listing_are_bounded_together() -> None:
    names = [f"f{number}" for number in range(100)]
    service = Names([introspection.LIST, introspection.HELP, *names], "a" * 100_000)
    descriptions = await listed_by(service)
    assert len(service.asked) < 50
    assert len(descriptions["f0"]) == 100_000
    assert descriptions["f99"] == ""


async def test_a_page_that_fails_is_named_without_the_token_in_its_address() -> None:
    key = "7f9a2c41d8e04b3f9c6a5b1e2d3f4a5b"
    url = f"http://backend.example/{key}/rpc"
    transport = HttpTransport(Answering("", None), url)
    source = BackendSource(transport, url, RequestParts(), listing=ListingSettings(timeout=60), max_bytes=2**20)
    with pytest.raises(NoListing) as raised:
        await JsonrpcMcp().fetch_listing(source)
    assert "GET /…/mcp/tools/list" in str(raised.value)


class Answering:
    """Answer one method with a listing, and all other questions with HTTP 404."""

    def __init__(self, method: str, listing: Any) -> None:
        self.method = method
        self.listing = listing
        self.answered = False

    async def request(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], *, timeout: float, max_bytes: int
    ) -> Answer:
        question = json.loads(body) if method == "POST" else {}
        if question.get("method") != self.method:
            return Answer(404, {}, b"")
        answer = json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": self.listing}).encode()
        self.answered = True
        return Answer(200, {"Content-Type": "application/json"}, answer)

    async def close(self) -> None: ...


async def test_to_read_many_descriptions_does_not_hold_the_loop() -> None:
    entries = [{"name": f"f{number}", "description": ":param a: an a\n" * 40} for number in range(1500)]
    service = Answering("rpc_methods", entries)
    source = BackendSource(
        HttpTransport(service, URL), URL, RequestParts(), listing=ListingSettings(timeout=60), max_bytes=2**24
    )
    over = asyncio.Event()
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while not over.is_set():
            await asyncio.sleep(0)
            turns += service.answered

    async with asyncio.TaskGroup() as group:
        group.create_task(take_turns())
        listing = await Plain().fetch_listing(source)
        over.set()
    assert len(listing.methods) == 1500
    assert turns > 10
