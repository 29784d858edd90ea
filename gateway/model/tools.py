"""Define what the gateway offers: tools, how each is called, and catalogs of them."""

import difflib
import hashlib
from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cached_property
from itertools import islice
from operator import itemgetter
from typing import Any, Final, TypeAlias

from gateway import jsonrpc
from gateway.model.listed import (
    EndpointFault,
    JsonObject,
    MessageForm,
    QuarantinedMethod,
    Schema,
    ServiceInfo,
    Structure,
)
from gateway.model.schema_keywords import without_booleans


class NameStyle(StrEnum):
    """Name which of a tool's two names is shown: MCP's, or one that LLM APIs accept (:mod:`gateway.catalog.names`).

    REST, the endpoints of tools and ``/jsonrpc`` show MCP's. ``/mcp``, tool search and the command line show what
    ``catalog.names`` says. A client may choose.
    """

    MCP = "mcp"
    LLM = "llm"


@dataclass(frozen=True, slots=True)
class Binding:
    """Hold how arguments become a backend call.

    ``order`` names the parameters by position; ``spread_argument`` is the one argument that holds all positional params
    of a method whose parameters are unknown. ``gap_values`` fill gaps between positions; ``sent`` are defaults that
    are sent for arguments that the caller leaves out. ``declares_parameters`` says whether ``params`` is sent without
    arguments. Two fields are the operator's: ``default_arguments`` replace arguments that a caller leaves out;
    ``fixed_arguments`` are hidden from callers and sent with every call.

    All of these use the method's own names. ``own_names`` maps a published name to the method's, where they differ.
    ``structure_is_known`` is False where ``structure`` is a guess. ``repeatable`` says that, by the operator's
    statement, a second call does no harm. ``is_builtin`` is a tool of the gateway itself, without a backend call.
    ``audited`` are the published arguments whose values the audit may show. ``form`` is that of the message.
    """

    method: str
    structure: Structure
    order: tuple[str, ...] = ()
    spread_argument: str | None = None
    gap_values: JsonObject = field(default_factory=dict)
    sent: JsonObject = field(default_factory=dict)
    declares_parameters: bool = True
    notification: bool = False
    endpoint: str | None = None
    timeout: float | None = None
    default_arguments: JsonObject = field(default_factory=dict)
    fixed_arguments: JsonObject = field(default_factory=dict, repr=False)
    own_names: Mapping[str, str] = field(default_factory=dict)
    structure_is_known: bool = True
    repeatable: bool = False
    is_builtin: bool = False
    audited: tuple[str, ...] = ()
    form: MessageForm = field(default_factory=MessageForm)

    @property
    def published_order(self) -> tuple[str, ...]:
        """Return the published names of the parameters that a caller may give, by position."""
        return tuple(
            self.publish_params(dict.fromkeys(name for name in self.order if name not in self.fixed_arguments))
        )

    def publish_params(self, params: JsonObject) -> dict[str, Any]:
        """Return params by their published names, of params by the method's own names. Published names stay."""
        published = {own: name for name, own in self.own_names.items()}
        return {published.get(name, name): value for name, value in params.items()}

    def complete_arguments(self, arguments: JsonObject) -> JsonObject:
        """Return a caller's and the operator's arguments by the method's own names. Fixed ones win."""
        own = {self.own_names.get(name, name): value for name, value in arguments.items()}
        return {**self.default_arguments, **own, **self.fixed_arguments}


@dataclass(frozen=True, slots=True)
class HeaderParameter:
    """Hold an argument that clients copy into a header: the header, the path to the value, and its JSON type."""

    header: str
    path: tuple[str, ...]
    kind: str


@dataclass(frozen=True, slots=True)
class ResultFit:
    """Hold what models are shown of results: what is at the JSONPath ``select``, the ``fields`` of its objects, and no
    more than ``most`` bytes of JSON."""

    select: str | None = None
    fields: tuple[str, ...] = ()
    most: int | None = None


HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
"""Hints of MCP on what a tool may do (``ToolAnnotations``)."""

_TYPE_ALONE: Final = {"type", "title", "description"}

CLOSED: Final = {"additionalProperties": False}
"""Keyword that makes a schema of all arguments refuse others."""

_NEAR: Final = 4
_ON_PARAMS: Final = (
    "Where a tool takes params alone, they are the parameters of its method: by position a list, by name an object."
)

Demand: TypeAlias = tuple[bool, frozenset[str]]
"""Demands of a tool on its caller: whether it is open to callers without a token, and the scopes that it needs."""


@dataclass(frozen=True)
class Tool:
    """Hold a tool that the gateway offers.

    ``input_schema`` and ``output_schema`` are self-contained JSON Schema 2020-12. Where they lack values that may not
    be published, ``input_check`` and ``output_check`` are the complete schemas to check against.
    ``shown_input`` is what models see of ``input_schema``, where it is shorter: it accepts the same arguments.
    ``drops_defaults`` says that it lacks defaults that ``input_schema`` refuses.
    A ``closed`` tool refuses arguments that ``input_schema`` does not name, although the schema does not say so: some
    LLM APIs refuse a schema with ``additionalProperties``.

    ``name`` is MCP's; ``names`` has others by style. ``requires`` are client capabilities without which the tool cannot
    be called. ``returns_blocks`` says that its results are MCP content already, ``input_required`` that it may ask the
    client for more input, ``confirm`` that a person has to agree to each call, ``coerces`` that a text may become the
    value that it spells. ``limit`` is the rate at which each caller may call it, such as ``10/minute``. ``fit`` says
    how results are shortened for models.
    """

    name: str
    method: str
    description: str
    input_schema: JsonObject
    binding: Binding
    title: str = ""
    output_schema: Schema | None = None
    input_check: JsonObject | None = None
    shown_input: JsonObject | None = None
    drops_defaults: bool = False
    output_check: JsonObject | None = None
    annotations: JsonObject = field(default_factory=dict)
    meta: JsonObject = field(default_factory=dict)
    scopes: frozenset[str] = frozenset()
    auth_level: str = ""
    headers: tuple[HeaderParameter, ...] = ()
    requires: JsonObject = field(default_factory=dict)
    returns_blocks: bool = False
    input_required: bool = False
    confirm: bool = False
    closed: bool = False
    coerces: bool = False
    fit: ResultFit | None = None
    limit: str | None = None
    names: Mapping[NameStyle, str] = field(default_factory=dict)

    def name_for(self, name_style: NameStyle) -> str:
        """Return the tool's name in this style."""
        return self.names.get(name_style, self.name)

    def schemas_for(self, name_style: NameStyle) -> tuple[JsonObject, Schema | None]:
        """Return the input and the output schema that are shown with names in this style."""
        inputs, output = self.shown_input or self.input_schema, self.published_output
        if name_style is NameStyle.MCP:
            return inputs, output
        return without_booleans(inputs), without_booleans(output, of_results=True)

    def renamed(self, names: Mapping[NameStyle, str], scopes: frozenset[str]) -> "Tool":
        """Return the tool under other names, with more scopes. Both share their schemas."""
        tool = replace(self, name=names[NameStyle.MCP], names=names, scopes=self.scopes | scopes)
        text = "\n".join((self.digest, *names.values(), *sorted(tool.scopes)))
        # The digest of all fields takes a hundred times as long.
        vars(tool)["digest"] = hashlib.sha256(text.encode()).hexdigest()
        return tool

    @property
    def published_output(self) -> Schema | None:
        """Return the output schema that clients see: none where ``fit`` changes what they get."""
        return self.output_schema if self.fit is None else None

    @cached_property
    def digest(self) -> str:
        """Return a text that two tools share only if all their fields are equal. Raises :class:`ValueError` for a field
        that JSON cannot represent."""
        # As a dict, so that the depth of its values is checked.
        members = {field.name: getattr(self, field.name) for field in fields(self)}
        return hashlib.sha256(jsonrpc.encode_canonical(members)).hexdigest()

    @cached_property
    def checked_schema(self) -> JsonObject:
        """Return the schema that arguments are checked against."""
        schema = self.input_check or self.input_schema
        return {**schema, **CLOSED} if self.closed else schema

    @cached_property
    def reads_results(self) -> bool:
        """Return whether the gateway looks into the tool's results. Others are only passed on, where they have the type
        that the schema may name."""
        schema = self.output_check or self.output_schema
        has_rules = isinstance(schema, Mapping) and not schema.keys() <= _TYPE_ALONE
        return self.returns_blocks or self.input_required or has_rules

    @cached_property
    def result_schema(self) -> JsonObject | None:
        """Return the schema that results are checked against, None where any result will do."""
        if self.output_schema is None or isinstance(self.output_schema, bool):
            return None
        return self.output_check or self.output_schema

    @cached_property
    def result_digest(self) -> str:
        """Return a text that stands for ``result_schema``."""
        return f"{self.digest}:out"

    @cached_property
    def is_plain(self) -> bool:
        """Return whether a call only goes to the service: the gateway does not answer it, nothing else is needed of the
        client, and the result does not say whether the call failed."""
        asks = self.confirm or self.input_required or self.requires
        return not (asks or self.returns_blocks or self.binding.is_builtin)

    @property
    def all_annotations(self) -> dict[str, Any]:
        """Return the service's own annotations, overridden by the published hints, without hints that the operator does
        not trust."""
        return all_annotations(self.annotations, self.meta)

    @cached_property
    def demand(self) -> Demand:
        """Return what the tool demands. The backend's level counts before its scopes (jsonrpc_mcp)."""
        is_open = self.auth_level in ("none", "optional")
        return is_open, frozenset() if is_open else self.scopes


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).casefold()


def all_annotations(published: JsonObject, meta: JsonObject) -> dict[str, Any]:
    """Return all published annotations of a tool: its hints, and those in its ``_meta`` that are not hints."""
    own = {name: value for name, value in meta.get("annotations", {}).items() if name not in HINTS}
    return {**own, **published}


@dataclass(frozen=True)
class Catalog:
    """Hold the tools of one listing, sorted by name.

    ``hidden`` are the methods that the operator does not offer. ``service`` is what the listing says of the service
    itself, cleaned. ``endpoints`` says where calls may not work.
    """

    tools: tuple[Tool, ...]
    dialect: str
    quarantined: tuple[QuarantinedMethod, ...] = ()
    notes: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    service: ServiceInfo = field(default_factory=ServiceInfo)
    endpoints: tuple[EndpointFault, ...] = ()

    @cached_property
    def digest(self) -> str:
        """Return a text that two catalogs share only if they offer the same tools."""
        return hashlib.sha256("".join(tool.digest for tool in self.tools).encode()).hexdigest()

    @cached_property
    def hints(self) -> tuple[str, ...]:
        """Return what a model should know of several of its tools, and is said once."""
        return (_ON_PARAMS,) if any(tool.binding.spread_argument for tool in self.tools) else ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.tools)

    @cached_property
    def demands(self) -> frozenset[Demand]:
        """Return the different demands of its tools."""
        return frozenset(tool.demand for tool in self.tools)

    @cached_property
    def _plain_names(self) -> list[tuple[str, Tool]]:
        return sorted(((_plain(tool.name), tool) for tool in self.tools), key=itemgetter(0))

    def nearest_name(self, name: str, style: NameStyle) -> str:
        """Return what to add to a message about an unknown name: the tool that is probably meant, "" where none is.

        Case and separators do not count, nor does a server's name in front, as clients show it: ``shop__get_order``. No
        limit counts such calls, so a dozen names are compared: neighbors in their order, and some that end alike."""
        if len(name) > 128:  # long names take long to compare
            return ""
        plain, known = _plain(name.rpartition("__")[2]), self._plain_names
        place = bisect(known, plain, key=itemgetter(0))
        alike = islice((one for one in known if one[0].endswith(plain[-4:])), _NEAR)
        near = dict((*known[max(0, place - _NEAR) : place + _NEAR], *alike))
        found = difflib.get_close_matches(plain, near, n=1)
        return f". Did you mean {near[found[0]].name_for(style)}?" if found else ""

    @cached_property
    def scopes(self) -> tuple[str, ...]:
        """Return all scopes that its tools demand, sorted."""
        return tuple(sorted({scope for _, scopes in self.demands for scope in scopes}))

    @cached_property
    def by_name(self) -> Mapping[str, Tool]:
        """Return the tools by each of their names, MCP's and the one for LLM APIs. A tool that is the only one of its
        backend method is also found by the method's name, where no tool has that name."""
        by_method: dict[str, list[Tool]] = {}
        for tool in self.tools:
            by_method.setdefault(tool.method, []).append(tool)
        found = {method: tools[0] for method, tools in by_method.items() if len(tools) == 1}
        found |= {name: tool for tool in self.tools for name in tool.names.values()}
        return found | {tool.name: tool for tool in self.tools}
