"""A call of a tool that is not there is told which tool is probably meant: in few bytes, and at little cost."""

from __future__ import annotations

import pytest

from gateway.model import Binding, Catalog, NameStyle, Structure, Tool
from tests.each import each
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.front import front
from tests.pace import quickly
from tests.tables import each_row

pytestmark = pytest.mark.usefixtures("both_servers")

METHODS = tuple(Rpc(name) for name in ("books.search", "books.get", "orders.create", "add"))


@each_row
async def test_an_unknown_tool_is_told_the_nearest_one(name: str, message: str) -> None:
    async with ScriptedBackend(METHODS) as backend, front(backend.url) as gateway:
        called = await gateway.call("legacy", name, {})
        assert called.body["error"]["message"] == message
        assert not any(backend.calls(method.name) for method in METHODS)


@each("name", ["\U0001f600" * 64, "é" * 5000, "books_serach" * 400])
async def test_the_message_has_at_most_400_bytes(name: str) -> None:
    async with ScriptedBackend(METHODS) as backend, front(backend.url) as gateway:
        called = await gateway.call("legacy", name, {})
        assert len(called.body["error"]["message"].encode()) <= 400


def catalog(*names: str) -> Catalog:
    tools = (Tool(name, name, "", {"type": "object"}, Binding(name, Structure.BY_NAME)) for name in sorted(names))
    return Catalog(tuple(tools), "openrpc")


@pytest.mark.own_server("it starts no gateway")
@each(
    ("names", "asked"),
    [
        ([f"orders.create_{number:04}" for number in range(5000)], "orders.create_ba"),
        (["a" * 54 + f"{number:05}" + "a" * 5 for number in range(5000)], "a" * 64),
        ([f"{number:0128b}".replace("0", "ab")[:124] + "abab" for number in range(5000)], "ab" * 32),
        ([f"{number:064b}" for number in range(5000)], "01" * 32),
        (["a" * 123 + f"{number:05}" for number in range(5000)], "a" * 128),
    ],
)
def test_the_search_among_5000_names_is_quick(names: list[str], asked: str) -> None:
    listed = catalog(*names)
    with quickly():  # ten times what is expected
        listed.nearest_name(asked, NameStyle.MCP)
