"""Which pages revisions share: those that show tools alike, and no others."""

from __future__ import annotations

from dataclasses import fields, replace

from gateway.mcp.projection import ToolProjector
from gateway.model import NameStyle


def test_whatever_changes_what_is_shown_changes_the_key() -> None:
    one = ToolProjector()
    others = {
        field.name: replace(one, **{field.name: NameStyle.MCP if field.name == "name_style" else not field.default})
        for field in fields(ToolProjector)
        if field.init
    }
    assert len({one.key, *(other.key for other in others.values())}) == len(others) + 1


def test_revisions_that_show_tools_alike_share_their_pages() -> None:
    assert (
        ToolProjector(titles=False).with_name_style(NameStyle.MCP).key
        == ToolProjector(titles=False, name_style=NameStyle.MCP).key
    )
