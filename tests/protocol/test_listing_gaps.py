"""A list from which PHP took an element comes as an object, and is a list all the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tests.each import each
from tests.fault.behaviours import result
from tests.fault.scripted import ScriptedBackend
from tests.front import front

_TOOL: Final = {"description": "x", "inputSchema": {"type": "object"}}
_LISTINGS: Final[dict[str, tuple[str, str, dict[str, Any]]]] = {
    "jsonrpc_mcp": (
        "",  # which is asked for with GET
        "jsonrpc_mcp",
        {"tools": {"10": {"name": "c", **_TOOL}, "2": {"name": "a", **_TOOL}}, "nextCursor": None},
    ),
    "openrpc": (
        "rpc.discover",
        "openrpc",
        {
            "openrpc": "1.2.6",
            "info": {"title": "PHP", "version": "1"},
            "methods": {"0": {"name": "a", "params": []}, "2": {"name": "c", "params": []}},
        },
    ),
    "introspection": ("system.listMethods", "introspection", {"0": "a", "2": "c"}),
}


@each(("method", "dialect", "listing"), _LISTINGS)
async def test_a_list_with_gaps_is_a_list_in_an_answer_and_in_a_file(
    tmp_path: Path, method: str, dialect: str, listing: dict[str, Any]
) -> None:
    async with ScriptedBackend() as backend:
        if method:
            backend.on(method, result(listing))
            async with front(backend.url, f"backend.listing.dialect={dialect}") as gateway:
                assert [*await gateway.tools()] == ["a", "c"]
        file = tmp_path / "saved.json"
        file.write_text(json.dumps(listing))
        static = ("backend.listing.dialect=static", f"backend.listing.file={file}")
        async with front(backend.url, *static) as gateway:
            assert [*await gateway.tools()] == ["a", "c"]
