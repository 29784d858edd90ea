"""Knobs of the catalog, and what the operator knows better than the listing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from pydantic import Field, JsonValue, Secret, field_validator, model_validator

from gateway.settings.auth import scope_tokens
from gateway.settings.knobs import Section, knob, texts_in
from gateway.units import Duration

EXCLUDED: Final = (
    # What services say about themselves.
    "rpc.*", "rpc_methods", "system.listMethods", "system.methodSignature", "system.methodHelp", "system.describe",
    "system.multicall", "system.listNotifications", "system.getCapabilities", "JSONRPC.*",
    # A session of its own that the service would have with the gateway.
    "login", "*.login", "*.login_*", "logout", "*.logout", "authenticate", "*.authenticate", "*.change_password",
    # The service's end (aria2, Bitcoin Core, Electrum, monerod, Kodi).
    "stop", "stop_daemon", "*.stop_daemon", "shutdown", "*.shutdown", "*.forceShutdown", "*.reboot",
    "System.Shutdown", "System.Reboot", "System.Suspend", "System.Hibernate", "Application.Quit",
    # What opens a wallet (Bitcoin Core, Ethereum). What gives its keys away is told by words: gateway/catalog/risks.py.
    "walletpassphrase", "personal_*",
)  # fmt: skip
"""Methods that are no business of a model's, unless the operator says otherwise."""


class Annotations(Section):
    """MCP's hints to clients about a tool (tools "Tool annotations")."""

    title: str | None = knob(None, "Title.")
    readOnlyHint: bool | None = knob(None, "Changes nothing.")  # noqa: N815, MCP's name
    destructiveHint: bool | None = knob(None, "May destroy.")  # noqa: N815
    idempotentHint: bool | None = knob(None, "Again is as once.")  # noqa: N815
    openWorldHint: bool | None = knob(None, "Reaches beyond the service.")  # noqa: N815


class Argument(Section):
    """What the operator knows better than the listing about one argument."""

    schema_: dict[str, JsonValue] | None = Field(None, alias="schema", description="JSON Schema.")
    description: str | None = knob(None, "Description.")
    required: bool | None = knob(
        None, "Whether it must be given; absent: as the listing says, or no where there is a default here."
    )
    default: Secret[JsonValue] | None = knob(
        None, "Sent where the caller leaves the argument out, and published in its schema."
    )
    hidden: bool = knob(
        False, "Not shown to callers, refused from them, and always sent with its default, which may be a secret.",
    )  # fmt: skip

    @property
    def has_default(self) -> bool:
        """Tell whether there is one; null is one too."""
        return "default" in self.model_fields_set

    @model_validator(mode="after")
    def _check_hidden(self) -> Argument:
        if self.hidden and not self.has_default:
            raise ValueError("a hidden argument needs a default, which is what is sent")
        return self


class ToolOverride(Section):
    """What the operator knows better than the listing about the methods that a pattern matches."""

    name: str | None = knob(
        None,
        "Name of the tool, in place of one made from the method's; * is what the pattern's one * stands for.",
        pattern=r"^[A-Za-z0-9_.*-]{1,128}$",
    )
    title: str | None = knob(None, "Title.")
    description: str | None = knob(None, "Description.")
    annotations: Annotations = knob(Annotations, "Hints to clients.")
    scopes: tuple[str, ...] | None = knob(None, "OAuth scopes that a call needs, in place of the listing's.")
    timeout: Duration | None = knob(None, "Deadline of a call, in place of backend.timeout.", gt=0, le=3600)
    structure: Literal["by-name", "by-position", "by-name-in-list"] | None = knob(
        None, "Shape of params, in place of the listing's."
    )
    arguments: dict[str, Argument] = knob(
        dict,
        "By name. Where the listing does not tell the parameters, these are all of them, in order.",
    )
    content: Literal["json", "blocks"] = knob(
        "json", "blocks: the method's result is MCP content itself (a list of blocks, or {content: [...]})."
    )
    input_required: bool = knob(
        False,
        "The method may answer {resultType: input_required, ...}: 2026-07-28 clients are asked, and their "
        "inputResponses come back to it among its named params.",
    )
    requires: dict[str, JsonValue] = knob(
        dict, "Client capabilities without which the tool cannot be called, e.g. {sampling: {}}."
    )
    confirm: bool | None = knob(
        None,
        "Ask the person through the client before each call; absent: as catalog.confirm_destructive says.",
    )
    output_schema: dict[str, JsonValue] | bool | None = knob(
        None, "JSON Schema of the result, in place of the listing's; false: none."
    )

    @field_validator("scopes")
    @classmethod
    def _check_scopes(cls, scopes: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if scopes is None else scope_tokens(scopes)


class CatalogSettings(Section):
    """Which methods become tools, and how long a listing is good."""

    ttl: Duration = knob(300.0, "Age at which a listing is refreshed, in the background.", ge=0.05, le=86400)
    max_stale: Duration = knob(
        86400.0,
        "Age up to which the last good listing serves while refreshing fails.",
        ge=0,
        le=30 * 86400,
    )
    fallback: str | None = knob(
        None,
        "Listing file, as for backend.listing.dialect: static, that serves where no listing can be had and the last "
        "good one is older than max_stale.",
    )
    max_tools: int = knob(
        5000, "Most methods to offer. A listing with more is not used, and the last good one serves.", ge=1
    )
    views_at_once: int = knob(
        8, "Most listings of callers' own views asked for at a time; further callers wait their turn.", ge=1, le=1000
    )
    notify_interval: Duration = knob(
        10.0, "Least time between two notices to clients that tools changed; the first comes at once.", ge=0
    )
    page_size: int = knob(500, "Most tools on one page of MCP's tools/list.", ge=1, le=5000)
    rest_page_size: int = knob(50, "Most tools on one page of GET /mcp/tools/list.", ge=1, le=5000)
    include: tuple[str, ...] = knob(("*",), "Patterns of backend methods to offer.")
    exclude: tuple[str, ...] = knob(
        EXCLUDED,
        "Patterns of backend methods to hide; stronger than include. Besides these, methods are hidden whose names say "
        "that they reveal a secret (private keys, seeds, mnemonics, passwords). A list of your own replaces both.",
    )
    names: Literal["mcp", "llm"] = knob(
        "llm",
        "Names of tools on /mcp, in tool search and on the command line. llm: as most LLM APIs take them, "
        "[A-Za-z0-9_-]{1,64}. mcp: as MCP allows, [A-Za-z0-9_.-]{1,128}, and as REST and /jsonrpc always show them. "
        "A client chooses with ?names= on any URL; calls may use either, or the method's own name.",
    )
    trust_annotations: bool = knob(
        False,
        "Publish the backend's own readOnlyHint and its like as hints, rather than in _meta.",
    )
    confirm_destructive: bool = knob(
        False, "Ask the person before each call of a tool that is published with destructiveHint: true."
    )
    search: bool = knob(
        False,
        "List two tools in place of all: search_tools finds the others by words, call_tool calls them. For catalogs "
        "too large for a model's context; calls by name work as ever.",
    )
    pin: str | None = knob(
        None,
        "File with what was reviewed of each tool (name, texts, schemas, who may call it, how it is called), written "
        "by `tools --pin`. A backend that changes a tool afterwards is found out.",
    )
    pin_mode: Literal["hold", "report"] = knob(
        "hold",
        "hold: a tool that is new or differs from its pin is not offered until pinned anew. "
        "report: it is offered, and `check` and the log name it; the scopes of its pin are still needed.",
    )
    tools: dict[str, ToolOverride] = knob(
        dict,
        "Overrides by method name or pattern (node.*); of several that match, later ones win.",
    )

    def secrets(self) -> Iterator[str]:
        """The texts in the values of hidden arguments, which nobody is to see."""
        for override in self.tools.values():
            for argument in override.arguments.values():
                if argument.hidden and argument.default is not None:
                    yield from texts_in(argument.default.get_secret_value())

    @model_validator(mode="after")
    def _check_names(self) -> CatalogSettings:
        for pattern, override in self.tools.items():
            if override.name is not None and "*" in override.name and not has_one_star(pattern):
                raise ValueError(
                    f'catalog.tools."{pattern}".name: * stands for what the * of the pattern does, so the pattern '
                    "must have one * and no other wildcard"
                )
        return self


def has_one_star(pattern: str) -> bool:
    return pattern.count("*") == 1 and not set("?[") & set(pattern)
