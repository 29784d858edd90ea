"""Knobs of the catalog, and what the operator knows better than the listing."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue, field_validator

from gateway.settings.auth import scope_tokens
from gateway.settings.knobs import Section, knob
from gateway.units import Duration


class Annotations(Section):
    """MCP's hints to clients about a tool (tools "Tool annotations")."""

    title: str | None = knob(None, "Title.", live=True)
    readOnlyHint: bool | None = knob(None, "Changes nothing.", live=True)  # noqa: N815, MCP's name
    destructiveHint: bool | None = knob(None, "May destroy.", live=True)  # noqa: N815
    idempotentHint: bool | None = knob(None, "Again is as once.", live=True)  # noqa: N815
    openWorldHint: bool | None = knob(None, "Reaches beyond the service.", live=True)  # noqa: N815


class Argument(Section):
    """What the operator knows better than the listing about one argument."""

    schema_: dict[str, JsonValue] | None = Field(
        None, alias="schema", description="JSON Schema.", json_schema_extra={"reload": "live"}
    )
    description: str | None = knob(None, "Description.", live=True)
    required: bool | None = knob(None, "Whether it must be given.", live=True)


class ToolOverride(Section):
    """What the operator knows better than the listing about the methods that a pattern matches."""

    name: str | None = knob(
        None,
        "Name of the tool, in place of one made from the method's.",
        live=True,
        pattern=r"^[A-Za-z0-9_.-]{1,128}$",
    )
    title: str | None = knob(None, "Title.", live=True)
    description: str | None = knob(None, "Description.", live=True)
    annotations: Annotations = knob(Annotations, "Hints to clients.", live=True)
    scopes: tuple[str, ...] | None = knob(None, "OAuth scopes that a call needs, in place of the listing's.", live=True)
    timeout: Duration | None = knob(None, "Deadline of a call, in place of backend.timeout.", live=True, gt=0, le=3600)
    structure: Literal["by-name", "by-position"] | None = knob(
        None, "Shape of params, in place of the listing's.", live=True
    )
    arguments: dict[str, Argument] = knob(
        dict,
        "By name. Where the listing does not tell the parameters, these are all of them, in order.",
        live=True,
    )
    content: Literal["json", "blocks"] = knob(
        "json", "blocks: the method's result is MCP content itself (a list of blocks, or {content: [...]}).", live=True
    )
    input_required: bool = knob(
        False,
        "The method may answer {resultType: input_required, ...}: 2026-07-28 clients are asked, and their "
        "inputResponses come back to it among its named params.",
        live=True,
    )
    requires: dict[str, JsonValue] = knob(
        dict, "Client capabilities without which the tool cannot be called, e.g. {sampling: {}}.", live=True
    )
    confirm: bool | None = knob(
        None,
        "Ask the person through the client before each call; absent: as catalog.confirm_destructive says.",
        live=True,
    )
    output_schema: dict[str, JsonValue] | bool | None = knob(
        None, "JSON Schema of the result, in place of the listing's; false: none.", live=True
    )

    @field_validator("scopes")
    @classmethod
    def _check_scopes(cls, scopes: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if scopes is None else scope_tokens(scopes)


class CatalogSettings(Section):
    """Which methods become tools, and how long a listing is good."""

    ttl: Duration = knob(300.0, "Age at which a listing is refreshed, in the background.", live=True, ge=0.05, le=86400)
    max_stale: Duration = knob(
        86400.0,
        "Age up to which the last good listing serves while refreshing fails.",
        live=True,
        ge=0,
        le=30 * 86400,
    )
    notify_interval: Duration = knob(
        10.0, "Least time between two notices to clients that tools changed; the first comes at once.", live=True, ge=0
    )
    page_size: int = knob(500, "Most tools on one page of MCP's tools/list.", live=True, ge=1, le=5000)
    rest_page_size: int = knob(50, "Most tools on one page of GET /mcp/tools/list.", live=True, ge=1, le=5000)
    include: tuple[str, ...] = knob(("*",), "Patterns of backend methods to offer.", live=True)
    exclude: tuple[str, ...] = knob(
        ("rpc.*", "system.*", "JSONRPC.*", "*.shutdown", "*.forceShutdown", "shutdown"),
        "Patterns of backend methods to hide; stronger than include.",
        live=True,
    )
    trust_annotations: bool = knob(
        False,
        "Publish the backend's own readOnlyHint and its like as hints, rather than in _meta.",
        live=True,
    )
    confirm_destructive: bool = knob(
        False, "Ask the person before each call of a tool that is published with destructiveHint: true.", live=True
    )
    tools: dict[str, ToolOverride] = knob(
        dict,
        "Overrides by method name or pattern (node.*); of several that match, later ones win.",
        live=True,
    )
