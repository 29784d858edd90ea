"""Define the knobs of the catalog, and the operator's overrides of what a listing says."""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field, JsonValue, Secret, field_validator

from gateway.settings.auth import ScopeTokens
from gateway.settings.custom import PathToOne
from gateway.settings.knobs import Document, Section, knob, texts_in
from gateway.units import Duration, Rate, Size, format_duration

EXCLUDED: Final = (
    # Methods that describe the service.
    "rpc.*", "rpc_methods", "system.listMethods", "system.methodSignature", "system.methodHelp", "system.describe",
    "system.multicall", "system.listNotifications", "system.getCapabilities", "JSONRPC.*",
    # Methods that log in or out: the session would be the gateway's, shared by all callers.
    "login", "*.login", "*.login_*", "logout", "*.logout", "authenticate", "*.authenticate", "*.change_password",
    # Methods that stop the service or its host (aria2, Bitcoin Core, Electrum, monerod, Kodi, Kamailio).
    "stop", "stop_daemon", "*.stop_daemon", "shutdown", "*.shutdown", "*.forceShutdown", "*.reboot",
    "System.Shutdown", "System.Reboot", "System.Suspend", "System.Hibernate", "Application.Quit",
    "core.kill",
    # Methods that open a wallet (Bitcoin Core, Ethereum). gateway/catalog/curation.py finds those that reveal keys.
    "walletpassphrase", "personal_*",
)  # fmt: skip


MIN_RESULT: Final = 256
"""Bytes that always remain of a result: less tells a model nothing."""


class Annotations(Document):
    """MCP's hints to clients about a tool (specification of tools, "Tool annotations")."""

    readOnlyHint: bool | None = knob(None, "The tool changes nothing.")  # noqa: N815, MCP's name
    destructiveHint: bool | None = knob(None, "The tool may destroy data.")  # noqa: N815
    idempotentHint: bool | None = knob(None, "A repeated call has no further effect.")  # noqa: N815
    openWorldHint: bool | None = knob(None, "The tool reaches systems beyond the service.")  # noqa: N815


class Argument(Document):
    """The operator's overrides for one argument."""

    schema_: dict[str, JsonValue] | None = Field(None, alias="schema", description="JSON Schema.")
    description: str | None = knob(None, "Description.")
    required: bool | None = knob(
        None, "Whether callers must give the argument. Absent: as the listing says, or false with a default here."
    )
    default: Secret[JsonValue] | None = knob(
        None, "Value to send where the caller leaves the argument out. It is published in the schema."
    )
    hidden: bool = knob(
        False, "Callers do not see the argument and cannot set it. Its default is always sent, and may be a secret."
    )

    @property
    def has_default(self) -> bool:
        """Return whether there is a default, which may be null."""
        return "default" in self.model_fields_set

    def conflict(self) -> str:
        return "a hidden argument needs a default, which is always sent" if self.hidden and not self.has_default else ""


class ResultShown(Document):
    """What models are shown of a tool's results."""

    select: PathToOne | None = knob(
        None,
        "JSONPath (RFC 9535) of names and indexes to what is shown, e.g. $.data.items. A result without it is whole.",
    )
    fields: tuple[str, ...] = knob((), "Members to show of the object, or of each object in the list. Empty: all.")
    max: Size | None = knob(None, "Instead of catalog.results.max.", ge=MIN_RESULT)


class Results(Section):
    """What models are shown of the results of all tools. REST and /jsonrpc have them whole."""

    max: Size | None = knob(
        None, "Bytes of JSON beyond which a result is cut on MCP, and says how much is missing.", ge=MIN_RESULT
    )


class ToolOverride(Section):
    """The operator's overrides for the methods that a pattern matches."""

    name: str | None = knob(
        None,
        "Name of the tool, instead of one made from the method's. A * becomes what the pattern's one * matches.",
        pattern=r"^[A-Za-z0-9_.*-]{1,128}$",
    )
    title: str | None = knob(None, "Title.")
    description: str | None = knob(None, "Description.")
    annotations: Annotations = knob(Annotations, "MCP's hints to clients, e.g. {readOnlyHint: true}.")
    scopes: ScopeTokens | None = knob(None, "OAuth scopes that a call needs, instead of the listing's.")
    timeout: Duration | None = knob(None, "Deadline of a call, instead of backend.timeout.", gt=0, le=3600)
    limit: Rate | None = knob(
        None,
        "Calls of each tool per caller, in addition to limits.invocation. A tenth may come at once, or ten where the "
        "limit is at least ten.",
    )
    structure: Literal["by-name", "by-position", "by-name-in-list"] | None = knob(
        None, "Structure of params, instead of the listing's."
    )
    arguments: dict[str, Argument] = knob(
        dict,
        "Arguments by name, e.g. {sku: {description: Article number}}. Where the listing does not name the parameters, "
        "these are all parameters, in this order.",
    )
    mcp: tuple[Literal["blocks", "input_required", "elicitation", "roots", "sampling"], ...] = knob(
        (),
        "What the method itself has of MCP. blocks: its result is MCP content (a list of blocks, or {content: [...]}). "
        "input_required: it may answer {resultType: input_required, ...}; the client is then asked, and the method is "
        "called again with its inputResponses among the named params. elicitation, roots, sampling: capabilities of "
        "the client without which it cannot be called.",
    )
    confirm: bool | Literal["destructive"] | None = knob(
        None,
        "Ask the user through the client before each call. destructive: only where the tool is published with "
        "destructiveHint: true. Under the pattern * this applies to all tools.",
    )
    result: ResultShown = knob(ResultShown, "What models see of results, e.g. {select: $.items, fields: [id, name]}.")
    coerce: bool | None = knob(
        None,
        "Send the value that a text spells (5, true, a JSON object) where the schema takes no text. Absent: only for "
        "tools that are published with readOnlyHint: true.",
    )
    output_schema: dict[str, JsonValue] | bool | None = knob(
        None, "JSON Schema of the result, instead of the listing's. false: none."
    )
    audit: tuple[str, ...] = knob((), "Arguments whose values the audit shows with telemetry.audit.arguments: named.")

    @field_validator("confirm", mode="before")
    @classmethod
    def _check_confirm(cls, confirm: Any) -> Any:
        if not (confirm is None or isinstance(confirm, bool) or confirm == "destructive"):
            raise ValueError("must be true, false or destructive")
        return confirm


class SearchAbove(Document):
    """The size of a list from which on tool search takes its place."""

    above: int = knob(..., "Tokens, of four characters each.")


def _check_search(search: Any) -> Any:
    above = search.get("above") if isinstance(search, dict) and len(search) == 1 else None
    if isinstance(search, bool | SearchAbove) or (type(above) is int and above >= 0):
        return search
    raise ValueError("must be true, false or {above: 20000}, a number of tokens")


Search: TypeAlias = Annotated[bool | SearchAbove, BeforeValidator(_check_search, bool | SearchAbove)]
SEARCH: Final = SearchAbove(above=20_000)


class CatalogSettings(Section):
    """The methods that become tools, and how long a listing is valid."""

    ttl: Duration = knob(300.0, "Age at which a listing is refreshed in the background.", ge=0.05, le=86400)
    max_stale: Duration = knob(
        86400.0, "Age up to which the last good listing is served while refreshes fail.", ge=0, le=30 * 86400
    )
    fallback: str | None = knob(
        None,
        "File with a listing, as for backend.listing.dialect: static. It is served where no listing can be fetched and "
        "the last good one is older than max_stale.",
    )
    page_size: int = knob(
        5000,
        "Maximum number of tools on one page of tools/list; a page also ends at 8 MiB. GET /mcp/tools/list never has "
        "more than 50.",
        ge=1,
        le=5000,
    )
    include: tuple[str, ...] = knob(("*",), "Patterns of backend methods to offer.")
    exclude: tuple[str, ...] = knob(
        EXCLUDED,
        "Patterns of backend methods to hide, also where include matches. By default, methods whose names say that "
        "they reveal a secret (private keys, seeds, mnemonics, passwords) are hidden too. Your own list replaces both.",
    )
    names: Literal["mcp", "llm"] = knob(
        "llm",
        "Names of tools on /mcp, in tool search and on the command line. llm: as most LLM APIs accept them, "
        "[A-Za-z0-9_-]{1,64}. mcp: as MCP allows, [A-Za-z0-9_.-]{1,128}; REST and /jsonrpc always show these. "
        "A client can choose with ?names= on any URL. A call may use either name, or the method's own.",
    )
    trust_annotations: bool = knob(
        False, "Publish the backend's own hints (readOnlyHint and others) as hints. Otherwise they are in _meta."
    )
    search: Search = knob(
        SEARCH,
        "List two tools instead of all: search_tools finds the others by words, call_tool calls them. {above: 20000}: "
        "only where a model would read more tokens in the list than that; four characters of names, descriptions and "
        "input schemas count as one. Calls by name still work.",
    )
    results: Results = knob(Results, "What models are shown of results.")
    pin: str | None = knob(
        None,
        "File with what was reviewed of each tool (name, texts, schemas, who may call it, how it is called), written "
        "by `tools --pin`. A tool that is new or differs from its pin is not offered until it is pinned again.",
    )
    tools: dict[str, ToolOverride] = knob(
        dict, "Overrides by method name or pattern (node.*). Of several that match, later ones win."
    )

    def secrets(self) -> Iterator[str]:
        """Yield the texts in the values of hidden arguments: no caller may see them."""
        for override in self.tools.values():
            for argument in override.arguments.values():
                if argument.hidden:
                    yield from texts_in(argument.default)

    def conflict(self) -> str:
        if self.max_stale < self.ttl:
            return f"max_stale must be at least ttl, which is {format_duration(self.ttl)}"
        for pattern, override in self.tools.items():
            if override.name is not None and "*" in override.name and not has_one_star(pattern):
                return (
                    f'catalog.tools."{pattern}".name: * is replaced by what the * of the pattern matches, so the '
                    "pattern must have one * and no other wildcard"
                )
        return ""


def has_one_star(pattern: str) -> bool:
    return pattern.count("*") == 1 and not set("?[") & set(pattern)
