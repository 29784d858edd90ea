"""aria2 is done when these two commands, typed as they stand here, put it before any MCP client."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from mcp.client.client import Client
from mcp.types import TextContent

from tests.program import Program, run
from tests.services.launch import ARIA2_SECRET
from tests.services.process import Service


def knobs(service: Service) -> list[str]:
    return [
        *("--set", f"backend.url={service.url}"),
        *("--set", f"backend.credentials={{mode: static, send: {{params: ['token:{ARIA2_SECRET}']}}}}"),
        *("--set", "auth.mode=off"),
    ]


@pytest.fixture
async def served(aria2: Service) -> AsyncIterator[Program]:
    """``serve``, which probes as ``check`` does, on free ports."""
    ports = ("--set", "server.port=0", "--set", "server.admin_port=0")
    async with Program("serve", *knobs(aria2), *ports) as program:
        await program.logged("listing refreshed")
        yield program


async def test_check_finds_the_tools_of_aria2(aria2: Service) -> None:
    ran = await run("check", *knobs(aria2))
    assert ran.code == 0, ran.said
    assert "dialect      introspection" in ran.out
    assert "tools        31" in ran.out
    assert "aria2_getVersion(" in ran.out
    assert "quarantined  0" in ran.out
    assert "name them under catalog.tools.*.arguments" in ran.out
    assert ARIA2_SECRET not in ran.said


async def test_the_official_client_lists_and_calls_aria2_in_every_mode(served: Program) -> None:
    port = (await served.logged("gateway started"))["port"]
    for mode in ("auto", "legacy", "2026-07-28"):
        async with Client(f"http://127.0.0.1:{port}/mcp", mode=mode) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert len(names) == 31
            assert "aria2_getVersion" in names
            result = await client.call_tool("aria2_getVersion", {})
            assert not result.is_error
            (block,) = result.content
            assert isinstance(block, TextContent)
            assert '"enabledFeatures"' in block.text
            assert ARIA2_SECRET not in result.model_dump_json()
    assert ARIA2_SECRET not in served.output
