"""What we offer: tools, how they are called, and the catalogs they are in."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, TypeAlias

from gateway import jsonrpc
from gateway.model.listed import JsonObject, QuarantinedMethod, Schema, ServiceInfo, Structure, Version


class NameStyle(StrEnum):
    """Which of a tool's two names is shown: MCP's, or one that LLM APIs take (:mod:`gateway.catalog.names`).

    REST, the endpoints of tools and ``/jsonrpc`` show MCP's; what models read (``/mcp``, tool search) and the command
    line show those of ``catalog.names``. A client may choose.
    """

    MCP = "mcp"
    LLM = "llm"


@dataclass(frozen=True, slots=True)
class Binding:
    """How arguments become a backend call.

    ``order`` names the parameters by position; ``spread_argument`` is the one argument that holds all positional params
    of a method whose parameters are unknown. ``gap_values`` fill gaps between positions, ``sent`` are those that are
    sent wherever a caller gives nothing. ``declares_parameters`` is whether ``params`` is sent at all when there are no
    arguments. The operator's: ``default_arguments`` stand in for arguments that a caller leaves out,
    ``fixed_arguments`` are hidden from callers and sent with every call.

    All of these use the method's own names; ``own_names`` has them for arguments that are published under others.
    ``structure_is_known`` is False where nobody says that the method takes this ``structure``. ``repeatable`` is the
    operator's word that a second call does no harm. ``is_builtin`` is a tool of the gateway's own, for which no backend
    is called. ``version`` is that of JSON-RPC to call it by.
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
    version: Version = Version.TWO

    @property
    def published_order(self) -> tuple[str, ...]:
        """The parameters that a caller may give, by position and as they are published."""
        return tuple(
            self.publish_params(dict.fromkeys(name for name in self.order if name not in self.fixed_arguments))
        )

    def publish_params(self, params: JsonObject) -> dict[str, Any]:
        """Params by the method's own names, as arguments; published names stay."""
        shown = {own: name for name, own in self.own_names.items()}
        return {shown.get(name, name): value for name, value in params.items()}

    def complete_arguments(self, arguments: JsonObject) -> JsonObject:
        """A caller's arguments by the method's own names, with the operator's; what is hidden is not the caller's to
        choose."""
        own = {self.own_names.get(name, name): value for name, value in arguments.items()}
        return {**self.default_arguments, **own, **self.fixed_arguments}


@dataclass(frozen=True, slots=True)
class HeaderParameter:
    """An argument that clients mirror into an HTTP header: the header, the way to the value, its JSON type."""

    header: str
    path: tuple[str, ...]
    kind: str


HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
"""What a tool may say of its own harmlessness (MCP, ``ToolAnnotations``)."""

CLOSED: Final = {"additionalProperties": False}
"""What a schema of all arguments has besides, to refuse others."""

Demand: TypeAlias = tuple[bool, frozenset[str]]
"""What a tool takes of its caller: whether it is open to callers without a token, and scopes."""


@dataclass(frozen=True)
class Tool:
    """What we offer. ``input_schema`` and ``output_schema`` are self-contained JSON Schema 2020-12. Where they lack
    values that cannot be shown, ``input_check`` and ``output_check`` have them.

    ``closed`` tools take no arguments beyond those that ``input_schema`` names, although it does not say so: some LLM
    APIs refuse a schema with ``additionalProperties``.

    ``name`` is MCP's; a tool that is shown to models under another one has it in ``names``. ``requires`` are client
    capabilities without which the tool cannot be called. ``returns_blocks`` says that its results are MCP content
    already, ``input_required`` that it may ask the client for more input, ``confirm`` that a person has to agree to
    each call.
    """

    name: str
    method: str
    description: str
    input_schema: JsonObject
    binding: Binding
    title: str = ""
    output_schema: Schema | None = None
    input_check: JsonObject | None = None
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
    names: Mapping[NameStyle, str] = field(default_factory=dict)

    def name_for(self, name_style: NameStyle) -> str:
        """The name to show."""
        return self.names.get(name_style, self.name)

    @cached_property
    def digest(self) -> str:
        """Return a text that two tools share only if all their fields are equal. Raises :class:`ValueError` where JSON
        cannot say a field."""
        return hashlib.sha256(jsonrpc.encode_canonical(_members(self))).hexdigest()

    @cached_property
    def checked_schema(self) -> JsonObject:
        """What arguments are checked against."""
        schema = self.input_check or self.input_schema
        return {**schema, **CLOSED} if self.closed else schema

    @property
    def all_annotations(self) -> dict[str, Any]:
        """The service's own annotations with the published hints over them. Hints that the operator does not trust
        are not among them."""
        return all_annotations(self.annotations, self.meta)

    @property
    def demand(self) -> Demand:
        """The backend's level counts before its scopes (jsonrpc_mcp); a level that it does not give opens nothing."""
        is_open = self.auth_level in ("none", "optional")
        return is_open, frozenset() if is_open else self.scopes


def _members(noun: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as JSON has them. Those of its schemas are JSON already."""
    members = {field.name: getattr(noun, field.name) for field in fields(noun)}
    for name, value in members.items():
        if is_dataclass(value):
            members[name] = _members(value)
        elif isinstance(value, frozenset):
            members[name] = sorted(value)
        elif isinstance(value, tuple):
            members[name] = [_members(item) if is_dataclass(item) else item for item in value]
    return members


def all_annotations(published: JsonObject, meta: JsonObject) -> dict[str, Any]:
    """What is published of a tool's annotations, as hints and in its ``_meta``, untrusted hints aside."""
    own = {name: value for name, value in meta.get("annotations", {}).items() if name not in HINTS}
    return {**own, **published}


@dataclass(frozen=True)
class Catalog:
    """The tools at a moment, sorted by name.

    ``created_at`` is wall-clock seconds. ``hidden`` are the methods that the operator does not offer. ``service`` is
    what the listing says of the service itself, fit to show.
    """

    tools: tuple[Tool, ...]
    dialect: str
    created_at: float
    quarantined: tuple[QuarantinedMethod, ...] = ()
    notes: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    service: ServiceInfo = field(default_factory=ServiceInfo)

    @cached_property
    def digest(self) -> str:
        """Return a text that two catalogs share only if they offer the same tools."""
        return hashlib.sha256("".join(tool.digest for tool in self.tools).encode()).hexdigest()

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.tools)

    @cached_property
    def demands(self) -> frozenset[Demand]:
        """The different demands of its tools."""
        return frozenset(tool.demand for tool in self.tools)

    @cached_property
    def by_name(self) -> Mapping[str, Tool]:
        """The tools by each of their names, MCP's and the one for LLM APIs, and the only tool of a backend method also
        by that. Names come first."""
        by_method: dict[str, list[Tool]] = {}
        for tool in self.tools:
            by_method.setdefault(tool.method, []).append(tool)
        found = {method: tools[0] for method, tools in by_method.items() if len(tools) == 1}
        found |= {name: tool for tool in self.tools for name in tool.names.values()}
        return found | {tool.name: tool for tool in self.tools}
