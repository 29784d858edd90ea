"""Ask for the methods file of a service, and compare the tools that it gives with those of the listing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.program import run, settings


async def written_and_read(url: str, file: Path, *knobs: str, needed: tuple[str, ...] = ()) -> str:
    """Write the file, and check that it gives the same tools. ``needed`` are the knobs that it names. Return it."""
    ran = await run("methods", *settings(url, *knobs))
    assert ran.code == 0, ran.said
    await asyncio.to_thread(file.write_text, ran.out, encoding="utf-8")
    assert all(f"#   {knob.replace('=', ': ')}\n" in ran.out for knob in needed)
    static = ("backend.listing.dialect=static", f"backend.listing.file={file}")
    assert await _tools(url, *knobs, *needed, *static) == await _tools(url, *knobs)
    return ran.out


async def _tools(url: str, *knobs: str) -> list[dict[str, Any]]:
    ran = await run("tools", "--json", *settings(url, *knobs))
    assert ran.code == 0, ran.said
    tools: list[dict[str, Any]] = json.loads(ran.out)["tools"]
    assert tools
    members = ("name", "title", "description", "inputSchema", "outputSchema")
    return [{member: tool.get(member) for member in members} for tool in tools]
